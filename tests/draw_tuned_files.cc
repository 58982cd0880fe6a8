// Writes small tuned files for tests of what loading takes, into a folder: some for each of the ten kernel families,
// with one weight, and plans, packings and sources of the generator; cubins state the parameters of these plans and
// hold no code. Besides dense ones, with and without an epilogue's kernel, and the sample whose kernels the fake driver
// runs.
//   usage: draw_tuned_files FOLDER FILES_PER_FAMILY SEED [without-sources]
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "generator/family.h"
#include "generator/value_writer.h"
#include "runtime/tuned_file.h"
#include "tests/support/drawn_packings.h"
#include "tests/support/drawn_two_four.h"
#include "tests/support/fake_cuda_driver.h"
#include "tests/support/tuned_sample.h"

namespace sparsmith::test {
namespace {

struct Output {
  std::string folder;
  bool sources = true;
  int written = 0;

  Status write(const std::string& family, const TunedContents& contents) {
    return write_tuned_file(fmt::format("{}/{}_{:02}", folder, family, written++), contents);
  }
};

std::vector<std::byte> cubin_for(const std::string& kernel, const LaunchPlan& plan) {
  std::vector<int> sizes;
  for (const PlanStep& step : plan.steps) {
    if (step.kernel != kernel || !sizes.empty()) continue;
    for (const PlanArgument& argument : step.arguments) {
      using Kind = PlanArgument::Kind;
      const bool narrow = argument.kind == Kind::kInt32 || argument.kind == Kind::kScalar;
      sizes.push_back(narrow ? 4 : argument.kind == Kind::kTensorMap ? kTensorMapBytes : 8);
    }
  }
  return fake_cubin(kernel, sizes);
}

// A weight with one choice.
Status write_weight(const CsrMatrix& matrix, const Problem& problem, const PackedWeight& packed,
                    const Candidate& candidate, Output& output) {
  TunedContents contents;
  TunedWeight& weight = contents.weights.emplace_back();
  weight.name = "w";
  weight.rows = matrix.rows;
  weight.cols = matrix.cols;
  weight.type = problem.spec.type;
  weight.nnz = matrix.nnz();
  weight.pattern_hash = matrix.pattern_hash();
  weight.value_hash = matrix.value_hash();
  weight.packings = {view_of(packed)};
  std::vector<ValueWriter> writers = value_writers(packed.packing, weight.type);
  TunedOperator& op = weight.operators.emplace_back();
  op.spec = problem.spec;
  TunedChoice& choice = op.choices.emplace_back();
  choice.tokens = problem.tokens;
  choice.packing = packed.packing;
  choice.plan = candidate.plan;
  choice.config = candidate.config.text();
  std::map<std::string, std::vector<std::byte>> cubins;
  const auto add = [&](const KernelSource& source, const LaunchPlan& plan) {
    cubins[source.name] = cubin_for(source.name, plan);
    TunedKernel& kernel = contents.kernels.emplace_back();
    kernel.name = source.name;
    kernel.max_shared_bytes = source.max_shared_bytes;
    if (output.sources) kernel.source = source.source;
    kernel.binaries = {{source.architecture.empty() ? "sm_90" : source.architecture, cubins[source.name]}};
  };
  for (const KernelSource& source : candidate.kernels) add(source, candidate.plan);
  for (const ValueWriter& writer : writers) {
    weight.packings.front().writers.push_back({writer.source, writer.plan});
    for (const KernelSource& source : writer.kernels) add(source, writer.plan);
  }
  return output.write(candidate.config.family, contents);
}

// Any operator of that kind. Values of drawn matrices are exact in fp16 and fp32.
OperatorSpec draw_spec(Random& random, OperatorKind kind, const CsrMatrix& matrix) {
  OperatorSpec spec{.kind = kind};
  spec.set_weight(matrix.rows, matrix.cols, matrix.nnz());
  spec.type = random() % 2 == 0 ? DataType::kFloat32 : DataType::kFloat16;
  spec.layout = static_cast<Layout>(random() % 2);
  spec.epilogue.beta = random() % 3 == 0;
  if (!spec.multiplies_weight()) return spec;
  spec.epilogue.activation = static_cast<Activation>(random() % 5);
  spec.epilogue.bias = random() % 2 == 0;
  spec.epilogue.residual = random() % 3 == 0;
  spec.epilogue.gated = random() % 3 == 0;
  if (!spec.check().ok()) spec.epilogue.gated = false;
  return spec;
}

Status draw_file(Random& random, const Family& family, Output& output) {
  constexpr int kAttempts = 50'000;  // most values of parameters do not go together
  Problem problem;
  problem.device = typical_device(90);
  CsrMatrix matrix;
  SparsityStatistics statistics;
  Config config{family.name, {}};
  const std::vector<Parameter> parameters = family.parameters;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (attempt % 1000 == 0) {
      const auto rows = static_cast<std::int64_t>(1 + random() % 80);
      const auto cols = static_cast<std::int64_t>(1 + random() % 150);
      matrix = family.name.starts_with("two_four") ? draw_two_four(random, rows, cols, 0.7)
                                                   : draw_uneven_matrix(random, rows, cols);
      if (family.name.ends_with("_rest")) matrix = fill_blocks(random, matrix, 8, 4);
      problem.tokens = family.name == "slots" ? 1 : static_cast<std::int64_t>(1 + random() % 20);
      // Of a kind and, after some attempts, of a type that the family serves.
      const bool gradient = family.serves({.kind = OperatorKind::kSddmm}) && random() % 2 == 0;
      const bool multiplies = family.serves(OperatorSpec()) && !gradient;
      problem.spec = draw_spec(random, multiplies ? OperatorKind::kSpmm : OperatorKind::kSddmm, matrix);
      if (family.is_baseline) problem.spec.type = DataType::kFloat32;  // all that the tests' cuBLASLt knows
      matrix.data_type = problem.spec.type;
      statistics = compute_statistics(matrix);
    }
    for (const Parameter& each : parameters) config.values[each.name] = each.values[random() % each.values.size()];
    if (!family.check(config, problem, statistics).ok()) continue;
    SPARSMITH_ASSIGN_OR_RETURN(const PackedWeight packed, family.pack(config, problem, matrix));
    SPARSMITH_ASSIGN_OR_RETURN(Candidate candidate, family.generate(config, problem, packed));
    candidate.config = config;
    return write_weight(matrix, problem, packed, candidate, output);
  }
  return internal_error(family.name + ": no config was found");
}

// A plan with a step of each kind, of a kernel that takes every array.
Candidate any_plan(const OperatorSpec& spec, const PackedWeight& packed) {
  using Kind = PlanArgument::Kind;
  const auto formula = [](const char* text) { return IntegerExpression::parse(text).value(); };
  Candidate candidate;
  candidate.packing = packed.packing;
  candidate.kernels = {{.name = "any_kernel", .source = "", .closure_hash = "", .max_shared_bytes = 4096}};
  candidate.plan.workspace_bytes = formula("n * 48 + 16");
  PlanStep& zero = candidate.plan.steps.emplace_back();
  zero.kind = PlanStep::Kind::kZero;
  zero.zero_offset = formula("n * 16");
  zero.zero_bytes = formula("n * 32");
  PlanStep& launch = candidate.plan.steps.emplace_back();
  launch.kernel = "any_kernel";
  launch.grid = {formula("ceil_div(n, 4) * 2"), 3, 1};
  launch.block = {64, 2, 1};
  launch.cluster = {2, 1, 1};
  launch.shared_bytes = formula("min(n, 16) * 256");
  for (const PackedArray& array : packed.arrays) launch.arguments.push_back({Kind::kPacked, array.name, 0});
  for (const Operand& each : spec.operands()) launch.arguments.push_back(operand(std::string(each.name)));
  for (const std::string_view each : OperatorSpec::kScalars) launch.arguments.push_back(scalar(std::string(each)));
  launch.arguments.push_back({Kind::kWorkspace, "", formula("n * 16")});
  launch.arguments.push_back({Kind::kInt32, "", spec.rows});
  launch.arguments.push_back({Kind::kInt32, "", formula("n")});
  launch.arguments.push_back({Kind::kInt64, "", formula("ld.x * n")});
  return candidate;
}

Status draw_format_file(Random& random, const char* format, Output& output) {
  SPARSMITH_ASSIGN_OR_RETURN(const DrawnPacking drawn, draw_packing(random, format));
  Problem problem;
  problem.tokens = static_cast<std::int64_t>(1 + random() % 30);
  const bool is_of_transposed = is_transposed(drawn.packed.packing);
  problem.spec = draw_spec(random,
                           is_of_transposed    ? OperatorKind::kSpmmTransposed
                           : random() % 3 == 0 ? OperatorKind::kSddmm
                                               : OperatorKind::kSpmm,
                           drawn.matrix);
  problem.spec.type = drawn.packed.value_type;
  Candidate candidate = any_plan(problem.spec, drawn.packed);
  candidate.config.family = fmt::format("format_{}", format);
  return write_weight(drawn.matrix, problem, drawn.packed, candidate, output);
}

Status draw_all(Output& output, int files_each, std::uint64_t seed) {
  Random random(seed);
  for (const auto& each : families()) {
    for (int i = 0; i < files_each; ++i) SPARSMITH_RETURN_IF_ERROR(draw_file(random, *each, output));
  }
  for (const char* format :
       {"csr", "slots", "panel", "bitmap", "bsr", "bsr_strips", "scatter", "region_masks", "tile_masks", "two_four"}) {
    for (int i = 0; i < files_each; ++i) SPARSMITH_RETURN_IF_ERROR(draw_format_file(random, format, output));
  }
  TunedSample fake;
  for (std::size_t i = 0; i < 2; ++i) fake.contents().weights[i].packings[0].writers = {TunedSample::writer()};
  return output.write("fake", fake.contents());
}

}  // namespace
}  // namespace sparsmith::test

int main(int argc, char** argv) {
  if (argc < 4) {
    fmt::print(stderr, "usage: {} FOLDER FILES_EACH SEED [without-sources]\n", argv[0]);
    return 2;
  }
  sparsmith::test::Output output{argv[1], argc == 4};
  std::filesystem::create_directories(output.folder);
  const sparsmith::Status status =
      sparsmith::test::draw_all(output, std::atoi(argv[2]), std::strtoull(argv[3], nullptr, 10));
  if (!status.ok()) fmt::print(stderr, "{}\n", status.to_string());
  return status.ok() ? 0 : 1;
}
