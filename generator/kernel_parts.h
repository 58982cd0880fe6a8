// Parts of kernels and launch plans that several families share: the epilog, the relayout of X, the sum over parts of
// K, and the candidate as a whole.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/coding.h"
#include "formats/packed_weight.h"
#include "generator/candidate.h"
#include "generator/kernel_text.h"
#include "generator/rule.h"
#include "runtime/launch_plan.h"
#include "runtime/operator_spec.h"
#include "sparsmith/status.h"

namespace sparsmith {

// The kernels of a candidate, and the plan that launches them.
struct PlannedKernels {
  std::vector<KernelText> texts;
  LaunchPlan plan;

  // Adds a kernel, and its launch behind the others. The launch has one block until the caller changes it.
  PlanStep& launch(KernelText text);
};

// The type as snippets spell it: "half", "bfloat16", "float", "i8".
std::string_view device_type(DataType type);

// The lines that name the element types. `Stored`: the weight's values as its packing holds them. `InputType`: X.
// `OutputType`: Y, bias and residual.
KernelText::Line stored_type(DataType type);
KernelText::Line input_type(const OperatorSpec& spec);
KernelText::Line output_type(const OperatorSpec& spec);

// "true" or "false". token_major(): whether the operands are token-major.
std::string_view boolean(bool value);
std::string_view token_major(const OperatorSpec& spec);

// "fp16_tm_bias_relu": the properties of the operator that decide a kernel's code.
std::string spec_tag(const OperatorSpec& spec);

// The type of snippets/reduction/row_products.cuh that adds up the products of an entry with the tokens of its row.
std::string_view row_products_type(const OperatorSpec& spec);

// coding_type(): the line that names `Coding`, a type of snippets/prolog/csr_stream.cuh that turns stored values into
// numbers; it stands behind the line of stored_type(). make_coding(): adds the parameters, and returns the statement
// that makes a `coding`. nullptr: values are of the weight's type.
KernelText::Line coding_type(const Coding* coding);
std::string make_coding(const Coding* coding, const OperatorSpec& spec, KernelText& text);

// Adds the epilog as `Output`, after the line of output_type().
void add_output(const OperatorSpec& spec, KernelText& text);

// Adds the parameters of X in its own layout: x, ldx, cols and n.
void add_input_parameters(const OperatorSpec& spec, KernelText& text);
// The epilog's parameters, and the statement that makes an `output` from them.
void add_output_parameters(KernelText& text);
inline constexpr const char* kMakeOutput = "const Output output{y, ldy, bias, residual, ldr, alpha, beta};\n";

// Adds the dynamic shared memory of a launch. `counted`: the snippet's own count; the compiler asserts that both are
// equal.
void add_shared_bytes(std::int64_t bytes, std::string_view counted, KernelText& text);

// Rules of kernels whose warpgroups multiply 16-bit weights by X in boxes of config["token_tile"] tokens
// (PlanArgument::Kind::kTensorMap).
std::vector<Rule> legal_box_rules();
std::vector<Rule> worthwhile_box_rules();

// Launches the second kernel of a gated operator, which makes Y of V. `offset`: a formula for V's place in the
// workspace; there it lies in Y's layout without gaps. `sums`: as the sums W X in fp32; otherwise as values of Y's
// type, with alpha and bias.
void add_gated(const OperatorSpec& spec, bool sums, const std::string& offset, PlannedKernels& kernels);
// Makes a gated operator of `kernels`, which compute V as their y.
void gate_output(const OperatorSpec& spec, PlannedKernels& kernels);

// Makes kernels of a plain epilogue leave their sums in fp32 in the workspace, in token-major Y's layout without gaps,
// for a kernel behind them. Kernels that store sums of parts stay. `offset`: a formula. REQUIRES: a step for each text.
void leave_sums(const OperatorSpec& spec, const std::string& offset, PlannedKernels& kernels);

// The number of a grid's blocks that share out N in tiles of `tokens` tokens.
IntegerExpression token_blocks(std::int64_t tokens);

// For kernels with K cut into parts. add_part_output() names `Output`: the epilog or, for a `split` kernel, the type
// that stores a part's sums in fp32, in Y's layout. make_part_output() adds its parameters, and returns the statement
// that makes an `output`. `partials`: a formula for the start of the sums in the workspace.
void add_part_output(const OperatorSpec& spec, bool split, KernelText& text);
std::string make_part_output(const OperatorSpec& spec, bool split, const std::string& partials, KernelText& text);
// The range of units of K ("strip") that a block processes, of all `count` (a parameter's name) units. Adds, if there
// are several parts, the parameter that gives the units per part. Returns the statements that make first_strip and
// end_strip.
std::string make_part_range(int parts, const std::string& unit, const std::string& count, KernelText& text);
// Launches a kernel that runs the epilog, one thread per element, on the results of the kernels before it. `text` lacks
// what all these kernels share: the tag of the name, threads, all lines but `kernel`, and the statement that makes the
// `output`. `elements`: a formula.
void add_finisher(const OperatorSpec& spec, const std::string& elements, KernelText::Line kernel, KernelText text,
                  PlannedKernels& kernels);
// Launches the second kernel, which adds up the sums of the parts in order and runs the epilog.
void add_finish_parts(const OperatorSpec& spec, int parts, const std::string& partials, PlannedKernels& kernels);
std::string part_bytes(const OperatorSpec& spec, int parts);  // a formula: the bytes of all sums

// Launches the relayout of token-major X [n][cols] to feature-major Xt [cols + 1][kRelayoutStride], at the start of the
// workspace; the last row is zeros. relayout_bytes(): a formula, rounded up to a multiple of 256.
void add_relayout(const OperatorSpec& spec, PlannedKernels& kernels);
inline constexpr const char* kRelayoutStride = "ceil_div(n, 8) * 8";  // elements from one row of Xt to the next
std::string relayout_bytes(const OperatorSpec& spec);
// The time that turning X (in tokens, or in panels of tokens) adds to the time of the next kernel: a figure of the cost
// models.
double relayout_us(const Problem& problem);

// The candidate with these kernels. Error: kUnsupported if a launch asks for more shared memory than a block has. (The
// check of families before a weight is packed is an estimate.)
Result<Candidate> make_candidate(const Config& config, const Problem& problem, const PackedWeight& packed,
                                 PlannedKernels planned);

}  // namespace sparsmith
