#include <fmt/format.h>

#include <Eigen/SparseCore>
#include <algorithm>

#include "formats/packed_format.h"
#include "tests/support/drawn_packings.h"
#include "tests/support/kernel_cases.h"
#include "tuner/verify/plan_verifier.h"

namespace sparsmith::test {
namespace {

// A plan asks for no more workspace than its kernels write: the last bytes are not as they were before it ran.
Status check_workspace(const LaunchPlan& plan, const LaunchBindings& used, Executor& executor) {
  constexpr std::int64_t kAlignment = 256;
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t bytes, plan.workspace_bytes.evaluate(used.variables));
  if (bytes == 0) return {};
  std::vector<std::byte> workspace(static_cast<std::size_t>(bytes));
  SPARSMITH_RETURN_IF_ERROR(executor.read(workspace, used.workspace));
  const auto last =
      std::find_if(workspace.rbegin(), workspace.rend(), [](std::byte b) { return b != std::byte{0xFF}; });
  const std::int64_t unused = last - workspace.rbegin();
  if (unused < kAlignment) return {};
  return internal_error(fmt::format("of {} bytes of workspace the last {} are not used", bytes, unused));
}

// What a plan has unpacked for a library is the dense weight, but for the sign of zeros.
Status check_unpacked(const LaunchPlan& plan, const LaunchBindings& used, const KernelCase& each, Executor& executor) {
  const auto step = std::ranges::find_if(plan.steps, [](const PlanStep& one) { return one.weight.has_value(); });
  if (step == plan.steps.end()) return {};
  const OperatorSpec& spec = each.problem.spec;
  SPARSMITH_ASSIGN_OR_RETURN(const PackedWeight dense, pack("dense", multiplied(spec.kind, each.matrix), spec.type));
  const auto expected = dense.array("values")->as<std::uint16_t>();
  std::vector<std::uint16_t> values(expected.size());
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t offset, step->weight->evaluate(used.variables));
  SPARSMITH_RETURN_IF_ERROR(
      executor.read(std::as_writable_bytes(std::span(values)), used.workspace + static_cast<std::uint64_t>(offset)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == expected[i] || ((values[i] | expected[i]) & 0x7FFFU) == 0) continue;
    return internal_error(fmt::format("element {} of the weight is {:#x}, unpacked {:#x}", i, expected[i], values[i]));
  }
  return {};
}

// [features][tokens] of an operand.
Eigen::MatrixXd drawn_features(const ReferenceProblem& problem, std::string_view name, std::int64_t features) {
  const DrawnOperand& drawn = problem.operand(name);
  const bool token_major = problem.spec().layout == Layout::kTokenMajor;
  Eigen::MatrixXd all(features, problem.tokens());
  for (std::int64_t feature = 0; feature < features; ++feature) {
    for (std::int64_t token = 0; token < problem.tokens(); ++token) {
      const std::int64_t at = token_major ? token * drawn.stride + feature : feature * drawn.stride + token;
      all(feature, token) = static_cast<double>(drawn.contents.get(at));
    }
  }
  return all;
}

ReferenceSums eigen_sums_over_tokens(const ReferenceProblem& problem) {
  const CsrMatrix& matrix = problem.matrix();
  const Eigen::MatrixXd x = drawn_features(problem, "x", matrix.cols);
  const Eigen::MatrixXd dy = drawn_features(problem, "dy", matrix.rows);
  ReferenceSums sums;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1]; ++i) {
      const auto products = dy.row(row).cwiseProduct(x.row(matrix.column_indices[i]));
      sums.sums.push_back(products.sum());
      sums.magnitudes.push_back(products.cwiseAbs().sum());
    }
  }
  return sums;
}

// As the family packs it, in the coding of the case.
Result<PackedWeight> pack_case(const KernelCase& test_case, const Family& family_of_case) {
  const auto& [matrix, problem, config, inputs, programmatic, coding, small_grid, written] = test_case;
  const CsrMatrix weight = multiplied(problem.spec.kind, matrix);
  if (coding == nullptr) return family_of_case.pack(config, problem, weight);
  return pack(coded_packing(family_of_case.packing(config, problem), *coding), weight, problem.spec.type);
}

}  // namespace

ReferenceSums eigen_sums(const ReferenceProblem& problem) {
  using SparseMatrix = Eigen::SparseMatrix<double, Eigen::RowMajor, std::int64_t>;
  const CsrMatrix& matrix = problem.matrix();
  if (!problem.spec().multiplies_weight()) return eigen_sums_over_tokens(problem);
  std::vector<Eigen::Triplet<double, std::int64_t>> entries;
  for (std::int64_t row = 0; row < matrix.rows; ++row)
    for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1]; ++i)
      entries.emplace_back(row, matrix.column_indices[i], static_cast<double>(problem.values()[i]));
  SparseMatrix weight(matrix.rows, matrix.cols);
  weight.setFromTriplets(entries.begin(), entries.end());
  const Eigen::MatrixXd x = drawn_features(problem, "x", matrix.cols);
  const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> sums = weight * x;
  const SparseMatrix absolute_weight = weight.cwiseAbs();
  const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> magnitudes =
      absolute_weight * x.cwiseAbs();
  return {{sums.data(), sums.data() + sums.size()}, {magnitudes.data(), magnitudes.data() + magnitudes.size()}};
}

std::vector<KernelCase> draw_coded_cases(std::uint64_t seed, int kernels, int weights) {
  std::vector<KernelCase> cases;
  const Family& rows = *family("rows");
  for (KernelCase& each : draw_cases(rows, seed, kernels, weights)) {
    if (each.config.at("split_length") > 0 || each.config.at("vector_width") == 1) continue;
    each.coding = &codings()[cases.size() % codings().size()];
    const Result<CsrMatrix> decoded = unpack(pack_case(each, rows).value());
    each.matrix = multiplied(each.problem.spec.kind, decoded.value());
    cases.push_back(std::move(each));
  }
  return cases;
}

Result<Candidate> generate_case(const KernelCase& test_case, PackedWeight& packed, std::optional<Ablation> without) {
  const Family* family_of_case = family(test_case.config.family);
  SPARSMITH_RETURN_IF_ERROR(
      family_of_case->check(test_case.config, test_case.problem, compute_statistics(test_case.matrix)));
  SPARSMITH_ASSIGN_OR_RETURN(packed, pack_case(test_case, *family_of_case));
  SPARSMITH_ASSIGN_OR_RETURN(
      Candidate candidate,
      without ? generate_without(*without, *family_of_case, test_case.config, test_case.problem, packed)
              : family_of_case->generate(test_case.config, test_case.problem, packed));
  launch_programmatically(candidate.plan, test_case.programmatic);
  if (test_case.written) {
    for (PlanStep& step : candidate.plan.steps)
      for (PlanArgument& argument : step.arguments)
        if (argument.value.uses_written()) argument.value = IntegerExpression::of("max(written, 1)");
  }
  if (test_case.small_grid) {
    // Kernels stride over their grid, so any smaller one is right as well; panels and slots do so over its y alone.
    for (PlanStep& step : candidate.plan.steps) {
      if (step.kernel.starts_with("rows_")) step.grid = {1, 1, 1};
      for (const char* whole :  // but for parts of K, the grid's z
           {"bitmap_", "bsr_", "dense_", "gather_", "sampled_", "specialized_", "two_four_", "unpack_", "wgmma_"})
        if (step.kernel.starts_with(whole)) step.grid = {1, 1, step.grid[2]};
      if (step.kernel.starts_with("scatter_") || step.kernel.starts_with("cooperative_") ||
          step.kernel.starts_with("sampled_regions_"))
        step.grid = step.cluster;
      if (step.kernel.starts_with("panel_") || step.kernel.starts_with("slots_")) step.grid[1] = step.cluster[1];
    }
  }
  return candidate;
}

Status run_case(const KernelCase& test_case, Executor& executor, const ImageOf& image_of) {
  PackedWeight packed;
  SPARSMITH_ASSIGN_OR_RETURN(const Candidate candidate, generate_case(test_case, packed));
  for (const KernelSource& kernel : candidate.kernels) {
    SPARSMITH_ASSIGN_OR_RETURN(const KernelImage image, image_of(kernel));
    SPARSMITH_RETURN_IF_ERROR(executor.load(image));
  }
  ReferenceProblem problem(test_case.matrix, test_case.problem.spec, test_case.inputs);
  problem.set_sums(eigen_sums(problem));
  SPARSMITH_ASSIGN_OR_RETURN(const auto verifier, PlanVerifier::create(executor, problem));
  SPARSMITH_ASSIGN_OR_RETURN(DevicePacking packing, DevicePacking::upload(executor, std::move(packed)));
  SPARSMITH_ASSIGN_OR_RETURN(const Verification verification, verifier->verify(candidate.plan, packing));
  if (!verification.ok) return internal_error("wrong output: " + verification.reason);
  SPARSMITH_ASSIGN_OR_RETURN(const LaunchBindings used, verifier->bindings(candidate.plan, packing));
  SPARSMITH_RETURN_IF_ERROR(check_unpacked(candidate.plan, used, test_case, executor));
  return check_workspace(candidate.plan, used, executor);
}

}  // namespace sparsmith::test
