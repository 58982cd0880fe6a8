// Writes small tuned files for tests of what loading takes, into a folder: some for each of the ten kernel families,
// with one weight, and plans, packings and sources of the generator; cubins state the parameters of these plans and
// hold no code. Besides dense ones, with and without an epilogue's kernel, and the sample whose kernels the fake driver
// runs.
//   usage: draw_tuned_files FOLDER FILES_PER_FAMILY SEED [without-sources]
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "generator/dense_epilogue.h"
#include "matrix/dense_matrix.h"
#include "runtime/fake_cuda_driver.h"
#include "runtime/tuned_file.h"
#include "runtime/tuned_sample.h"
#include "tests/drawn_two_four.h"
#include "tests/kernel_cases.h"

namespace sparsmith::test {
namespace {

constexpr const char* kFamilies[] = {"rows",    "slots", "panel", "gather",      "bitmap",
                                     "scatter", "wgmma", "bsr",   "specialized", "two_four"};

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
      const bool narrow =
          argument.kind == Kind::kInt32 || argument.kind == Kind::kAlpha || argument.kind == Kind::kBeta;
      sizes.push_back(narrow ? 4 : 8);
    }
  }
  return fake_cubin(kernel, sizes);
}

// A weight with one choice.
Status write_weight(const CsrMatrix& matrix, const Problem& problem, const PackedWeight& packed,
                    const Candidate& candidate, TunedChoice::Kind kind, Output& output) {
  TunedContents contents;
  TunedWeight& weight = contents.weights.emplace_back();
  weight.name = "w";
  weight.spec = problem.spec;
  weight.nnz = matrix.nnz();
  weight.pattern_hash = matrix.pattern_hash();
  weight.value_hash = matrix.value_hash();
  weight.packings = {view_of(packed)};
  TunedChoice& choice = weight.choices.emplace_back();
  choice.tokens = problem.tokens;
  choice.kind = kind;
  choice.packing = packed.packing;
  choice.plan = candidate.plan;
  choice.config = candidate.config.text();
  std::map<std::string, std::vector<std::byte>> cubins;
  for (const KernelSource& source : candidate.kernels) {
    cubins[source.name] = cubin_for(source.name, candidate.plan);
    TunedKernel& kernel = contents.kernels.emplace_back();
    kernel.name = source.name;
    kernel.max_shared_bytes = source.max_shared_bytes;
    if (output.sources) kernel.source = source.source;
    kernel.binaries = {{source.architecture.empty() ? "sm_90" : source.architecture, cubins[source.name]}};
  }
  return output.write(candidate.config.family, contents);
}

OperatorSpec draw_spec(Random& random, const std::string& family, const CsrMatrix& matrix) {
  OperatorSpec spec = draw_operator(random);
  spec.type = family == "rows" || family == "slots" || family == "panel" || family == "gather"
                  ? (random() % 2 == 0 ? DataType::kFloat32 : DataType::kFloat16)
                  : DataType::kFloat16;
  spec.accumulation = Accumulation::kFp32;
  spec.rows = matrix.rows;
  spec.cols = matrix.cols;
  return spec;
}

Status draw_file(Random& random, const Family& family, Output& output) {
  Status last = internal_error("no config");
  for (int attempt = 0; attempt < 200; ++attempt) {
    KernelCase drawn;
    const std::int64_t rows = draw_between(random, 1, 80);
    const std::int64_t cols = draw_between(random, 1, 150);
    drawn.matrix =
        family.name() == "two_four" ? draw_two_four(random, rows, cols, 0.7) : draw_uneven_matrix(random, rows, cols);
    drawn.problem.device = typical_device(90);
    drawn.problem.tokens = draw_between(random, 1, 20);
    drawn.problem.spec = draw_spec(random, std::string(family.name()), drawn.matrix);
    drawn.matrix.data_type = drawn.problem.spec.type;
    const std::vector<Parameter> parameters = family.parameters();
    const Parameter& parameter = parameters[random() % parameters.size()];
    const std::int64_t value = parameter.values[random() % parameter.values.size()];
    const auto config = draw_config(random, family, drawn.problem, parameter.name, value);
    if (!config) continue;
    drawn.config = *config;
    PackedWeight packed;
    const Result<Candidate> candidate = generate_case(drawn, packed);
    last = candidate.status();
    if (!candidate.ok()) continue;
    return write_weight(drawn.matrix, drawn.problem, packed, *candidate, TunedChoice::Kind::kGenerated, output);
  }
  return last.annotate(std::string(family.name()));
}

Status draw_dense_file(Random& random, const char* epilogue, Output& output) {
  CsrMatrix matrix = draw_uneven_matrix(random, 9, 14);
  Problem problem;
  problem.spec.rows = matrix.rows;
  problem.spec.cols = matrix.cols;
  problem.tokens = 4;
  SPARSMITH_ASSIGN_OR_RETURN(problem.spec.epilogue, Epilogue::parse(epilogue));
  const std::string bytes = dense_bytes(matrix);
  const auto view = std::as_bytes(std::span(bytes));
  PackedWeight packed;
  packed.packing = kDensePacking;
  packed.arrays = {{std::string(kDenseArray), DataType::kFloat32, {view.begin(), view.end()}}};
  Candidate candidate;
  if (problem.spec.epilogue.activation == Activation::kGelu) {
    SPARSMITH_ASSIGN_OR_RETURN(candidate, dense_epilogue(problem.spec));
  }
  candidate.config.family = "dense";
  return write_weight(matrix, problem, packed, candidate, TunedChoice::Kind::kDense, output);
}

Status draw_all(Output& output, int files_per_family, std::uint64_t seed) {
  Random random(seed);
  for (const char* name : kFamilies) {
    for (int i = 0; i < files_per_family; ++i) SPARSMITH_RETURN_IF_ERROR(draw_file(random, *family(name), output));
  }
  for (const char* epilogue : {"bias", "gelu"}) SPARSMITH_RETURN_IF_ERROR(draw_dense_file(random, epilogue, output));
  TunedSample fake;
  return output.write("fake", fake.contents());
}

}  // namespace
}  // namespace sparsmith::test

int main(int argc, char** argv) {
  if (argc < 4) {
    fmt::print(stderr, "usage: {} FOLDER FILES_PER_FAMILY SEED [without-sources]\n", argv[0]);
    return 2;
  }
  sparsmith::test::Output output{argv[1], argc == 4};
  std::filesystem::create_directories(output.folder);
  const sparsmith::Status status =
      sparsmith::test::draw_all(output, std::atoi(argv[2]), std::strtoull(argv[3], nullptr, 10));
  if (!status.ok()) fmt::print(stderr, "{}\n", status.to_string());
  return status.ok() ? 0 : 1;
}
