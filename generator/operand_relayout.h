// The launch that lays out X as operands of tensor cores at the start of the workspace (formats/operand_layout.h), for
// families that may run it first.
#pragma once

#include <string>

#include "generator/config.h"
#include "generator/kernel_parts.h"

namespace sparsmith {

// A struct of snippets/prolog/operand_orders.cuh.
enum class OperandOrder { kFragment, kStrip, kPaired };

struct OperandRelayout {
  OperandOrder order;
  std::string strips;  // a formula: the strips, of 64 columns, or of 32 in fragment order
  int block_tiles;     // token tiles per token block

  std::string chunks() const;       // a formula: the chunks of 32 columns
  std::string token_tiles() const;  // a formula: the token tiles of all token blocks
  std::string bytes() const;        // a formula: the bytes of the operands
};

// The parameter that says whether X is laid out: 0 is "direct", 1 is "relayout". `later`: as in Parameter.
Parameter input_parameter(bool later);
// Whether 16-byte loads can bring X from its own layout; otherwise X comes element by element.
bool comes_by_vectors(const OperatorSpec& spec);
// Whether bitmap and scatter kernels may gain from laying X out. kInputWorthwhile: the reason of that rule.
bool worth_laying_out(const Problem& problem);
inline constexpr const char* kInputWorthwhile =
    "X is laid out where there is much of it, or where it does not come as vectors";

void add_operand_relayout(const OperatorSpec& spec, const OperandRelayout& relayout, PlannedKernels& kernels);

// For the next kernel, whose `Input` is an OperandInput or a FragmentOperands: the parameters behind those of X, and
// the statement that makes an `input`.
inline constexpr const char* kMakeOperandInput = "Input input{{operands, operand_strips, x, ldx, cols, n}};\n";
void add_operand_parameters(const OperandRelayout& relayout, KernelText& text);

}  // namespace sparsmith
