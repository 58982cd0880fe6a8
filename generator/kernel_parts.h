// What kernels and launch plans of several families are made of: the epilog, the relayout of X, the arguments of a
// plan's steps, and the candidate as a whole.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "formats/coding.h"
#include "formats/packed_weight.h"
#include "generator/candidate.h"
#include "generator/kernel_text.h"
#include "generator/rule.h"
#include "runtime/launch_plan.h"
#include "runtime/operator_spec.h"
#include "sparsmith/status.h"

namespace sparsmith {

// As snippets spell it: "half", "bfloat16", "float", "i8".
std::string_view device_type(DataType type);

// The lines that name the element types: of the weight's values as its packing holds them, `Stored`; of X, `InputType`;
// of Y, bias and residual, `OutputType`.
KernelText::Line stored_type(DataType type);
KernelText::Line input_type(const OperatorSpec& spec);
KernelText::Line output_type(const OperatorSpec& spec);

// "true" or "false".
std::string_view boolean(bool value);

// "fp16_tm_bias_relu": what of the operator decides a kernel's code.
std::string spec_tag(const OperatorSpec& spec);

// How the products of an entry with the tokens of its row are added up: a type of snippets/reduction/row_products.cuh.
std::string_view row_products_type(const OperatorSpec& spec);

// How stored values become numbers: the line that names `Coding`, of snippets/prolog/codings.cuh, behind that of
// stored_type(); then its parameters, and the statement that makes a `coding`. nullptr: values are of the weight's
// type.
KernelText::Line coding_type(const Coding* coding);
std::string make_coding(const Coding* coding, const OperatorSpec& spec, KernelText& text);

// Adds the epilog: names it `Output`, after the line of output_type().
void add_output(const OperatorSpec& spec, KernelText& text);

// The epilog's parameters, and the statement that makes an `output` of them.
void add_output_parameters(KernelText& text);
inline constexpr const char* kMakeOutput = "const Output output{y, ldy, bias, residual, ldr, alpha, beta};\n";

// Dynamic shared memory of a launch. `counted`: the snippet's own count, which the compiler holds to be the same.
void add_shared_bytes(std::int64_t bytes, std::string_view counted, KernelText& text);

// The blocks of a grid that share out N in tiles of so many tokens.
IntegerExpression token_blocks(std::int64_t tokens);

// Where K is cut into parts. Names `Output`: the epilog or, of a `split` kernel, what stores a part's sums in fp32, in
// Y's layout; then come its parameters, and the statement that makes an `output`. `partials` is a formula: where the
// sums begin in the workspace.
void add_part_output(const OperatorSpec& spec, bool split, KernelText& text);
std::string make_part_output(const OperatorSpec& spec, bool split, const std::string& partials, KernelText& text);
// Which of the `count` (a parameter's name) units of K, as "strip", a block goes through: the parameter that says how
// many a part has, where there are several parts, and the statements that make first_strip and end_strip.
std::string make_part_range(int parts, const std::string& unit, const std::string& count, KernelText& text);
// The second kernel, which adds up the sums of parts in order and runs the epilog.
KernelText finish_parts_text(const OperatorSpec& spec, int parts, const std::string& partials);
PlanStep finish_parts_step(const OperatorSpec& spec, const KernelText& text);
std::string part_bytes(const OperatorSpec& spec, int parts);  // formula: of all sums

// Token-major X [n][cols] to feature-major Xt [cols + 1][kRelayoutStride], at the start of the workspace; the last row
// is zeros. relayout_bytes: a formula, to the next multiple of 256.
KernelText relayout_text(const OperatorSpec& spec);
PlanStep relayout_step(const OperatorSpec& spec, const KernelText& text);
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
