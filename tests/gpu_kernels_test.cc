// The drawn cases of emulated_kernels_test.cc on a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <utility>

#include "formats/packed_format.h"
#include "matrix/synthesis.h"
#include "runtime/gpu_executor.h"
#include "tests/support/compile_all.h"
#include "tests/support/kernel_cases.h"
#include "tests/support/value_writer_cases.h"
#include "tuner/compile/kernel_compiler.h"

namespace sparsmith::test {
namespace {

TEST(GpuKernelsTest, AgreeWithEigen) {
  auto executor = GpuExecutor::create(0);
  if (!executor.ok()) GTEST_SKIP() << "no GPU: " << executor.status().to_string();
  auto compiler = KernelCompiler::open();
  ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
  const std::uint64_t seed = seed_of_run();
  // compute-sanitizer slows every launch down: a smaller covering set is enough there.
  const char* kernels_given = std::getenv("SPARSMITH_TEST_KERNELS");
  const int kernels = kernels_given != nullptr ? std::atoi(kernels_given) : 300;
  const char* one_family = std::getenv("SPARSMITH_TEST_FAMILY");
  fmt::print("SPARSMITH_TEST_SEED={}\n", seed);

  std::vector<KernelCase> cases;
  for (const std::string& name : kernel_families()) {
    if (one_family != nullptr && name != one_family) continue;
    for (KernelCase& drawn : draw_cases(*family(name), seed, kernels, 8)) cases.push_back(std::move(drawn));
    if (name != "rows") continue;  // whose packings hold codes
    for (KernelCase& drawn : draw_coded_cases(seed, kernels, 8)) cases.push_back(std::move(drawn));
  }
  std::map<std::string, KernelSource> sources;
  for (const KernelCase& each : cases) {
    PackedWeight packed;
    auto candidate = generate_case(each, packed);
    ASSERT_TRUE(candidate.ok()) << each.text() << "\n" << candidate.status().to_string();
    for (KernelSource& kernel : candidate->kernels) sources.emplace(kernel.name, std::move(kernel));
  }
  std::vector<KernelSource> list;
  for (const auto& [name, source] : sources) list.push_back(source);
  const std::string architecture = fmt::format("sm_{}", (*executor)->properties().compute_capability);
  const auto compiled = compile_all(**compiler, list, architecture);

  const ImageOf image_of = [&](const KernelSource& kernel) -> Result<KernelImage> {
    const auto& binary = compiled.at(kernel.name);
    if (!binary.ok()) return binary.status();
    return KernelImage{kernel.name, kernel.source, binary->cubin, kernel.max_shared_bytes};
  };
  std::size_t not_proposed = 0;
  for (const KernelCase& each : cases) {
    const Status status = run_case(each, **executor, image_of);
    // How many algorithms a library proposes is its own matter.
    if (status.code() == StatusCode::kUnsupported && family(each.config.family)->by_library &&
        each.config.at("proposal") > 0) {
      ++not_proposed;
      continue;
    }
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << each.text() << "\n" << status.to_string();
  }
  fmt::print("{} cases, {} kernels on {}; {} cases left out, whose algorithm the library does not propose\n",
             cases.size() - not_proposed, list.size(), (*executor)->properties().name, not_proposed);
}

// Plans that write new values, launched plainly and as a captured graph that is replayed for each update.
class GpuValueWriterTest : public testing::Test {
 protected:
  void SetUp() override {
    auto executor = GpuExecutor::create(0);
    if (!executor.ok()) GTEST_SKIP() << "no GPU: " << executor.status().to_string();
    executor_ = std::move(*executor);
    auto compiler = KernelCompiler::open();
    ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
    compiler_ = std::move(*compiler);
  }
  void TearDown() override { drop_graph(); }

  Result<KernelImage> image_of(const KernelSource& kernel) {
    const std::string architecture = fmt::format("sm_{}", executor_->properties().compute_capability);
    SPARSMITH_ASSIGN_OR_RETURN(const CompiledKernel compiled, compiler_->compile(kernel, architecture));
    return KernelImage{kernel.name, kernel.source, compiled.cubin, kernel.max_shared_bytes};
  }

  void drop_graph() {
    if (graph_ != nullptr) executor_->driver().GraphExecDestroy(std::exchange(graph_, nullptr));
  }

  // Captures at the first call, replays at each.
  Status replay(const LaunchPlan& plan, const LaunchBindings& bindings) {
    const CudaContext::Scope scope(executor_->context());
    const CudaDriver& driver = executor_->driver();
    CUstream stream = executor_->stream();
    if (graph_ == nullptr) {
      SPARSMITH_RETURN_IF_ERROR(
          driver.check(driver.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "beginning a graph"));
      const Status enqueued = executor_->enqueue(plan, bindings, stream);
      CUgraph graph = nullptr;
      SPARSMITH_RETURN_IF_ERROR(driver.check(driver.StreamEndCapture(stream, &graph), "ending a graph"));
      SPARSMITH_RETURN_IF_ERROR(enqueued);
      SPARSMITH_RETURN_IF_ERROR(driver.check(driver.GraphInstantiate(&graph_, graph, 0), "making a graph"));
      driver.GraphDestroy(graph);
    }
    constexpr int kReplays = 40;  // that follow each other
    for (const int replays : {1, kReplays}) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < replays; ++i)
        SPARSMITH_RETURN_IF_ERROR(driver.check(driver.GraphLaunch(graph_, stream), "replaying a graph"));
      SPARSMITH_RETURN_IF_ERROR(driver.check(driver.StreamSynchronize(stream), "replaying a graph"));
      replay_us_ =
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / replays;
    }
    return {};
  }

  std::unique_ptr<GpuExecutor> executor_;
  std::unique_ptr<KernelCompiler> compiler_;
  CUgraphExec graph_ = nullptr;
  double replay_us_ = 0;  // of the last ones
};

TEST_F(GpuValueWriterTest, ArraysAreAsPackedAnew) {
  DrawnRandom random;
  for (const PackedFormat& format : packed_formats()) {
    for (const bool graph : {false, true}) {
      for (int round = 0; round < 10; ++round) {
        const RunPlan run = [this](const auto& plan, const auto& bindings) { return replay(plan, bindings); };
        const Status status = run_value_writer_case(
            draw_value_writer_case(random, format.name), random, *executor_,
            [this](const auto& kernel) { return image_of(kernel); }, graph ? run : RunPlan());
        ASSERT_TRUE(status.ok()) << status.to_string();
        drop_graph();
      }
    }
  }
}

TEST_F(GpuValueWriterTest, PrunedWeightsAreAsTheHostKeepsThem) {
  DrawnRandom random;
  for (int round = 0; round < 41; ++round) {
    PrunerCase drawn = draw_pruner_case(random);
    if (round == 40)
      drawn = {.rows = 8192, .cols = 8192, .type = DataType::kBFloat16, .source = DataType::kBFloat16, .updates = 1};
    const Status status = run_pruner_case(
        drawn, random, *executor_, [this](const auto& kernel) { return image_of(kernel); },
        [this](const auto& plan, const auto& bindings) { return replay(plan, bindings); });
    ASSERT_TRUE(status.ok()) << status.to_string();
    if (round == 40) fmt::print("8192 x 8192 pruned in {:.0f} us\n", replay_us_);
    drop_graph();
  }
}

// Large enough that numbers of nonzeros have two digits and a thread of the grid has several of them.
TEST_F(GpuValueWriterTest, LargeWeights) {
  DrawnRandom random;
  for (const char* packing :
       {"bitmap_r4_b8_scanned", "bsr_r4_all", "csr_u16_a8_sorted", "dense",
        "panel_r132_k1_w32_t4_l64_s2048_plain_turned", "scatter_byte_64x64_r12", "slots_delta8_v16_p1_b264", "two_four",
        "bsr_lines32", "bsr_lines32_transposed", "bsr_lines64_transposed"}) {
    SynthesisSpec spec{.rows = 4096, .cols = 4096, .sparsity = 0.9, .data_type = DataType::kFloat16, .seed = random()};
    const std::string_view name = packing;
    spec.pattern = parse_synthesis_pattern(name == "two_four"                ? "2:4"
                                           : name.starts_with("bsr_lines32") ? "block:32"
                                           : name.starts_with("bsr_lines64") ? "block:64"
                                                                             : "uniform")
                       .value();
    if (name == "two_four") spec.sparsity = 0.5;
    ValueWriterCase test_case;
    test_case.matrix = synthesize(spec).value();
    test_case.packed = pack(packing, test_case.matrix, DataType::kFloat16).value();
    test_case.source = DataType::kFloat16;
    test_case.updates = 2;
    const std::int64_t nnz = test_case.matrix.nnz();
    const Status status = run_value_writer_case(
        std::move(test_case), random, *executor_, [this](const auto& kernel) { return image_of(kernel); },
        [this](const auto& plan, const auto& bindings) { return replay(plan, bindings); });
    ASSERT_TRUE(status.ok()) << status.to_string();
    fmt::print("{}: {} values in {:.0f} us\n", packing, nnz, replay_us_);
    drop_graph();
  }
}

}  // namespace
}  // namespace sparsmith::test
