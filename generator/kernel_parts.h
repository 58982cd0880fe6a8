// What kernels and launch plans of several families are made of: the epilog, the relayout of X, the arguments of a
// plan's steps, and the candidate as a whole.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "formats/packed_weight.h"
#include "generator/candidate.h"
#include "generator/kernel_text.h"
#include "generator/rule.h"
#include "runtime/launch_plan.h"
#include "runtime/operator_spec.h"
#include "sparsmith/status.h"

namespace sparsmith {

// As snippets spell it: "half", "bfloat16", "float".
std::string_view device_type(DataType type);

// "true" or "false".
std::string_view boolean(bool value);

// "fp16_tm_bias_relu": what of the operator decides a kernel's code.
std::string spec_tag(const OperatorSpec& spec);

// How the products of an entry with the tokens of its row are added up: a type of snippets/reduction/row_products.cuh.
std::string_view row_products_type(const OperatorSpec& spec);

// Adds the epilog: names it `Output`, after a line that names `Value`.
void add_output(const OperatorSpec& spec, KernelText& text);

// The epilog's parameters, its arguments in the same order, and the statement that makes an `output` of them.
void add_output_parameters(KernelText& text);
void add_output_arguments(PlanStep& step);
inline constexpr const char* kMakeOutput = "const Output output{y, ldy, bias, residual, ldr, alpha, beta};\n";

// Makes arguments of a plan's steps from formulas (IntegerExpression). One that does not parse is a bug of ours: it
// becomes 0, and error() says so at the end.
class PlanArguments {
 public:
  explicit PlanArguments(std::string family) : family_(std::move(family)) {}

  IntegerExpression expression(const std::string& formula);
  PlanArgument workspace(const std::string& offset) { return {PlanArgument::Kind::kWorkspace, "", expression(offset)}; }
  PlanArgument int32(const std::string& formula) { return {PlanArgument::Kind::kInt32, "", expression(formula)}; }
  PlanArgument int64(const std::string& formula) { return {PlanArgument::Kind::kInt64, "", expression(formula)}; }
  static PlanArgument packed(const char* name) { return {PlanArgument::Kind::kPacked, name, 0}; }
  static PlanArgument x() { return {PlanArgument::Kind::kX, "", 0}; }
  static PlanArgument null() { return {PlanArgument::Kind::kInt64, "", 0}; }

  const Status& error() const { return error_; }

 private:
  std::string family_;
  Status error_;
};

// Where K is cut into parts. Names `Output`: the epilog or, of a `split` kernel, what stores a part's sums in fp32, in
// Y's layout; then come its parameters, and the statement that makes an `output`.
void add_part_output(const OperatorSpec& spec, bool split, KernelText& text);
std::string make_part_output(bool split, KernelText& text);
// Which of the `count` (a parameter's name) units of K, as "strip", a block goes through: the parameter that says how
// many a part has, where there are several parts, and the statements that make first_strip and end_strip.
std::string make_part_range(int parts, const std::string& unit, const std::string& count, KernelText& text);
// The second kernel, which adds up the sums of parts in order and runs the epilog. `partials` is a formula: where they
// begin in the workspace.
KernelText finish_parts_text(const OperatorSpec& spec);
PlanStep finish_parts_step(const OperatorSpec& spec, const KernelText& text, int parts, const std::string& partials,
                           PlanArguments& arguments);

// Token-major X [n][cols] to feature-major Xt [cols + 1][kRelayoutStride], at the start of the workspace; the last row
// is zeros. relayout_bytes: a formula, to the next multiple of 256.
KernelText relayout_text(const OperatorSpec& spec);
PlanStep relayout_step(const OperatorSpec& spec, const KernelText& text, PlanArguments& arguments);
inline constexpr const char* kRelayoutStride = "ceil_div(n, 8) * 8";  // elements between Xt's rows
std::string relayout_bytes(const OperatorSpec& spec);
// What turning X, in tokens or in panels of them, adds to the time of the kernel behind it: a cost model's figure.
double relayout_us(const Problem& problem);

// Ok when `packed` is in the packing that `config` reads. Error: kInternal, since callers pack by the config.
Status check_packing(const Config& config, const std::string& packing, const PackedWeight& packed);

// The candidate whose plan is `plan`, with those of `texts` that it launches. Error: kUnsupported where a launch asks
// for more shared memory than a block has: what families check before a weight is packed is an estimate.
Result<Candidate> make_candidate(const Config& config, const Problem& problem, const PackedWeight& packed,
                                 LaunchPlan plan, std::span<const KernelText> texts);

}  // namespace sparsmith
