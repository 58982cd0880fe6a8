// Draws what fuzz targets begin with where that follows from the code: every message of the worker and compiler
// protocols, as a frame and as message_bytes.h has it, and the file of a cache. Each message is understood, since a
// seed that is refused leads nowhere.
//   usage: draw_seeds FOLDER      makes FOLDER/{worker_protocol,compiler_protocol,cache_import}/<n>
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/file.h"
#include "matrix/synthesis.h"
#include "tests/fuzz/cache_sample.h"
#include "tests/fuzz/message_bytes.h"
#include "tests/support/message_frames.h"
#include "tests/support/packings.h"
#include "tuner/compile/compiler_calls.h"
#include "tuner/process/call_message.h"
#include "tuner/worker_calls.h"

namespace sparsmith {
namespace {

using Seeds = std::vector<std::string>;

void add(Seeds& seeds, const OutgoingMessage& message) {
  const std::vector<std::byte> frame = encode_frame(message);
  seeds.emplace_back(reinterpret_cast<const char*>(frame.data()), frame.size());
  seeds.push_back(fuzz::bytes_of_message(message));
}

template <class Call>
Status add_call(Seeds& seeds, const Call& call) {
  const OutgoingMessage message = encode_call(call);
  Call decoded;
  SPARSMITH_RETURN_IF_ERROR(decode_call(fuzz::received(message), decoded));
  add(seeds, message);
  return {};
}

template <class Reply>
Status add_reply(Seeds& seeds, const Result<Reply>& reply) {
  const OutgoingMessage message = encode_reply(reply);
  Result<Reply> decoded = reply;
  SPARSMITH_RETURN_IF_ERROR(decode_reply(fuzz::received(message), decoded));
  add(seeds, message);
  return {};
}

Result<Seeds> worker_messages() {
  const KernelImage image{"k", "void k()", {}, 1024};
  LaunchPlan plan;
  const CompiledCandidate candidate{plan, "csr u16", {image}};
  SynthesisSpec drawn{.rows = 3, .cols = 4, .sparsity = 0.5, .data_type = DataType::kFloat16, .seed = 1};
  SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix, synthesize(drawn));
  SPARSMITH_ASSIGN_OR_RETURN(const PackedWeight packed, pack_csr(matrix, {}, DataType::kFloat16));
  OperatorSpec spec;
  spec.rows = drawn.rows;
  spec.cols = drawn.cols;
  spec.type = DataType::kFloat16;
  const TimingPolicy policy;
  Seeds seeds;
  for (const WorkerCall& call : std::initializer_list<WorkerCall>{
           PropertiesCall{}, SpeedsCall{}, SpeedsCall{image}, KnownGoodCall{}, KnownGoodCall{image},
           OwnKernelCall{image}, WeightCall{matrix, spec}, PackingCall{packed}, PlacePackingCall{"csr u16"},
           DropPackingCall{"csr u16"}, TokensCall{8, 1}, VerifyCall{candidate, 100},
           TimeCall{{candidate, candidate}, {"cublas"}, policy}, VendorCall{"cublas", policy}})
    SPARSMITH_RETURN_IF_ERROR(add_call(seeds, call));
  const Timing timing{.median_us = 2, .q1_us = 1, .q3_us = 3, .samples_us = {1, 2, 3}, .copies = 2};
  SPARSMITH_RETURN_IF_ERROR(add_reply<Done>(seeds, Done()));
  SPARSMITH_RETURN_IF_ERROR(add_reply<DeviceProperties>(seeds, typical_device(90)));
  SPARSMITH_RETURN_IF_ERROR(add_reply<DeviceSpeeds>(seeds, DeviceSpeeds{4e12, 8e12, 2}));
  SPARSMITH_RETURN_IF_ERROR(add_reply<Verification>(seeds, Verification{}));
  SPARSMITH_RETURN_IF_ERROR(add_reply<std::vector<Timing>>(seeds, std::vector{timing, timing}));
  SPARSMITH_RETURN_IF_ERROR(add_reply<VendorTiming>(seeds, VendorTiming{}));
  SPARSMITH_RETURN_IF_ERROR(add_reply<Done>(seeds, device_error("lost")));
  return seeds;
}

Result<Seeds> compiler_messages() {
  const KernelSource kernel{"k", "extern \"C\" __global__ void k() {}", "hash", 32, 0, "sm_90a"};
  Seeds seeds;
  for (const CompilerCall& call :
       std::initializer_list<CompilerCall>{VersionCall{}, CompileCall{{kernel, "sm_90"}}, PtxCall{{kernel, "sm_90"}}})
    SPARSMITH_RETURN_IF_ERROR(add_call(seeds, call));
  CompiledKernel compiled;
  compiled.cubin.assign(4, std::byte{7});
  SPARSMITH_RETURN_IF_ERROR(add_reply<std::string>(seeds, std::string("13.0")));
  SPARSMITH_RETURN_IF_ERROR(add_reply<CompiledKernel>(seeds, compiled));
  SPARSMITH_RETURN_IF_ERROR(add_reply<std::string>(seeds, std::string(".version 9.0")));
  SPARSMITH_RETURN_IF_ERROR(add_reply<std::string>(seeds, invalid_input("it does not compile")));
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
