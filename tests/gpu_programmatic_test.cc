// Programmatic launches on a GPU: two operators, each of which reads what the other wrote, many times in a captured
// graph, give the bits that plain launches give. A kernel that touched X or Y too early would show here. Kernels that
// know that their weight is written have a kernel in front of them that writes one of two weights in turn.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <random>

#include "base/half.h"
#include "formats/places.h"
#include "generator/families/rows/rows_family.h"
#include "generator/search_space.h"
#include "generator/value_writer.h"
#include "runtime/gpu_executor.h"
#include "tests/support/kernel_cases.h"
#include "tuner/compile/kernel_compiler.h"
#include "tuner/verify/device_packing.h"

namespace sparsmith::test {
namespace {

constexpr std::int64_t kSize = 1024;  // M and K, so that Y can be the next X
constexpr int kPairs = 20;            // of launches in a graph
constexpr int kReplays = 200;

// A weight as a family likes it: 2:4, in blocks of 64 x 64, or elements anywhere; for hybrids with a rest.
CsrMatrix weight_for(const std::string& name, std::uint64_t seed) {
  const bool two_four = name.starts_with("two_four");
  const bool blocks = name.starts_with("bsr");
  const int rest = name.ends_with("_rest") ? 100 : 0;  // of 10,000 elements
  std::mt19937_64 random(seed);
  std::array<bool, (kSize / 64) * (kSize / 64)> held{};
  for (bool& block : held) block = random() % 10 == 0;
  CsrMatrix matrix;
  matrix.rows = matrix.cols = kSize;
  for (std::int64_t row = 0; row < kSize; ++row) {
    int in_group = 0;
    for (std::int64_t column = 0; column < kSize; ++column) {
      if (column % 4 == 0) in_group = 0;
      const auto drawn = static_cast<int>(random() % 10'000);
      const bool main = blocks ? held[static_cast<std::size_t>(row / 64 * (kSize / 64) + column / 64)]
                               : drawn < (two_four ? 6'000 : 1'000) && (!two_four || in_group < 2);
      if (!main && drawn < 10'000 - rest) continue;
      ++in_group;
      matrix.column_indices.push_back(static_cast<std::uint32_t>(column));
      matrix.values.push_back(random() % 2 == 0 ? 1.0F : -1.0F);
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  return matrix;
}

bool asks_for_writes(const PlanStep& step) {
  return std::ranges::any_of(step.arguments, [](const auto& argument) { return argument.value.uses_written(); });
}

// The first config that the ranking names, and the first whose plan has several kernels; none that adds in any order.
std::vector<Config> tested_configs(const Family& tested, const Problem& problem, const CsrMatrix& matrix) {
  std::vector<Config> configs;
  for (const PredictedConfig& predicted : search_space(tested, problem, compute_statistics(matrix)).configs) {
    if (tested.name == "rows" && RowsConfig(predicted.config).partial_sums == PartialSums::kAtomic) continue;
    if (configs.empty()) {
      configs.push_back(predicted.config);
      continue;
    }
    const auto value = [&](const char* name) {
      const auto found = predicted.config.values.find(name);
      return found == predicted.config.values.end() ? std::int64_t{0} : found->second;
    };
    const bool relaid = tested.name == "rows" ? RowsConfig(predicted.config).input == RowsConfig::Input::kRelayout
                                              : value("column_parts") > 1 && value("sum") == 0;
    if (!relaid) continue;
    configs.push_back(predicted.config);
    break;
  }
  return configs;
}

struct Tested {
  Problem problem;
  std::vector<Config> configs;
};
// For few tokens, if the family serves them.
Tested tested_problem(const Family& tested, const DeviceProperties& device, const CsrMatrix& matrix) {
  Tested found;
  found.problem.spec = {.rows = kSize, .cols = kSize, .type = DataType::kFloat16};
  found.problem.device = device;
  for (const std::int64_t tokens : {8, 1, 32, 64, 256, 1024}) {
    found.problem.tokens = tokens;
    found.configs = tested_configs(tested, found.problem, matrix);
    if (!found.configs.empty()) break;
  }
  return found;
}

// Of those that multiply: the output of others is no input.
std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const std::string& name : kernel_families())
    if (family(name)->serves(OperatorSpec())) names.push_back(name);
  return names;
}

TEST(ProgrammaticConfigsTest, EveryFamilyHasSome) {
  const std::optional<DeviceProperties> device = device_of_class("sm_90 132 SMs");
  ASSERT_TRUE(device.has_value());
  for (const std::string& name : family_names())
    EXPECT_FALSE(tested_problem(*family(name), *device, weight_for(name, 1)).configs.empty()) << name;
}

class GpuProgrammaticTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto executor = GpuExecutor::create(0);
    if (!executor.ok()) GTEST_SKIP() << "no GPU: " << executor.status().to_string();
    executor_ = std::move(*executor);
    if (executor_->properties().compute_capability < kProgrammaticFrom)
      GTEST_SKIP() << executor_->properties().name << " launches plainly only";
    auto compiler = KernelCompiler::open();
    ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
    compiler_ = std::move(*compiler);
  }

  const CudaDriver& driver() const { return executor_->driver(); }
  void check(CUresult result, const char* what) {
    const Status status = driver().check(result, what);
    ASSERT_TRUE(status.ok()) << status.to_string();
  }

  // A weight on the GPU and its plan, whose kernels are loaded.
  struct Layer {
    Candidate candidate;
    std::unique_ptr<DevicePacking> packing;
    LaunchPlan writer;             // of values; none if the kernels do not know that their weight is written
    DeviceAddress values[2] = {};  // that are written in turn
  };
  Result<Layer> make_layer(const Config& config, const Problem& problem, const CsrMatrix& matrix) {
    SPARSMITH_ASSIGN_OR_RETURN(PackedWeight packed, family(config.family)->pack(config, problem, matrix));
    Layer layer;
    SPARSMITH_ASSIGN_OR_RETURN(layer.candidate, family(config.family)->generate(config, problem, packed));
    std::vector<KernelSource> kernels = layer.candidate.kernels;
    if (asks_for_writes(layer.candidate.plan.steps[0])) {
      SPARSMITH_ASSIGN_OR_RETURN(const Places places, places_of(packed.packing, matrix, packed.value_type));
      add_places(places, packed);
      SPARSMITH_ASSIGN_OR_RETURN(ValueWriter writer,
                                 value_writer(packed.packing, packed.value_type, packed.value_type));
      layer.writer = std::move(writer.plan);
      kernels.insert(kernels.end(), writer.kernels.begin(), writer.kernels.end());
      for (const float sign : {1.0F, -1.0F}) {
        std::vector<std::uint16_t> values;
        for (std::size_t i = 0; i < matrix.values.size(); ++i)
          values.push_back(fp16_from_float(i % 3 == 0 ? sign * matrix.values[i] : matrix.values[i]));
        DeviceAddress& address = layer.values[sign < 0 ? 1 : 0];
        SPARSMITH_ASSIGN_OR_RETURN(address, executor_->allocate(values.size() * sizeof(values[0])));
        SPARSMITH_RETURN_IF_ERROR(executor_->write(address, std::as_bytes(std::span(values))));
      }
    }
    const std::string architecture = fmt::format("sm_{}", executor_->properties().compute_capability);
    for (const KernelSource& kernel : kernels) {
      SPARSMITH_ASSIGN_OR_RETURN(const CompiledKernel compiled, compiler_->compile(kernel, architecture));
      SPARSMITH_RETURN_IF_ERROR(executor_->load({kernel.name, kernel.source, compiled.cubin, kernel.max_shared_bytes}));
    }
    SPARSMITH_ASSIGN_OR_RETURN(DevicePacking packing, DevicePacking::upload(*executor_, std::move(packed)));
    layer.packing = std::make_unique<DevicePacking>(std::move(packing));
    return layer;
  }

  // A graph of kPairs launches of both layers in turn, from buffer 0 to buffer 1 and back.
  Result<CUgraphExec> capture(const Layer (&layers)[2], LaunchBindings bindings, const DeviceAddress (&buffers)[2],
                              bool programmatic) {
    std::vector<BoundPlan> plans;
    std::vector<BoundPlan> writers;
    for (const Layer& layer : layers) {
      LaunchPlan plan = layer.candidate.plan;
      if (programmatic) launch_programmatically(plan, true);
      if (!layer.writer.steps.empty()) {
        for (PlanArgument& argument : plan.steps[0].arguments)
          if (argument.value.uses_written()) argument.value = 1;
      }
      bindings.packed = layer.packing->bindings();
      bindings.variables.facts = &layer.packing->packed().facts;
      SPARSMITH_ASSIGN_OR_RETURN(BoundPlan bound, executor_->bind(plan, bindings));
      plans.push_back(std::move(bound));
      SPARSMITH_ASSIGN_OR_RETURN(writers.emplace_back(), executor_->bind(layer.writer, bindings));
    }
    CUstream stream = executor_->stream();
    SPARSMITH_RETURN_IF_ERROR(
        driver().check(driver().StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "beginning a graph"));
    Status enqueued;
    for (int i = 0; i < 2 * kPairs && enqueued.ok(); ++i) {
      bindings.operands.set("x", buffers[i % 2]);
      bindings.operands.set("y", buffers[1 - i % 2]);
      LaunchBindings written;
      written.operands.set("values", layers[i % 2].values[i / 2 % 2]);
      enqueued = executor_->enqueue(writers[i % 2], written, stream);
      if (enqueued.ok()) enqueued = executor_->enqueue(plans[i % 2], bindings, stream);
    }
    CUgraph graph = nullptr;
    const CUresult ended = driver().StreamEndCapture(stream, &graph);
    SPARSMITH_RETURN_IF_ERROR(enqueued);
    SPARSMITH_RETURN_IF_ERROR(driver().check(ended, "ending a graph"));
    CUgraphExec executable = nullptr;
    const CUresult made = driver().GraphInstantiate(&executable, graph, 0);
    driver().GraphDestroy(graph);
    SPARSMITH_RETURN_IF_ERROR(driver().check(made, "making a graph"));
    return executable;
  }

  // What buffer 0 holds after each of `count` replays that follow each other, each from `x`.
  std::vector<std::uint16_t> replay(CUgraphExec graph, DeviceAddress buffer, const std::vector<std::uint16_t>& x,
                                    int count) {
    const std::size_t bytes = x.size() * sizeof(x[0]);
    const DeviceAddress first = *executor_->allocate(bytes);
    const DeviceAddress results = *executor_->allocate(bytes * static_cast<std::size_t>(count));
    EXPECT_TRUE(executor_->write(first, std::as_bytes(std::span(x))).ok());
    CUstream stream = executor_->stream();
    for (int i = 0; i < count; ++i) {
      check(driver().MemcpyDtoDAsync(buffer, first, bytes, stream), "copying x");
      check(driver().GraphLaunch(graph, stream), "replaying a graph");
      check(driver().MemcpyDtoDAsync(results + bytes * static_cast<std::size_t>(i), buffer, bytes, stream),
            "copying y");
    }
    check(driver().StreamSynchronize(stream), "replaying a graph");
    std::vector<std::uint16_t> values(x.size() * static_cast<std::size_t>(count));
    EXPECT_TRUE(executor_->read(std::as_writable_bytes(std::span(values)), results).ok());
    EXPECT_TRUE(executor_->free(first).ok() && executor_->free(results).ok());
    return values;
  }

  // Both ways, from drawn inputs.
  void compare(const Config& config, const Problem& problem, const CsrMatrix (&matrices)[2]) {
    auto first = make_layer(config, problem, matrices[0]);
    auto second = make_layer(config, problem, matrices[1]);
    ASSERT_TRUE(first.ok() && second.ok()) << first.status().to_string() << second.status().to_string();
    const Layer layers[2] = {std::move(*first), std::move(*second)};
    std::mt19937_64 random(5);
    std::vector<std::uint16_t> x(static_cast<std::size_t>(kSize * problem.tokens));
    for (std::uint16_t& value : x) value = fp16_from_float(static_cast<float>(random() % 2001) / 1000.0F - 1.0F);
    const std::size_t bytes = x.size() * sizeof(x[0]);

    LaunchBindings bindings;
    bindings.variables = {.n = problem.tokens, .strides = {{"x", kSize}, {"y", kSize}, {"residual", kSize}}};
    bindings.operands = {{"x", 0}, {"y", 0}, {"bias", 0}, {"residual", 0}};
    bindings.spec = &problem.spec;
    // Keeps values at their size on their way through many layers.
    bindings.scalars.set("alpha", 1.0F / std::sqrt(static_cast<float>(matrices[0].nnz()) / kSize));
    std::int64_t workspace_bytes = 256;
    for (const Layer& layer : layers) {
      bindings.variables.facts = &layer.packing->packed().facts;
      workspace_bytes = std::max(workspace_bytes, *layer.candidate.plan.workspace_bytes.evaluate(bindings.variables));
    }
    bindings.workspace = *executor_->allocate(static_cast<std::size_t>(workspace_bytes));
    const DeviceAddress buffers[2] = {*executor_->allocate(bytes), *executor_->allocate(bytes)};
    const CudaContext::Scope scope(executor_->context());
    ASSERT_TRUE(scope.status().ok());

    const auto plain = capture(layers, bindings, buffers, false);
    ASSERT_TRUE(plain.ok()) << plain.status().to_string();
    const auto programmatic = capture(layers, bindings, buffers, true);
    ASSERT_TRUE(programmatic.ok()) << programmatic.status().to_string();
    const std::vector<std::uint16_t> expected = replay(*plain, buffers[0], x, 1);
    const std::vector<std::uint16_t> results = replay(*programmatic, buffers[0], x, kReplays);
    driver().GraphExecDestroy(*plain);
    driver().GraphExecDestroy(*programmatic);
    std::vector<DeviceAddress> allocated = {bindings.workspace, buffers[0], buffers[1]};
    for (const Layer& layer : layers)
      if (layer.values[0] != 0) allocated.insert(allocated.end(), std::begin(layer.values), std::end(layer.values));
    for (const DeviceAddress address : allocated) EXPECT_TRUE(executor_->free(address).ok());

    const auto nonzeros = std::ranges::count_if(expected, [](std::uint16_t bits) {
      const float value = float_from_fp16(bits);
      return std::isfinite(value) && value != 0;
    });
    EXPECT_GT(nonzeros, static_cast<std::ptrdiff_t>(expected.size() / 2)) << "the chain overflows or dies out";
    int wrong = 0;
    for (int i = 0; i < kReplays; ++i)
      wrong += std::equal(expected.begin(), expected.end(), results.begin() + i * std::ssize(expected)) ? 0 : 1;
    EXPECT_EQ(wrong, 0) << "of " << kReplays << " replays: " << config.text();
    fmt::print("{}, N = {}, {} steps{}\n", config.text(), problem.tokens, layers[0].candidate.plan.steps.size(),
               layers[0].writer.steps.empty() ? "" : ", weights written");
  }

  std::unique_ptr<GpuExecutor> executor_;
  std::unique_ptr<KernelCompiler> compiler_;
};

TEST_P(GpuProgrammaticTest, AChainOfOperatorsGivesTheBitsOfPlainLaunches) {
  const Family& tested = *family(GetParam());
  const CsrMatrix matrices[2] = {weight_for(tested.name, 1), weight_for(tested.name, 2)};
  const auto [problem, configs] = tested_problem(tested, executor_->properties(), matrices[0]);
  ASSERT_FALSE(configs.empty());
  for (const Config& config : configs) compare(config, problem, matrices);
}

INSTANTIATE_TEST_SUITE_P(Families, GpuProgrammaticTest, testing::ValuesIn(family_names()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace sparsmith::test
