#include "generator/operand_relayout.h"

#include <fmt/format.h>

#include "formats/operand_layout.h"

namespace sparsmith {
namespace {

// What the snippets call an order, and how a kernel's name spells it; by OperandOrder.
struct OrderName {
  const char* name;
  const char* tag;
};
constexpr OrderName kOrders[] = {{"FragmentOrder", "fragment"}, {"StripOrder", "strip"}, {"PairedOrder", "paired"}};

}  // namespace

std::string OperandRelayout::chunks() const {
  return order == OperandOrder::kFragment ? strips : fmt::format("2 * ({})", strips);
}

std::string OperandRelayout::token_tiles() const {
  return fmt::format("ceil_div(n, {}) * {}", block_tiles * operands::kTileTokens, block_tiles);
}

std::string OperandRelayout::bytes() const {
  return fmt::format("{} * {} * ({})", chunks(), operands::kChunkBytes, token_tiles());
}

Parameter input_parameter(bool later) {
  return {.name = "input",
          .abbreviation = "x",
          .values = {0, 1},
          .meaning = "X as it lies, or laid out as operands by a launch in front",
          .labels = {"direct", "relayout"},
          .later = later};
}

bool comes_by_vectors(const OperatorSpec& spec) { return spec.layout == Layout::kTokenMajor && spec.cols % 8 == 0; }

bool worth_laying_out(const Problem& problem) { return problem.tokens >= (comes_by_vectors(problem.spec) ? 9 : 8); }

void add_operand_relayout(const OperatorSpec& spec, const OperandRelayout& relayout, PlannedKernels& kernels) {
  KernelText text;
  const bool token_major = spec.layout == Layout::kTokenMajor;
  const OrderName& names = kOrders[static_cast<std::size_t>(relayout.order)];
  text.name = fmt::format("relayout_operands_{}_{}_{}", names.tag, short_name(spec.type), token_major ? "tm" : "fm");
  text.summary = "X to operands of tensor cores";
  text.threads = 128;
  text.headers = {"snippets/prolog/operand_orders.cuh", "snippets/kernels/relayout_operands.cuh"};
  text.lines = {input_type(spec),
                {fmt::format("using Kernel = RelayoutOperandsKernel<InputType, operands::{}, {}, kThreads>", names.name,
                             boolean(token_major)),
                 "order of columns, token-major"}};
  add_input_parameters(spec, text);
  text.parameters.insert(text.parameters.end(), {{"u8*", "operands", workspace()},
                                                 {"int", "strips", integer(relayout.strips)},
                                                 {"int", "block_tiles", integer(relayout.block_tiles)}});
  text.body = "Kernel::run({x, ldx, cols, n}, operands, strips, block_tiles);";
  const int warps = text.threads / operands::kLanes;
  kernels.launch(std::move(text)).grid = {formula("max(ceil_div({}, {}), 1)", relayout.chunks(), warps),
                                          formula("min({}, 65535)", relayout.token_tiles()), 1};
}

void add_operand_parameters(const OperandRelayout& relayout, KernelText& text) {
  text.parameters.push_back({"const u8*", "operands", workspace()});
  text.parameters.push_back({"int", "operand_strips", integer(relayout.strips)});
}

}  // namespace sparsmith
