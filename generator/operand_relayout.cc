#include "generator/operand_relayout.h"

#include <fmt/format.h>

#include <algorithm>

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

std::string OperandRelayout::token_tiles() const {
  return fmt::format("ceil_div(n, {}) * {}", block_tiles * operands::kTileTokens, block_tiles);
}

std::string OperandRelayout::bytes() const {
  return fmt::format("{} * ({})", chunks * operands::kChunkBytes, token_tiles());
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

KernelText relayout_operands_text(const OperatorSpec& spec, OperandOrder order) {
  KernelText text;
  const bool token_major = spec.layout == Layout::kTokenMajor;
  const OrderName& names = kOrders[static_cast<std::size_t>(order)];
  text.name = fmt::format("relayout_operands_{}_{}_{}", names.tag, short_name(spec.type), token_major ? "tm" : "fm");
  text.summary = "X to operands of tensor cores";
  text.threads = 128;
  text.headers = {"snippets/prolog/operand_orders.cuh", "snippets/kernels/relayout_operands.cuh"};
  text.lines = {{fmt::format("using Value = {}", device_type(spec.type)), "of X"},
                {fmt::format("using Kernel = RelayoutOperandsKernel<Value, operands::{}, {}, kThreads>", names.name,
                             boolean(token_major)),
                 "order of columns, token-major"}};
  text.parameters = {{"const Value*", "x"}, {"i64", "ldx"},    {"int", "cols"},       {"int", "n"},
                     {"u8*", "operands"},   {"int", "strips"}, {"int", "block_tiles"}};
  text.body = "Kernel::run({x, ldx, cols, n}, operands, strips, block_tiles);";
  return text;
}

PlanStep relayout_operands_step(const OperatorSpec& spec, const OperandRelayout& relayout, const KernelText& text,
                                PlanArguments& arguments) {
  const std::int64_t warps = text.threads / operands::kLanes;
  PlanStep step;
  step.kernel = text.name;
  step.grid = {std::max<std::int64_t>((relayout.chunks + warps - 1) / warps, 1),
               arguments.expression(fmt::format("min({}, 65535)", relayout.token_tiles())), 1};
  step.block = {text.threads, 1, 1};
  step.arguments = {PlanArguments::x(),
                    arguments.int64("ldx"),
                    arguments.int32(std::to_string(spec.cols)),
                    arguments.int32("n"),
                    arguments.workspace("0"),
                    arguments.int32(std::to_string(relayout.strips())),
                    arguments.int32(std::to_string(relayout.block_tiles))};
  return step;
}

std::string make_operand_input(const OperatorSpec& spec) {
  return fmt::format("Input input(LaidOutOperands<Value, {}>{{operands, operand_strips, x, ldx, cols, n}});\n",
                     boolean(spec.layout == Layout::kTokenMajor));
}

void add_operand_parameters(KernelText& text) {
  text.parameters.insert(text.parameters.end(), {{"const u8*", "operands"}, {"int", "operand_strips"}});
}

void add_operand_arguments(const OperandRelayout& relayout, PlanArguments& arguments, PlanStep& step) {
  step.arguments.push_back(arguments.workspace("0"));
  step.arguments.push_back(arguments.int32(std::to_string(relayout.strips())));
}

}  // namespace sparsmith
