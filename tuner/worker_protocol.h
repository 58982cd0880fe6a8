// The requests that a parent sends to a worker, and the replies: each as a value, and as a message.
//
// encode() of a request views the large arrays of its arguments; decode copies them. Decoding checks everything a
// worker or parent relies on: kinds, sizes against each other, counts.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "formats/packed_weight.h"
#include "matrix/csr_matrix.h"
#include "runtime/device_properties.h"
#include "runtime/executor.h"
#include "runtime/operator_spec.h"
#include "tuner/message.h"
#include "tuner/worker.h"

namespace sparsmith {

struct PropertiesRequest {};
// The probe's kernel (tuner/speed_probe.h), if there is one; without it only the memory is measured.
struct SpeedsRequest {
  std::optional<KernelImage> probe;
};
// Runs the kernel of tuner/known_good_kernel.h, if there is one, and checks what it wrote; without it only memory is
// written and read.
struct KnownGoodRequest {
  std::optional<KernelImage> kernel;
};
// The fp64 reference kernel for one element type; without it the reference is computed on the CPU.
struct ReferenceKernelRequest {
  DataType type = DataType::kFloat32;
  KernelImage kernel;
};
// The kernel of tuner/output_comparison.h for one element type; without it, or without the next, outputs are compared
// on the CPU.
struct OutputComparisonKernelRequest {
  DataType type = DataType::kFloat32;
  KernelImage kernel;
};
// The kernel of tuner/fingerprint.h; without it packed weights are read back to see whether a candidate changed them.
struct FingerprintKernelRequest {
  KernelImage kernel;
};
struct WeightRequest {
  CsrMatrix matrix;
  OperatorSpec spec;
};
// Comes to the worker's memory, where it waits to be placed on the device; the next one takes its place.
struct PackingRequest {
  PackedWeight packed;
};
struct PlacePackingRequest {
  std::string name;
};
struct DropPackingRequest {
  std::string name;
};
struct TokensRequest {
  std::int64_t tokens = 1;
  std::uint64_t seed = 0;
};
struct VerifyRequest {
  LoadedCandidate candidate;
  std::chrono::milliseconds run_limit{0};  // what each run may take on the device (Executor::limit_runs())
};
struct TimeRequest {
  std::vector<LoadedCandidate> candidates;
  std::vector<std::string> vendors;
  TimingPolicy policy;
  bool unverified = false;  // candidates that were not verified are timed as well
};
struct VendorRequest {
  std::string name;
  TimingPolicy policy;
};

using WorkerRequest =
    std::variant<PropertiesRequest, SpeedsRequest, KnownGoodRequest, ReferenceKernelRequest,
                 OutputComparisonKernelRequest, FingerprintKernelRequest, WeightRequest, PackingRequest,
                 PlacePackingRequest, DropPackingRequest, TokensRequest, VerifyRequest, TimeRequest, VendorRequest>;

OutgoingMessage encode_properties_request();
OutgoingMessage encode_speeds_request(const std::optional<KernelImage>& probe);
OutgoingMessage encode_known_good_request(const std::optional<KernelImage>& kernel);
OutgoingMessage encode_reference_kernel_request(DataType type, const KernelImage& kernel);
OutgoingMessage encode_output_comparison_kernel_request(DataType type, const KernelImage& kernel);
OutgoingMessage encode_fingerprint_kernel_request(const KernelImage& kernel);
OutgoingMessage encode_weight_request(const CsrMatrix& matrix, const OperatorSpec& spec);
OutgoingMessage encode_packing_request(const PackedWeight& packed);
OutgoingMessage encode_place_packing_request(const std::string& name);
OutgoingMessage encode_drop_packing_request(const std::string& name);
OutgoingMessage encode_tokens_request(std::int64_t tokens, std::uint64_t seed);
OutgoingMessage encode_verify_request(const LoadedCandidate& candidate, std::chrono::milliseconds run_limit);
OutgoingMessage encode_time_request(const std::vector<LoadedCandidate>& candidates,
                                    const std::vector<std::string>& vendors, const TimingPolicy& policy,
                                    bool unverified = false);
OutgoingMessage encode_vendor_request(const std::string& name, const TimingPolicy& policy);

// Error: kInvalidInput, with what is wrong.
Result<WorkerRequest> decode_request(Message message);

// What a request is answered with; nothing where only success is to be said.
using WorkerReply =
    std::variant<std::monostate, DeviceProperties, DeviceSpeeds, Verification, std::vector<Timing>, VendorTiming>;

// In worker_reply.cc.
OutgoingMessage encode_reply(const Result<WorkerReply>& reply);
// The error that the worker sent, or kInvalidInput when the message is no reply.
Result<WorkerReply> decode_reply(const Message& message);

}  // namespace sparsmith
