#include "tuner/worker_protocol.h"

#include <fmt/format.h>

#include <cstring>

#include "base/json_text.h"
#include "tuner/message_json.h"

namespace sparsmith {
namespace {

template <class T>
std::span<const std::byte> view(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

template <class T>
std::vector<T> copied(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

DataType data_type_of(const json& value) {
  const auto type = data_type_from_short_name(value.get_ref<const std::string&>());
  if (!type) refuse("no such data type: " + value.get<std::string>());
  return *type;
}

json to_json(const OperatorSpec& spec) {
  return {{"name", spec.name()}, {"rows", spec.rows}, {"cols", spec.cols}, {"nnz", spec.nnz}};
}

OperatorSpec spec_of(const json& value) {
  auto spec = OperatorSpec::parse(value.at("name").get_ref<const std::string&>());
  if (!spec.ok()) refuse(spec.status().message());
  spec->rows = integer_of(value.at("rows"));
  spec->cols = integer_of(value.at("cols"));
  spec->nnz = integer_of(value.at("nnz"));
  return *spec;
}

json to_json(const TimingPolicy& policy) {
  return {{"cold_weights", policy.cold_weights},
          {"programmatic", policy.programmatic},
          {"layers", policy.layers},
          {"min_replays", policy.min_replays},
          {"max_milliseconds", policy.max_milliseconds},
          {"limit_us", policy.limit_us}};
}

TimingPolicy policy_of(const json& value) {
  TimingPolicy policy;
  policy.cold_weights = value.at("cold_weights");
  policy.programmatic = value.at("programmatic");
  policy.layers = static_cast<int>(integer_of(value.at("layers"), 1'000'000));
  policy.min_replays = static_cast<int>(integer_of(value.at("min_replays"), 1'000'000));
  policy.max_milliseconds = value.at("max_milliseconds");
  policy.limit_us = value.at("limit_us");
  return policy;
}

// Takes blobs of a message in the order in which they were put there.
class BlobReader {
 public:
  explicit BlobReader(std::vector<std::vector<std::byte>> blobs) : blobs_(std::move(blobs)) {}
  std::vector<std::byte> next() {
    if (taken_ == blobs_.size()) refuse("a blob is missing");
    return std::move(blobs_[taken_++]);
  }
  void expect_end() const {
    if (taken_ != blobs_.size()) refuse("there are more blobs than were announced");
  }

 private:
  std::vector<std::vector<std::byte>> blobs_;
  std::size_t taken_ = 0;
};

json to_json(const KernelImage& kernel, OutgoingMessage& message) {
  message.blobs.push_back(view(kernel.cubin));
  return {{"name", kernel.name}, {"source", kernel.source}, {"max_shared_bytes", kernel.max_shared_bytes}};
}

KernelImage kernel_of(const json& value, BlobReader& blobs) {
  KernelImage kernel;
  kernel.name = value.at("name");
  kernel.source = value.at("source");
  kernel.max_shared_bytes = integer_of(value.at("max_shared_bytes"));
  kernel.cubin = blobs.next();
  return kernel;
}

json to_json(const LoadedCandidate& candidate, OutgoingMessage& message) {
  json kernels = json::array();
  for (const KernelImage& kernel : candidate.kernels) kernels.push_back(to_json(kernel, message));
  return {{"plan", sparsmith::to_json(candidate.plan)}, {"packing", candidate.packing}, {"kernels", kernels}};
}

LoadedCandidate candidate_of(const json& value, BlobReader& blobs) {
  LoadedCandidate candidate;
  auto plan = launch_plan_from_json(value.at("plan").get_ref<const std::string&>());
  if (!plan.ok()) refuse(plan.status().message());
  candidate.plan = *std::move(plan);
  candidate.packing = value.at("packing");
  for (const json& kernel : value.at("kernels")) candidate.kernels.push_back(kernel_of(kernel, blobs));
  return candidate;
}

WeightRequest weight_of(const json& header, BlobReader& blobs) {
  WeightRequest request;
  request.spec = spec_of(header.at("spec"));
  request.matrix.rows = integer_of(header.at("rows"));
  request.matrix.cols = integer_of(header.at("cols"));
  request.matrix.data_type = data_type_of(header.at("data_type"));
  request.matrix.row_offsets = copied<std::int64_t>(blobs.next());
  request.matrix.column_indices = copied<std::uint32_t>(blobs.next());
  request.matrix.values = copied<float>(blobs.next());
  if (!request.spec.fits(request.matrix)) refuse("the weight has another shape than the operator");
  return request;
}

PackingRequest packing_of(const json& header, BlobReader& blobs) {
  PackingRequest request;
  PackedWeight& packed = request.packed;
  packed.packing = header.at("packing");
  packed.packer_version = static_cast<int>(integer_of(header.at("packer_version"), 1'000'000));
  packed.rows = integer_of(header.at("rows"));
  packed.cols = integer_of(header.at("cols"));
  packed.nnz = integer_of(header.at("nnz"));
  packed.value_type = data_type_of(header.at("value_type"));
  for (const auto& [name, value] : header.at("facts").items()) packed.facts[name] = integer_of(value);
  for (const json& entry : header.at("arrays")) {
    PackedArray array;
    array.name = entry.at("name");
    array.type = data_type_of(entry.at("type"));
    array.bytes = blobs.next();
    if (array.bytes.size() % size_of(array.type) != 0) refuse("array " + array.name + " ends inside of an element");
    packed.arrays.push_back(std::move(array));
  }
  return request;
}

TimeRequest time_of(const json& header, BlobReader& blobs) {
  TimeRequest request;
  for (const json& candidate : header.at("candidates")) request.candidates.push_back(candidate_of(candidate, blobs));
  request.vendors = header.at("vendors").get<std::vector<std::string>>();
  request.policy = policy_of(header.at("policy"));
  request.unverified = header.at("unverified");
  return request;
}

WorkerRequest request_of(const json& header, BlobReader& blobs) {
  const auto& call = header.at("call").get_ref<const std::string&>();
  if (call == "properties") return PropertiesRequest{};
  if (call == "speeds") {
    if (!header.contains("probe")) return SpeedsRequest{};
    return SpeedsRequest{kernel_of(header.at("probe"), blobs)};
  }
  if (call == "known_good") {
    if (!header.contains("kernel")) return KnownGoodRequest{};
    return KnownGoodRequest{kernel_of(header.at("kernel"), blobs)};
  }
  if (call == "reference_kernel")
    return ReferenceKernelRequest{data_type_of(header.at("type")), kernel_of(header.at("kernel"), blobs)};
  if (call == "output_comparison_kernel")
    return OutputComparisonKernelRequest{data_type_of(header.at("type")), kernel_of(header.at("kernel"), blobs)};
  if (call == "fingerprint_kernel") return FingerprintKernelRequest{kernel_of(header.at("kernel"), blobs)};
  if (call == "weight") return weight_of(header, blobs);
  if (call == "packing") return packing_of(header, blobs);
  if (call == "place_packing") return PlacePackingRequest{header.at("packing")};
  if (call == "drop_packing") return DropPackingRequest{header.at("packing")};
  if (call == "tokens") {
    const auto seed = json_unsigned(header.at("seed"));
    const TokensRequest request{integer_of(header.at("tokens")), seed.value_or(0)};
    if (!seed) refuse("the seed is no integer of 64 bits");
    if (request.tokens < 0) refuse("tokens is negative");
    return request;
  }
  if (call == "verify") {
    const std::chrono::milliseconds run_limit(integer_of(header.at("run_limit_ms")));
    if (run_limit.count() < 0) refuse("a limit is negative");
    return VerifyRequest{candidate_of(header.at("candidate"), blobs), run_limit};
  }
  if (call == "time") return time_of(header, blobs);
  if (call == "vendor") return VendorRequest{header.at("name"), policy_of(header.at("policy"))};
  refuse("no such call: " + call);
}

OutgoingMessage message_of(const json& header) { return {.header = dumped(header), .blobs = {}}; }

OutgoingMessage typed_kernel_request(const char* call, DataType type, const KernelImage& kernel) {
  OutgoingMessage message;
  const json image = to_json(kernel, message);
  message.header = dumped({{"call", call}, {"type", short_name(type)}, {"kernel", image}});
  return message;
}

OutgoingMessage optional_kernel_request(const char* call, const char* key, const std::optional<KernelImage>& kernel) {
  OutgoingMessage message;
  json header = {{"call", call}};
  if (kernel) header[key] = to_json(*kernel, message);
  message.header = dumped(header);
  return message;
}

}  // namespace

OutgoingMessage encode_properties_request() { return message_of({{"call", "properties"}}); }

OutgoingMessage encode_speeds_request(const std::optional<KernelImage>& probe) {
  return optional_kernel_request("speeds", "probe", probe);
}

OutgoingMessage encode_known_good_request(const std::optional<KernelImage>& kernel) {
  return optional_kernel_request("known_good", "kernel", kernel);
}

OutgoingMessage encode_reference_kernel_request(DataType type, const KernelImage& kernel) {
  return typed_kernel_request("reference_kernel", type, kernel);
}

OutgoingMessage encode_output_comparison_kernel_request(DataType type, const KernelImage& kernel) {
  return typed_kernel_request("output_comparison_kernel", type, kernel);
}

OutgoingMessage encode_fingerprint_kernel_request(const KernelImage& kernel) {
  OutgoingMessage message;
  const json image = to_json(kernel, message);
  message.header = dumped({{"call", "fingerprint_kernel"}, {"kernel", image}});
  return message;
}

OutgoingMessage encode_weight_request(const CsrMatrix& matrix, const OperatorSpec& spec) {
  OutgoingMessage message = message_of({{"call", "weight"},
                                        {"spec", to_json(spec)},
                                        {"rows", matrix.rows},
                                        {"cols", matrix.cols},
                                        {"data_type", short_name(matrix.data_type)}});
  message.blobs = {view(matrix.row_offsets), view(matrix.column_indices), view(matrix.values)};
  return message;
}

OutgoingMessage encode_packing_request(const PackedWeight& packed) {
  OutgoingMessage message;
  json arrays = json::array();
  for (const PackedArray& array : packed.arrays) {
    arrays.push_back({{"name", array.name}, {"type", short_name(array.type)}});
    message.blobs.push_back(view(array.bytes));
  }
  message.header = dumped({{"call", "packing"},
                           {"packing", packed.packing},
                           {"packer_version", packed.packer_version},
                           {"rows", packed.rows},
                           {"cols", packed.cols},
                           {"nnz", packed.nnz},
                           {"value_type", short_name(packed.value_type)},
                           {"facts", packed.facts},
                           {"arrays", arrays}});
  return message;
}

OutgoingMessage encode_place_packing_request(const std::string& name) {
  return message_of({{"call", "place_packing"}, {"packing", name}});
}

OutgoingMessage encode_drop_packing_request(const std::string& name) {
  return message_of({{"call", "drop_packing"}, {"packing", name}});
}

OutgoingMessage encode_tokens_request(std::int64_t tokens, std::uint64_t seed) {
  return message_of({{"call", "tokens"}, {"tokens", tokens}, {"seed", seed}});
}

OutgoingMessage encode_verify_request(const LoadedCandidate& candidate, std::chrono::milliseconds run_limit) {
  OutgoingMessage message;
  const json encoded = to_json(candidate, message);
  message.header = dumped({{"call", "verify"}, {"candidate", encoded}, {"run_limit_ms", run_limit.count()}});
  return message;
}

OutgoingMessage encode_time_request(const std::vector<LoadedCandidate>& candidates,
                                    const std::vector<std::string>& vendors, const TimingPolicy& policy,
                                    bool unverified) {
  OutgoingMessage message;
  json encoded = json::array();
  for (const LoadedCandidate& candidate : candidates) encoded.push_back(to_json(candidate, message));
  message.header = dumped({{"call", "time"},
                           {"candidates", encoded},
                           {"vendors", vendors},
                           {"policy", to_json(policy)},
                           {"unverified", unverified}});
  return message;
}

OutgoingMessage encode_vendor_request(const std::string& name, const TimingPolicy& policy) {
  return message_of({{"call", "vendor"}, {"name", name}, {"policy", to_json(policy)}});
}

Result<WorkerRequest> decode_request(Message message) {
  return decoded<WorkerRequest>([&] {
    BlobReader blobs(std::move(message.blobs));
    WorkerRequest request = request_of(json::parse(message.header), blobs);
    blobs.expect_end();
    return request;
  });
}

}  // namespace sparsmith
