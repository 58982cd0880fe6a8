// The launch that lays X out as operands of tensor cores at the start of the workspace (formats/operand_layout.h), for
// the families that may have it in front.
#pragma once

#include <cstdint>
#include <string>

#include "generator/config.h"
#include "generator/kernel_parts.h"

namespace sparsmith {

// A struct of snippets/prolog/operand_orders.cuh.
enum class OperandOrder { kFragment, kStrip, kPaired };

struct OperandRelayout {
  OperandOrder order;
  std::string strips;  // formula: of 64 columns, in fragment order of 32
  int block_tiles;     // token tiles of a token block

  std::string chunks() const;       // formula: of 32 columns
  std::string token_tiles() const;  // formula: of all token blocks
  std::string bytes() const;        // formula: of the operands
};

// Whether X is laid out: 0 is "direct", 1 is "relayout". `later`: as in Parameter.
Parameter input_parameter(bool later);
// Whether 16-byte loads bring X where it lies; otherwise it comes element by element.
bool comes_by_vectors(const OperatorSpec& spec);
// Whether bitmap and scatter kernels may gain by it, and why not.
bool worth_laying_out(const Problem& problem);
inline constexpr const char* kInputWorthwhile =
    "X is laid out where there is much of it, or where it does not come as vectors";

KernelText relayout_operands_text(const OperatorSpec& spec, const OperandRelayout& relayout);
PlanStep relayout_operands_step(const OperandRelayout& relayout, const KernelText& text);

// For the kernel behind it, whose `Input` is an OperandInput or a FragmentOperands: parameters behind those of X, and
// the statement that makes an `input`.
std::string make_operand_input(const OperatorSpec& spec);
void add_operand_parameters(const OperandRelayout& relayout, KernelText& text);

}  // namespace sparsmith
