// Look-ups and validation of a tuned file's contents, for reading and for writing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "formats/packed_format.h"
#include "formats/places.h"
#include "runtime/device_properties.h"
#include "runtime/group_members.h"
#include "runtime/token_bucket.h"
#include "runtime/tuned_file.h"

namespace sparsmith {
namespace {

// Limit of rows, columns and tokens. Below it, products fit 64 bits.
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 40;
constexpr std::size_t kMaxNameCharacters = 4096;
// Limits of lists with linear search. `tune` keeps a few packings, and one choice for each bucket.
constexpr std::size_t kMaxPackings = 64;
constexpr std::size_t kMaxArrays = 64;
constexpr std::size_t kMaxChoices = 4096;

// The item whose `member` is `value`, or null.
template <class Items, class Value, class Member>
const auto* find_in(const Items& items, const Value& value, const Member& member) {
  const auto found = std::ranges::find(items, value, member);
  return found == items.end() ? nullptr : &*found;
}

bool is_figure(double value) { return std::isfinite(value) && value >= 0; }

Status check_shape(const TunedWeight& weight) {
  if (weight.rows < 1 || weight.cols < 1 || weight.rows > kMaxExtent || weight.cols > kMaxExtent / weight.rows)
    return invalid_input(fmt::format("a weight of {} x {}", weight.rows, weight.cols));
  if (weight.type != DataType::kFloat32 && weight.type != DataType::kFloat16 && weight.type != DataType::kBFloat16)
    return invalid_input(fmt::format("{} is no type of a weight", short_name(weight.type)));
  if (weight.nnz < 0 || weight.nnz > weight.rows * weight.cols)
    return invalid_input(fmt::format("{} nonzeros in {} x {}", weight.nnz, weight.rows, weight.cols));
  return {};
}

// Checks that the array has the type and size of the dense weight.
Status check_dense(const TunedPacking& packing, std::string_view name, const TunedWeight& weight) {
  const TunedArray* values = packing.array(name);
  if (values == nullptr || values->type != weight.type ||
      static_cast<std::int64_t>(values->bytes.size()) != weight.dense_bytes()) {
    return invalid_input(
        fmt::format("packing {}: there is no array {} of {} x {}", packing.packing, name, weight.rows, weight.cols));
  }
  return {};
}

// The names that arguments of plans may use.
struct PlanScope {
  const TunedPacking& packing;
  std::vector<std::string_view> arrays;  // besides the packing's
  std::vector<std::string_view> operands;
  std::span<const std::string_view> scalars;
  const std::set<std::string_view>& kernels;
};

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

Status check_name_of(const PlanArgument& argument, const PlanScope& scope) {
  if (argument.kind == PlanArgument::Kind::kPacked && scope.packing.array(argument.name) == nullptr &&
      !contains(scope.arrays, argument.name))
    return invalid_input(fmt::format("packing {} has no array {}", scope.packing.packing, argument.name));
  const bool operand = argument.kind == PlanArgument::Kind::kOperand || argument.kind == PlanArgument::Kind::kTensorMap;
  if (operand && !contains(scope.operands, argument.name))
    return invalid_input(fmt::format("there is no operand {:.100}", argument.name));
  if (argument.kind == PlanArgument::Kind::kScalar && !contains(scope.scalars, argument.name))
    return invalid_input(fmt::format("there is no scalar {:.100}", argument.name));
  return {};
}

Status check_names(const LaunchPlan& plan, const PlanScope& scope) {
  for (const PlanStep& step : plan.steps) {
    if (step.kind != PlanStep::Kind::kLaunch) continue;
    if (!scope.kernels.contains(step.kernel)) return invalid_input(fmt::format("there is no kernel {}", step.kernel));
    for (const PlanArgument& argument : step.arguments) {
      SPARSMITH_RETURN_IF_ERROR(check_name_of(argument, scope).annotate("kernel " + step.kernel));
    }
  }
  return {};
}

Status check_writers(std::span<const TunedWriter> writers, const TunedWeight& weight, const PlanScope& scope) {
  std::set<DataType> sources;
  for (const TunedWriter& writer : writers) {
    if ((writer.source != DataType::kFloat32 && writer.source != weight.type) || !sources.insert(writer.source).second)
      return invalid_input(fmt::format("a writer from {} stands twice, or is none", short_name(writer.source)));
    if (std::ranges::any_of(writer.plan.steps, [](const auto& step) { return step.kind != PlanStep::Kind::kLaunch; }))
      return invalid_input("a writer only launches kernels");
    SPARSMITH_RETURN_IF_ERROR(check_names(writer.plan, scope).annotate("writer"));
  }
  return {};
}

Status check_pruners(const TunedWeight& weight, const std::set<std::string_view>& kernels) {
  if (weight.pruners.empty()) return {};
  for (const std::string_view packing : kPrunedPackings)
    if (weight.packing(packing) == nullptr) return invalid_input(fmt::format("there is no packing {}", packing));
  return check_writers(weight.pruners, weight,
                       {TunedPacking(), {kPrunedTiles, kPrunedTransposedTiles}, {kPrunedOperand}, {}, kernels});
}

Status check_packing(const TunedPacking& packing, const TunedWeight& weight,
                     const std::set<std::string_view>& kernels) {
  if (packing.arrays.size() > kMaxArrays) {
    return invalid_input(fmt::format("packing {}: over {} arrays", packing.packing, kMaxArrays));
  }
  std::set<std::string_view> names;
  for (const TunedArray& array : packing.arrays) {
    if (array.name.empty() || !names.insert(array.name).second) {
      return invalid_input(
          fmt::format("packing {}: the array \"{}\" stands twice, or has no name", packing.packing, array.name));
    }
    if (array.bytes.size() % size_of(array.type) != 0) {
      return invalid_input(
          fmt::format("packing {}: array {} is no whole number of elements", packing.packing, array.name));
    }
  }
  return check_writers(packing.writers, weight,
                       {packing, {kPlaceRuns, kPlaceOffsets, kPlaceCopies}, {kWriterOperand}, {}, kernels})
      .annotate(fmt::format("packing {}", packing.packing));
}

Status check_choice(const TunedChoice& choice, const TunedWeight& weight, const OperatorSpec& spec,
                    const std::set<std::string_view>& kernels) {
  const TunedPacking* packing = weight.packing(choice.packing);
  if (packing == nullptr) return invalid_input(fmt::format("there is no packing {}", choice.packing));
  // A library's product turns the weight by itself.
  if ((!choice.plan.has_matmul() || !spec.multiplies_weight()) &&
      is_transposed(choice.packing) != (spec.kind == OperatorKind::kSpmmTransposed))
    return invalid_input(fmt::format("packing {:.100} is not for {}", choice.packing, operator_kind_name(spec.kind)));
  if (choice.config.empty()) return invalid_input("it has no config");
  if (choice.plan.steps.empty()) return invalid_input("its plan has no step");
  if (!is_figure(choice.median_us) || !is_figure(choice.dense_us)) return invalid_input("its times are no times");
  for (const PlanStep& step : choice.plan.steps) {
    if (step.kind != PlanStep::Kind::kMatmul) continue;
    if (!spec.multiplies_weight()) {
      if (!step.makes_gradient() || !step.product)
        return invalid_input("its plan multiplies by the weight, of which sddmm has the pattern alone");
    } else if (!step.weight) {
      SPARSMITH_RETURN_IF_ERROR(check_dense(*packing, step.array, weight));
    }
  }
  std::vector<std::string_view> operands;
  for (const Operand& operand : spec.operands()) operands.push_back(operand.name);
  return check_names(choice.plan, {*packing, {}, std::move(operands), OperatorSpec::kScalars, kernels});
}

Status check_operator(const TunedOperator& op, const TunedWeight& weight, const std::set<std::string_view>& kernels) {
  OperatorSpec expected = op.spec;
  expected.set_weight(weight.rows, weight.cols, weight.nnz);
  if (op.spec != expected || op.spec.type != weight.type)
    return invalid_input(fmt::format("it is of a weight of {} x {} in {}", op.spec.weight_rows(), op.spec.weight_cols(),
                                     short_name(op.spec.type)));
  if (const Status status = op.spec.check(); !status.ok()) return invalid_input(status.message());
  if (op.choices.empty()) return invalid_input("it has no choice");
  if (op.choices.size() > kMaxChoices) return invalid_input(fmt::format("over {} choices", kMaxChoices));
  std::int64_t last = 0;
  for (const TunedChoice& choice : op.choices) {
    if (choice.tokens <= last) return invalid_input("its buckets do not ascend from 1");
    if (choice.tokens > kMaxExtent) return invalid_input(fmt::format("a bucket of {} tokens", choice.tokens));
    last = choice.tokens;
    SPARSMITH_RETURN_IF_ERROR(
        check_choice(choice, weight, op.spec, kernels).annotate(fmt::format("choice for {} tokens", choice.tokens)));
  }
  return {};
}

// Checks that members follow each other without gap or overlap, from the first row of their group to the last.
Status check_members(const TunedWeight& weight) {
  std::int64_t next = 0;
  std::string before;
  const auto nobody = [&](std::int64_t end) {
    return invalid_input(fmt::format("rows {} to {} belong to no member", next, end - 1));
  };
  for (const GroupMember& member : weight.members) {
    if (member.first_row < next)
      return invalid_input(fmt::format("member {} begins in row {}{}", member.name, member.first_row, before));
    if (member.first_row > next) return nobody(member.first_row);
    if (member.rows < 1 || member.rows > weight.rows - next)
      return invalid_input(fmt::format("member {} has {} rows from row {} on, the group {}", member.name, member.rows,
                                       next, weight.rows));
    next += member.rows;
    before = fmt::format(", inside of member {} or before it", member.name);
  }
  return next < weight.rows && !weight.members.empty() ? nobody(weight.rows) : Status();
}

// Checks that the weight, or each member of a group, is the part of `rank`.
Status check_cut(const TunedWeight& weight, int rank, int ranks) {
  if (!weight.cut) return {};
  const WeightCut& cut = *weight.cut;
  SPARSMITH_RETURN_IF_ERROR(cut.validate());
  if (cut.ranks() != ranks)
    return invalid_input(fmt::format("a cut for {} ranks in a file for {}", cut.ranks(), ranks));
  const bool rows = cut.dimension == WeightCut::Dimension::kRows;
  if (!rows && !weight.members.empty()) return invalid_input("a group is cut by columns");
  const auto check = [&](std::int64_t features) -> Status {
    if (features % cut.units_of(rank) == 0 && features / cut.units_of(rank) <= kMaxExtent / cut.units()) return {};
    return invalid_input(fmt::format("{} {} are no part of {} of {} units", features, rows ? "rows" : "columns",
                                     cut.units_of(rank), cut.units()));
  };
  for (const GroupMember& member : weight.members) SPARSMITH_RETURN_IF_ERROR(check(member.rows));
  SPARSMITH_RETURN_IF_ERROR(check(rows ? weight.rows : weight.cols));
  const TunedOperator* const spmm = weight.op(OperatorKind::kSpmm);
  if (rows || spmm == nullptr) return {};
  Epilogue sum;
  sum.bias = spmm->spec.epilogue.bias;
  if (spmm->spec.epilogue == sum) return {};
  return invalid_input(
      fmt::format("the epilogue {} of a weight that is cut by columns: its products are summed over "
                  "ranks first",
                  spmm->spec.epilogue.name()));
}

Status check_weight(const TunedWeight& weight, const std::set<std::string_view>& kernels) {
  SPARSMITH_RETURN_IF_ERROR(check_shape(weight));
  SPARSMITH_RETURN_IF_ERROR(check_members(weight));
  if (weight.packings.size() > kMaxPackings) return invalid_input(fmt::format("over {} packings", kMaxPackings));
  std::set<std::string_view> packings;
  for (const TunedPacking& packing : weight.packings) {
    if (!packings.insert(packing.packing).second)
      return invalid_input(fmt::format("packing {} stands twice", packing.packing));
    SPARSMITH_RETURN_IF_ERROR(check_packing(packing, weight, kernels));
  }
  SPARSMITH_RETURN_IF_ERROR(check_pruners(weight, kernels).annotate("pruners"));
  if (weight.operators.empty()) return invalid_input("it has no operator");
  std::set<OperatorKind> kinds;
  for (const TunedOperator& op : weight.operators) {
    const std::string kind(operator_kind_name(op.spec.kind));
    if (!kinds.insert(op.spec.kind).second) return invalid_input(fmt::format("the operator {} stands twice", kind));
    SPARSMITH_RETURN_IF_ERROR(check_operator(op, weight, kernels).annotate(kind));
  }
  return {};
}

Status check_kernel(const TunedKernel& kernel) {
  if (kernel.max_shared_bytes < 0) return invalid_input("negative shared memory");
  std::set<std::string_view> architectures;
  for (const TunedKernel::Binary& binary : kernel.binaries) {
    if (compute_capability_of(binary.architecture) == 0 || !architectures.insert(binary.architecture).second) {
      return invalid_input(fmt::format("\"{}\" is no architecture, or stands twice", binary.architecture));
    }
  }
  return {};
}

Status check_name(std::string_view what, std::string_view name, std::set<std::string_view>& seen) {
  if (name.empty() || name.size() > kMaxNameCharacters || !seen.insert(name).second) {
    return invalid_input(fmt::format("the {} \"{:.100}\" stands twice, or its name is empty or too long", what, name));
  }
  return {};
}

}  // namespace

const TunedKernel::Binary* TunedKernel::binary_for(int compute_capability) const {
  const Binary* best = nullptr;
  int best_rank = -1;
  for (const Binary& binary : binaries) {
    const int built_for = compute_capability_of(binary.architecture);
    const bool exact = binary.architecture.ends_with('a');  // "sm_90a": no other device
    const bool runs = exact ? built_for == compute_capability
                            : built_for / 10 == compute_capability / 10 && built_for <= compute_capability;
    const int rank = 2 * built_for + (exact ? 1 : 0);
    if (!runs || rank <= best_rank) continue;
    best = &binary;
    best_rank = rank;
  }
  return best;
}

const TunedArray* TunedPacking::array(std::string_view name) const { return find_in(arrays, name, &TunedArray::name); }

std::int64_t TunedPacking::bytes() const { return gpu_bytes(arrays); }

TunedPacking view_of(const PackedWeight& packed) {
  TunedPacking packing{packed.packing, packed.packer_version, packed.facts, {}, {}};
  for (const PackedArray& array : packed.arrays) packing.arrays.push_back({array.name, array.type, array.bytes});
  return packing;
}

std::int64_t TunedWeight::packed_bytes() const {
  std::int64_t total = 0;
  for (const TunedPacking& packing : packings) total += packing.bytes();
  return total;
}

std::int64_t TunedWeight::dense_bytes() const { return rows * cols * static_cast<std::int64_t>(size_of(type)); }

const TunedPacking* TunedWeight::packing(std::string_view packing_name) const {
  return find_in(packings, packing_name, &TunedPacking::packing);
}

const TunedOperator* TunedWeight::op(OperatorKind kind) const {
  return find_in(operators, kind, [](const TunedOperator& op) { return op.spec.kind; });
}

const TunedChoice& TunedOperator::choice_for(std::int64_t tokens) const {
  return choices[bucket_for(tokens, choices, &TunedChoice::tokens)];
}

PackedView view_of(const TunedWeight& weight, const TunedPacking& packing) {
  return {packing.packing, packing.packer_version, weight.rows,   weight.cols,
          weight.type,     packing.arrays,         &packing.facts};
}

PackedWeight packed_weight_of(const TunedWeight& weight, const TunedPacking& packing) {
  PackedWeight packed{packing.packing, packing.packer_version, weight.rows, weight.cols, weight.nnz, weight.type};
  packed.facts = packing.facts;
  for (const TunedArray& array : packing.arrays)
    packed.arrays.push_back({array.name, array.type, {array.bytes.begin(), array.bytes.end()}});
  return packed;
}

Result<CsrMatrix> matrix_of(const TunedWeight& weight) {
  if (weight.packings.empty()) return unsupported(weight.name + ": there is no packing to unpack");
  const auto found = std::ranges::find_if(weight.packings, holds_values, &TunedPacking::packing);
  const Result<CsrMatrix> matrix =
      unpack(view_of(weight, found != weight.packings.end() ? *found : weight.packings.front()));
  return matrix.ok() ? matrix : matrix.status().annotate(weight.name);
}

const TunedWeight* TunedContents::weight(std::string_view name) const {
  return find_in(weights, name, &TunedWeight::name);
}
const TunedKernel* TunedContents::kernel(std::string_view name) const {
  return find_in(kernels, name, &TunedKernel::name);
}

Result<const TunedWeight*> TunedContents::find_weight(std::string_view name) const {
  if (const TunedWeight* const found = weight(name)) return found;
  std::vector<std::string> names;
  for (const TunedWeight& each : weights) {
    SPARSMITH_RETURN_IF_ERROR(not_a_member(name, each.name, each.members));
    names.push_back(each.name);
  }
  return no_such_weight(name, names);
}

Status TunedContents::validate() const {
  constexpr int kMostRanks = 1 << 16;
  if (ranks < 1 || ranks > kMostRanks || rank < 0 || rank >= ranks)
    return invalid_input(fmt::format("it is for rank {} of {}", rank, ranks));
  std::set<std::string_view> kernel_names;
  for (const TunedKernel& kernel : kernels) {
    SPARSMITH_RETURN_IF_ERROR(check_name("kernel", kernel.name, kernel_names));
    SPARSMITH_RETURN_IF_ERROR(check_kernel(kernel).annotate("kernel " + kernel.name));
  }
  std::set<std::string_view> weight_names;  // and those of members: a name says one thing
  for (const TunedWeight& weight : weights) {
    SPARSMITH_RETURN_IF_ERROR(check_name("weight", weight.name, weight_names));
    for (const GroupMember& member : weight.members) {
      SPARSMITH_RETURN_IF_ERROR(check_name("member", member.name, weight_names).annotate("weight " + weight.name));
    }
    SPARSMITH_RETURN_IF_ERROR(check_weight(weight, kernel_names).annotate("weight " + weight.name));
    SPARSMITH_RETURN_IF_ERROR(check_cut(weight, rank, ranks).annotate("weight " + weight.name));
  }
  return {};
}

}  // namespace sparsmith
