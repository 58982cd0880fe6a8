// Draws what fuzz targets begin with where that follows from the code: every message of the worker and compiler
// protocols, as a frame and as message_bytes.h has it, and the file of a cache. Each message is understood, since a
// seed that is refused leads nowhere.
//   usage: draw_seeds FOLDER      makes FOLDER/{worker_protocol,compiler_protocol,cache_import}/<n>
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "formats/csr.h"
#include "matrix/synthesis.h"
#include "tests/fuzz/cache_sample.h"
#include "tests/fuzz/message_bytes.h"
#include "tuner/compiler_protocol.h"
#include "tuner/worker_protocol.h"

namespace sparsmith {
namespace {

using Seeds = std::vector<std::string>;

void add(Seeds& seeds, const OutgoingMessage& message) {
  const std::vector<std::byte> frame = encode_frame(message);
  seeds.emplace_back(reinterpret_cast<const char*>(frame.data()), frame.size());
  seeds.push_back(fuzz::bytes_of_message(message));
}

bool is_request(const OutgoingMessage& message) { return decode_request(fuzz::received(message)).ok(); }

Result<Seeds> worker_messages() {
  const KernelImage image{"k", "void k()", {}, 1024};
  LaunchPlan plan;
  const LoadedCandidate candidate{plan, "csr u16", {image}};
  SynthesisSpec drawn{.rows = 3, .cols = 4, .sparsity = 0.5, .data_type = DataType::kFloat16, .seed = 1};
  SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix, synthesize(drawn));
  SPARSMITH_ASSIGN_OR_RETURN(const PackedWeight packed, pack_csr(matrix, {}, DataType::kFloat16));
  OperatorSpec spec;
  spec.rows = drawn.rows;
  spec.cols = drawn.cols;
  spec.type = DataType::kFloat16;
  const TimingPolicy policy;
  Seeds seeds;
  for (const OutgoingMessage& request :
       {encode_properties_request(), encode_speeds_request({}), encode_speeds_request(image),
        encode_known_good_request({}), encode_known_good_request(image),
        encode_reference_kernel_request(DataType::kFloat16, image),
        encode_output_comparison_kernel_request(DataType::kFloat32, image), encode_fingerprint_kernel_request(image),
        encode_weight_request(matrix, spec), encode_packing_request(packed), encode_place_packing_request("csr u16"),
        encode_drop_packing_request("csr u16"), encode_tokens_request(8, 1),
        encode_verify_request(candidate, std::chrono::milliseconds(100)),
        encode_time_request({candidate, candidate}, {"cublas"}, policy), encode_vendor_request("cublas", policy)}) {
    if (!is_request(request)) return internal_error("a request is not understood: " + request.header);
    add(seeds, request);
  }
  const Timing timing{.median_us = 2, .q1_us = 1, .q3_us = 3, .samples_us = {1, 2, 3}, .copies = 2};
  for (const Result<WorkerReply>& reply :
       {Result<WorkerReply>(std::monostate()), Result<WorkerReply>(typical_device(90)),
        Result<WorkerReply>(DeviceSpeeds{4e12, 8e12, 2}), Result<WorkerReply>(Verification{}),
        Result<WorkerReply>(std::vector<Timing>{timing, timing}), Result<WorkerReply>(VendorTiming{}),
        Result<WorkerReply>(device_error("lost"))}) {
    const OutgoingMessage message = encode_reply(reply);
    if (const auto again = decode_reply(fuzz::received(message)); again.ok() != reply.ok())
      return internal_error("a reply is not understood: " + message.header);
    add(seeds, message);
  }
  return seeds;
}

Result<Seeds> compiler_messages() {
  const KernelSource kernel{"k", "extern \"C\" __global__ void k() {}", "hash", 32, 0, "sm_90a"};
  Seeds seeds;
  for (const OutgoingMessage& request :
       {encode_version_request(), encode_compile_request(kernel, "sm_90"), encode_ptx_request(kernel, "sm_90")}) {
    SPARSMITH_RETURN_IF_ERROR(decode_compiler_request(fuzz::received(request)).status());
    add(seeds, request);
  }
  CompiledKernel compiled;
  compiled.cubin.assign(4, std::byte{7});
  for (const CompilerReply& reply :
       {CompilerReply(invalid_input("it does not compile")), CompilerReply(VersionReply{"13.0"}),
        CompilerReply(compiled), CompilerReply(PtxReply{".version 9.0"})}) {
    const OutgoingMessage message = encode_compiler_reply(reply);
    SPARSMITH_RETURN_IF_ERROR(decode_compiler_reply(fuzz::received(message)).status());
    add(seeds, message);
  }
  return seeds;
}

Status write_seeds(const std::filesystem::path& folder, const Result<Seeds>& seeds) {
  SPARSMITH_RETURN_IF_ERROR(seeds.status());
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return io_error(fmt::format("{}: {}", folder.string(), error.message()));
  for (std::size_t i = 0; i < seeds->size(); ++i)
    SPARSMITH_RETURN_IF_ERROR(write_file_atomically((folder / std::to_string(i)).string(), (*seeds)[i]));
  return {};
}

Status draw(const std::filesystem::path& folder) {
  SPARSMITH_RETURN_IF_ERROR(write_seeds(folder / "worker_protocol", worker_messages()));
  SPARSMITH_RETURN_IF_ERROR(write_seeds(folder / "compiler_protocol", compiler_messages()));
  return write_seeds(folder / "cache_import", Seeds{fuzz::cache_sample()});
}

}  // namespace
}  // namespace sparsmith

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  const sparsmith::Status status = sparsmith::draw(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return status.ok() ? 0 : 1;
}
