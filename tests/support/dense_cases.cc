#include "tests/support/dense_cases.h"

#include <algorithm>

#include "formats/packed_format.h"
#include "generator/families/dense/dense_family.h"
#include "runtime/tuned_file.h"
#include "tuner/verify/plan_verifier.h"

namespace sparsmith::test {
namespace {

std::vector<OperatorSpec> draw_specs(Random& random) {
  std::vector<OperatorSpec> specs;
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) {
      for (int activation = 0; activation < kActivations; ++activation) {
        OperatorSpec& spec = specs.emplace_back(draw_operator(random));
        spec.type = type;
        spec.layout = layout;
        spec.epilogue.activation = static_cast<Activation>(activation);
      }
    }
  }
  return specs;
}

// Weights whose dense form is small enough to multiply on the host.
CsrMatrix draw_small_weight(Random& random, int kind) {
  while (true) {
    CsrMatrix matrix = draw_weight(random, kind++);
    if (matrix.cols < 10'000) return matrix;
  }
}

}  // namespace

std::vector<KernelCase> draw_dense_epilogue_cases(std::uint64_t seed, int weights) {
  static constexpr std::int64_t kTokens[] = {1, 2, 3, 4, 5, 8, 9, 16, 31, 40};
  Random random(seed);
  std::vector<KernelCase> cases;
  for (const OperatorSpec& spec : draw_specs(random)) {
    for (int weight = 0; weight < weights; ++weight) {
      KernelCase& each = cases.emplace_back();
      each.matrix = draw_small_weight(random, static_cast<int>(cases.size()));
      each.config.family = "dense_epilogue";
      each.problem.device = typical_device(90);
      each.problem.spec = spec;
      each.problem.spec.kind = cases.size() % 3 == 0 ? OperatorKind::kSpmmTransposed : OperatorKind::kSpmm;
      each.problem.spec.rows = each.matrix.rows;
      each.problem.spec.cols = each.matrix.cols;
      fit_gate(each.problem.spec);
      each.problem.tokens = kTokens[random() % std::size(kTokens)];
      each.inputs = {.tokens = each.problem.tokens,
                     .seed = random(),
                     .kind = static_cast<InputKind>(random() % 8 < 5 ? 0 : random() % 4),
                     .padding = random() % 2 == 0 ? 0 : draw_between(random, 1, 9)};
      static constexpr float kBetas[] = {0.5F, 0.0F, 1.0F, -1.0F};
      each.inputs.beta = kBetas[each.inputs.seed % std::size(kBetas)];
      each.small_grid = random() % 3 == 0;
      each.programmatic = cases.size() % 2 == 0;
    }
  }
  return cases;
}

std::vector<KernelCase> draw_dense_gradient_cases(std::uint64_t seed, int weights) {
  static constexpr std::int64_t kTokens[] = {1, 2, 3, 5, 8, 9, 31};
  Random random(seed);
  std::vector<KernelCase> cases;
  for (const OperatorSpec& drawn : draw_specs(random)) {
    if (drawn.epilogue.activation != Activation::kNone && drawn.epilogue.activation != Activation::kRelu) continue;
    for (int weight = 0; weight < weights; ++weight) {
      KernelCase& each = cases.emplace_back();
      const bool wide = cases.size() % 6 == 0;  // columns of 32 bits
      each.matrix = wide ? draw_weight(random, 5 + static_cast<int>(random() % 2))
                         : draw_small_weight(random, static_cast<int>(cases.size()));
      each.config = {"dense", {{"proposal", 0}}};
      each.problem.device = typical_device(90);
      each.problem.spec = {.type = drawn.type,
                           .layout = drawn.layout,
                           .epilogue = {.beta = drawn.epilogue.activation == Activation::kRelu},
                           .kind = OperatorKind::kSddmm};
      each.problem.spec.set_weight(each.matrix.rows, each.matrix.cols, each.matrix.nnz());
      each.problem.tokens = wide ? 2 : kTokens[random() % std::size(kTokens)];
      each.inputs = {.tokens = each.problem.tokens,
                     .seed = random(),
                     .kind = static_cast<InputKind>(random() % 8 < 5 ? 0 : random() % 4),
                     .padding = random() % 2 == 0 ? 0 : draw_between(random, 1, 9)};
      static constexpr float kAlphas[] = {1.0F, 0.5F, -2.0F};
      static constexpr float kBetas[] = {0.5F, 0.0F, 1.0F, -1.0F};
      each.inputs.alpha = kAlphas[each.inputs.seed / 4 % std::size(kAlphas)];
      each.inputs.beta = kBetas[each.inputs.seed % std::size(kBetas)];
      each.small_grid = random() % 3 == 0;
      each.programmatic = cases.size() % 2 == 0;
    }
  }
  return cases;
}

Status run_dense_epilogue_case(const KernelCase& test_case, Executor& executor, const ImageOf& image_of) {
  const OperatorSpec& spec = test_case.problem.spec;
  ReferenceProblem problem(test_case.matrix, spec, test_case.inputs);
  problem.set_sums(eigen_sums(problem));
  SPARSMITH_ASSIGN_OR_RETURN(const auto verifier, PlanVerifier::create(executor, problem));
  SPARSMITH_ASSIGN_OR_RETURN(const PackedWeight packed,
                             pack("dense", multiplied(spec.kind, test_case.matrix), spec.type));
  SPARSMITH_ASSIGN_OR_RETURN(DevicePacking packing, DevicePacking::upload(executor, packed));
  const auto whole = dense_family().generate({"dense", {}}, test_case.problem, packed);
  // The same where the library lacks the epilogue.
  for (const Result<Candidate>& made : {whole, dense_with_epilogue(spec)}) {
    SPARSMITH_RETURN_IF_ERROR(made.status());
    Candidate candidate = *made;
    for (const KernelSource& kernel : candidate.kernels) {
      SPARSMITH_ASSIGN_OR_RETURN(const KernelImage image, image_of(kernel));
      SPARSMITH_RETURN_IF_ERROR(executor.load(image));
    }
    launch_programmatically(candidate.plan, test_case.programmatic);
    if (test_case.small_grid) candidate.plan.steps.back().grid = {1, 1, 1};
    SPARSMITH_ASSIGN_OR_RETURN(const Verification verification, verifier->verify(candidate.plan, packing));
    if (!verification.ok) return internal_error("wrong output: " + verification.reason);
  }
  return {};
}

}  // namespace sparsmith::test
