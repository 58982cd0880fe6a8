#include "tests/fuzz/cache_sample.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "generator/search_space.h"
#include "matrix/synthesis.h"
#include "search/choice/transfer.h"

namespace sparsmith::fuzz {
namespace {

const ProblemKey kProblem = {"pattern", "spmm_fp16_token_major_none", 8, "sm_90 132 SMs", "cold_weights"};
const char* const kConfig =
    "rows chunk_length=0 index_bytes=2 panel_tokens=0 row_order=0 threads_per_block=128 tokens_per_thread=1 "
    "vector_width=4";

void must(const Status& status) {
  if (!status.ok()) abort_on_error(status);
}

void fill(Cache& cache) {
  DeviceRecord device{"sm_90 132 SMs", "NVIDIA H200", 90, 132, std::int64_t{140} << 30, 4e12};
  MeasurementRecord measured;
  measured.key = kProblem;
  measured.device_id = cache.put_device(device).value();
  measured.environment_id = cache.put_environment({"580", "13.0", "0.1.0"}).value();
  measured.packing = "csr u16";
  must(cache.put_speeds("probe", {4e12, 8e12, 2.5}));
  must(cache.put_weight({"pattern", "values", 64, 96, 1200, "[0, 1, 5, 60]"}));
  KernelRecord kernel;
  kernel.key = {"rows_kernel", "closure", "sm_90", "13.0"};
  kernel.config = kConfig;
  kernel.cubin.assign(300, std::byte{7});
  must(cache.put_kernel(kernel));
  for (int i = 0; i < 12; ++i) {
    measured.config = i == 0 ? kConfig : "rows threads_per_block=" + std::to_string(i);
    const std::int64_t id = cache.begin(measured).value();
    MeasurementRecord outcome;
    outcome.status = i % 5 == 4 ? MeasurementStatus::kWrong : MeasurementStatus::kOk;
    outcome.reason = outcome.status == MeasurementStatus::kOk ? "" : "wrong result";
    outcome.median_us = outcome.q1_us = outcome.q3_us = 5.0 + i;
    outcome.samples = 15;
    must(cache.finish(id, outcome));
  }
  ChoiceRecord choice;
  choice.key = kProblem;
  choice.compute_capability = 90;
  choice.sm_count = 132;
  choice.kind = "generated";
  choice.config = kConfig;
  choice.packing = "csr u16";
  choice.closure_hash = "closure";
  choice.nvrtc_version = "13.0";
  choice.evidence = "measured";
  choice.families = "rows:12345678";
  choice.us = choice.q1_us = choice.q3_us = 5;
  must(cache.put_choice(choice));
}

std::string make_sample() {
  const std::string path = file_in_memory("sample");
  remove_database(path);
  {
    auto cache = Cache::open(path, Cache::Mode::kReadWrite);
    must(cache.status());
    fill(*cache);
    remove_database(path + ".copy");
    must(cache->export_to(path + ".copy"));
  }
  std::string bytes = read_file(path + ".copy").value();
  remove_database(path);
  remove_database(path + ".copy");
  return bytes;
}

struct Weight {
  SparsityStatistics statistics;
  Problem problem;
};

Weight make_weight() {
  SynthesisSpec spec{.rows = 64, .cols = 96, .sparsity = 0.8, .data_type = DataType::kFloat16, .seed = 1};
  Weight weight;
  weight.statistics = compute_statistics(synthesize(spec).value());
  weight.problem.spec = OperatorSpec::parse(kProblem.operator_name).value();
  weight.problem.spec.rows = spec.rows;
  weight.problem.spec.cols = spec.cols;
  weight.problem.tokens = kProblem.tokens;
  weight.problem.device = typical_device(90);
  return weight;
}

}  // namespace

const std::string& cache_sample() {
  static const std::string bytes = make_sample();
  return bytes;
}

std::string file_in_memory(const char* name) {
  const char* const folder = std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
  return std::string(folder) + "/sparsmith_fuzz_" + std::to_string(getpid()) + "_" + name;
}

void remove_database(const std::string& path) {
  for (const char* const suffix : {"", "-wal", "-shm", "-journal"}) unlink((path + suffix).c_str());
}

void read_all(Cache& cache) {
  static const Weight weight = make_weight();
  (void)cache.counts();
  (void)cache.weights();
  (void)cache.find_speeds("probe");
  if (const auto kernel = cache.find_kernel({"rows_kernel", "closure", "sm_90", "13.0"}); kernel.ok() && *kernel) {
    // The hash covers all of it but the config.
    if ((*kernel)->cubin != std::vector<std::byte>(300, std::byte{7})) std::abort();
  }
  if (const auto match = cache.find_choice(kProblem, 90, 132); match.ok() && match->quality != MatchQuality::kNone) {
    if (match->choice.config != kConfig || match->choice.us != 5) std::abort();
  }
  (void)cache.choices();
  ProblemKey another = kProblem;
  another.pattern_hash = "another";
  const Transfer::Hint hint = *Transfer(&cache).ask(another, profile_of(weight.statistics), {kProblem.tokens}, false);
  CandidateSelection selection;
  apply_hint(hint, weight.problem, weight.statistics, selection);
}

}  // namespace sparsmith::fuzz
