#include "generator/families/dense/dense_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/ceil_div.h"
#include "formats/csr.h"
#include "generator/device_speed.h"
#include "generator/kernel_parts.h"
#include "runtime/dense_matmul.h"
#include "runtime/tuned_file.h"

namespace sparsmith {
namespace {

// Fitted to 262 times of cuBLASLt on an H200: 64 x 64 to 32768 x 8192, N = 1 to 512, fp16 and strict fp32. They are met
// within 7 % (root of the mean square), 28 % at worst, where rows are 64. Products of large N: 8192 x 8192, N to 8,192.
constexpr double kLaunchMicroseconds = 1.7;
constexpr double kReachedBandwidth = 1.06;      // of a large copy: it only reads
constexpr double kFirstChainUs = 0.9;           // of a block's loads and sums
constexpr double kColumnChainUs = 1.42e-3;      // that a column adds to it
constexpr double kChainColumns = 4096;          // more are cut over blocks
constexpr double kUnhidden = 0.54;              // of the shorter of chain and memory
constexpr double kReachedHalfCompute = 0.84;    // of the peak
constexpr double kSustainedHalfCompute = 0.73;  // of large products: the card's power bounds the clock
constexpr double kLargeOperations = 7e10;
constexpr double kReachedFloatCompute = 0.72;
constexpr double kFloatTokens = 66;     // a tile of them, at least
constexpr double kFewFloatTokens = 42;  // where there are up to 16

// A kernel behind another one on a stream.
constexpr double kNextLaunchMicroseconds = 1.5;
constexpr double kNextReachedBandwidth = 0.96;

// Halves run on tensor cores, strict fp32 does not. A multiply-add is two operations.
double operations_per_second(const Problem& problem) {
  const DeviceProperties& device = problem.device;
  if (problem.spec.type != DataType::kFloat32) return device.tensor_operations_per_second();
  const double of_an_sm = device.compute_capability >= 90 ? 256 : 128;  // in a clock
  return of_an_sm * device.sm_count * device.clock_khz * 1e3;
}

// Tokens whose products are computed.
double computed_tokens(const Problem& problem) {
  const auto tokens = static_cast<double>(problem.tokens);
  if (problem.spec.type != DataType::kFloat32 || !problem.spec.multiplies_weight()) return tokens;
  if (problem.tokens == 1) return 0;  // a product with a vector waits for memory alone
  return problem.tokens <= 16 ? kFewFloatTokens : std::max(tokens, kFloatTokens);
}

// The kernel that gathers: neither loads nor rows of a block were tuned.
constexpr int kGatherThreads = 256;
constexpr int kGatheredPerThread = 8;
constexpr std::int64_t kMostShortColumns = 65536;

constexpr int kTokensPerThread = 4;
constexpr const char* kProposal = "proposal";

// The first is the library's best guess at any N.
void set_proposal(const Config& config, const Problem& problem, PlanStep& product) {
  product.proposal = static_cast<int>(proposal_of(config));
  if (product.proposal > 0) product.proposed_for = problem.tokens;
}

std::int64_t gradient_bytes(const OperatorSpec& spec) {
  return spec.rows * spec.cols * static_cast<std::int64_t>(size_of(spec.gradient_type()));
}

// Appends the product, which goes to the start of the workspace, and a kernel that applies alpha and the whole
// epilogue.
void add_with_epilogue(const OperatorSpec& spec, PlanStep product, PlannedKernels& kernels) {
  product.product = IntegerExpression(0);
  kernels.plan.steps.push_back(std::move(product));
  if (spec.epilogue.gated) return add_gated(spec, true, "0", kernels);
  KernelText text;
  text.name = "dense_epilogue";
  text.summary = "runs the epilog on W X, which a dense product left in fp32";
  text.headers = {"snippets/kernels/dense_epilogue.cuh"};
  text.parameters = {
      {"const float*", "product", workspace()}, {"int", "rows", integer(spec.rows)}, {"int", "n", integer("n")}};
  text.body = "Kernel::run(product, output, rows, n);";
  const KernelText::Line kernel = {
      fmt::format("using Kernel = DenseEpilogueKernel<Output, {}, {}, kThreads>", token_major(spec), kTokensPerThread),
      "token-major, tokens of a thread"};
  add_finisher(spec, fmt::format("{} * ceil_div(n, {})", spec.rows, kTokensPerThread), kernel, std::move(text),
               kernels);
}

// The pattern in the order of CSR, for sddmm: the packing of the family `sampled`.
CsrPacking pattern_packing(const OperatorSpec& spec) { return {.index_bytes = spec.cols <= kMostShortColumns ? 2 : 4}; }

// Launches the kernel that takes the weight's elements from the gradient at the start of the workspace.
void add_gather(const OperatorSpec& spec, PlannedKernels& kernels) {
  const int index_bits = 8 * pattern_packing(spec).index_bytes;
  KernelText text;
  text.name =
      fmt::format("dense_gather_{}_u{}{}", short_name(spec.type), index_bits, spec.epilogue.beta ? "_beta" : "");
  text.summary = "values = dY X^T at the nonzeros of a weight in csr, of a dense product";
  text.threads = kGatherThreads;
  text.headers = {"snippets/epilog/store_output.cuh", "snippets/kernels/dense_gather.cuh"};
  text.lines = {
      output_type(spec),
      {fmt::format("using Index = u{}", index_bits), "of a column"},
      {fmt::format("using Gradient = {}", device_type(spec.gradient_type())), ""},
      {fmt::format("using Output = StoreOutput<OutputType, false, NoActivation, false, {}, false>",
                   boolean(spec.epilogue.beta)),
       "a line of one element a nonzero; + beta * its old value"},
      {fmt::format("using Kernel = DenseGatherKernel<Index, Gradient, Output, {}, kThreads>", kGatheredPerThread),
       "nonzeros of a lane at a time"}};
  text.parameters = {{"const csr::Segment*", "segments", packed_array("segments")},
                     {"const Index*", "columns", packed_array("columns")},
                     {"const Gradient*", "gradient", workspace()},
                     {"OutputType*", "values", operand("values")},
                     {"int", "rows", integer(spec.rows)},
                     {"int", "cols", integer(spec.cols)},
                     {"float", "beta", scalar("beta")}};
  text.body =
      "const Output output{values, 1, nullptr, nullptr, 0, 1.0F, beta};  // alpha is in the product\n"
      "Kernel::run(segments, columns, gradient, output, rows, cols);";
  kernels.launch(std::move(text)).grid[0] = ceil_div(spec.rows, std::int64_t{kGatherThreads} / 32);
}

// The gradient at all places of the weight, and the elements that the weight has.
PlannedKernels gathered_gradient(const Config& config, const Problem& problem) {
  PlannedKernels kernels;
  kernels.plan.workspace_bytes = gradient_bytes(problem.spec);
  PlanStep product = gradient_step(IntegerExpression(0));
  set_proposal(config, problem, product);
  kernels.plan.steps.push_back(std::move(product));
  add_gather(problem.spec, kernels);
  return kernels;
}

Result<PlannedKernels> dense_kernels(const Config& config, const Problem& problem, const PackedWeight& /*packed*/) {
  if (!problem.spec.multiplies_weight()) return gathered_gradient(config, problem);
  PlannedKernels kernels;
  kernels.plan.workspace_bytes = IntegerExpression::of(dense_product_bytes(problem.spec));
  add_dense_product(config, problem, matmul_step(std::string(kDenseArray), std::nullopt), kernels);
  return kernels;
}

// The kernel behind the gradient: it reads the sectors that hold a nonzero, and the pattern. Not fitted.
double predicted_gather_us(const Problem& problem) {
  constexpr double kSectorBytes = 32;
  const OperatorSpec& spec = problem.spec;
  const auto element = static_cast<double>(size_of(spec.type));
  const auto gradient = static_cast<double>(size_of(spec.gradient_type()));
  const auto places = static_cast<double>(spec.rows) * static_cast<double>(spec.cols);
  const auto nonzeros = static_cast<double>(spec.nnz);
  const double density = places > 0 ? std::min(nonzeros / places, 1.0) : 0;
  const double touched = 1 - std::pow(1 - density, kSectorBytes / gradient);  // of the sectors, if drawn
  const double of_nonzero = element * (spec.epilogue.beta ? 2 : 1) + pattern_packing(spec).index_bytes;
  const double bytes = touched * places * gradient + nonzeros * of_nonzero;
  return kNextLaunchMicroseconds + bytes / (problem.device.memory_bandwidth * kNextReachedBandwidth) * 1e6;
}

double predicted_us(const Config& /*config*/, const Problem& problem, const SparsityStatistics& /*statistics*/) {
  return predicted_dense_operator_us(problem);
}

}  // namespace

Parameter proposal_parameter(std::int64_t proposals) {
  Parameter parameter{.name = kProposal,
                      .abbreviation = "p",
                      .meaning = "which of the algorithms that cuBLASLt proposes for the bucket's tokens, best first",
                      .later = true};
  for (std::int64_t i = 0; i < proposals; ++i) parameter.values.push_back(i);
  return parameter;
}

std::int64_t proposal_of(const Config& config) { return config.at(kProposal); }

void add_dense_product(const Config& config, const Problem& problem, PlanStep product, PlannedKernels& kernels) {
  set_proposal(config, problem, product);
  if (!DenseMatmul::covers(problem.spec)) return add_with_epilogue(problem.spec, std::move(product), kernels);
  kernels.plan.steps.push_back(std::move(product));
}

std::string dense_product_bytes(const OperatorSpec& spec) {
  return DenseMatmul::covers(spec) ? "0" : part_bytes(spec, 1);
}

double predicted_dense_operator_us(const Problem& problem) {
  const double product_us = predicted_dense_us(problem);
  if (!problem.spec.multiplies_weight()) return product_us + predicted_gather_us(problem);
  if (problem.spec.epilogue.gated) return product_us;  // the second kernel is that of all families
  return DenseMatmul::covers(problem.spec) ? product_us : product_us + predicted_dense_epilogue_us(problem);
}

double predicted_dense_us(const Problem& problem) {
  const auto rows = static_cast<double>(problem.spec.rows);
  const auto cols = static_cast<double>(problem.spec.cols);
  const auto tokens = static_cast<double>(problem.tokens);
  const double bytes = static_cast<double>(size_of(problem.spec.type)) * (rows * cols + tokens * cols + tokens * rows);
  const double move_us = bytes / (problem.device.memory_bandwidth * kReachedBandwidth) * 1e6;
  const double operations = 2 * rows * cols * computed_tokens(problem);
  const double large = std::min(operations / kLargeOperations, 1.0);
  const double reached = problem.spec.type == DataType::kFloat32
                             ? kReachedFloatCompute
                             : kReachedHalfCompute + large * (kSustainedHalfCompute - kReachedHalfCompute);
  const double compute_us = operations / (operations_per_second(problem) * reached) * 1e6;
  const double summed = problem.spec.multiplies_weight() ? cols : tokens;
  const double chain_us = kFirstChainUs + kColumnChainUs * std::min(summed, kChainColumns);
  return kLaunchMicroseconds + launch_delay_us(problem.device) + std::max({move_us, chain_us, compute_us}) +
         kUnhidden * std::min(move_us, chain_us);
}

double predicted_dense_epilogue_us(const Problem& problem) {
  const auto outputs = static_cast<double>(problem.spec.rows) * static_cast<double>(problem.tokens);
  const Epilogue& epilogue = problem.spec.epilogue;
  const double operands = (epilogue.beta ? 1 : 0) + (epilogue.residual ? 1 : 0);
  const double bytes = outputs * (2.0 * sizeof(float) + operands * static_cast<double>(size_of(problem.spec.type)));
  return kNextLaunchMicroseconds + bytes / (problem.device.memory_bandwidth * kNextReachedBandwidth) * 1e6;
}

Result<Candidate> dense_with_epilogue(const OperatorSpec& spec) {
  PackedWeight packed;
  packed.packing = kDensePacking;
  PlannedKernels kernels;
  kernels.plan.workspace_bytes = IntegerExpression::of(part_bytes(spec, 1));
  add_with_epilogue(spec, matmul_step(std::string(kDenseArray), std::nullopt), kernels);
  return make_candidate({"dense", {}}, {.spec = spec, .device = typical_device(90)}, packed, std::move(kernels));
}

const Family& dense_family() {
  static const Family kFamily = {
      .name = "dense",
      .serves = [](const OperatorSpec&) { return true; },
      .is_baseline = true,
      .by_library = true,
      .multiplied_share = 1,
      .parameters = {proposal_parameter(8)},
      .packing_of_rows =
          [](const Config&, const Problem& problem) {
            const OperatorSpec& spec = problem.spec;
            return spec.multiplies_weight() ? std::string(kDensePacking) : pattern_packing(spec).name();
          },
      .packs_transposed = false,  // the library transposes
      .kernels = dense_kernels,
      .predict = predicted_us,
  };
  return kFamily;
}

}  // namespace sparsmith
