#include "tests/support/checked_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <new>
#include <set>

#include "runtime/loaded_model.h"
#include "runtime/plan_sizes.h"
#include "tests/support/fake_cuda_driver.h"

namespace sparsmith::test {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 24;  // of a buffer; larger runs are left out

// Bytes on the heap, without room behind them, that the device may touch.
class LentBytes {
 public:
  explicit LentBytes(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    address_ = ::operator new(bytes_, kAlignment);
    std::memset(address_, 0, bytes_);
    fake_cuda().memory[reinterpret_cast<std::uintptr_t>(address_)] = bytes_;
  }
  LentBytes(const LentBytes&) = delete;
  LentBytes& operator=(const LentBytes&) = delete;
  ~LentBytes() {
    fake_cuda().memory.erase(reinterpret_cast<std::uintptr_t>(address_));
    ::operator delete(address_, kAlignment);
  }
  void* address() const { return address_; }
  std::uint64_t begin() const { return reinterpret_cast<std::uintptr_t>(address_); }

 private:
  static constexpr std::align_val_t kAlignment{256};
  std::size_t bytes_;
  void* address_;
};

struct Buffers {
  NamedValues<std::uint64_t> operands;  // 0: of one that is not present
  const LentBytes& workspace;
  std::int64_t workspace_bytes;
};

class Checker {
 public:
  Checker(const TunedContents& contents, const LoadedModel& model) : contents_(contents), model_(model) {}

  // The launches of one run against its plan; what is wrong, or nothing.
  std::string check(const TunedWeight& weight, const TunedChoice& choice, const IntegerVariables& variables,
                    const Buffers& buffers) const {
    const std::vector<FakeCudaState::Launch>& launches = fake_cuda().launches;
    std::size_t next = 0;
    for (const PlanStep& step : choice.plan.steps) {
      if (step.kind != PlanStep::Kind::kLaunch) continue;
      LaunchSizes sizes;
      const std::int64_t shared_bytes = contents_.kernel(step.kernel)->max_shared_bytes;
      const Status status = evaluate_launch(step, variables, kMaxThreadsPerBlock, shared_bytes, sizes);
      if (!status.ok()) return status.message() + ", and was run";
      if (sizes.nothing_to_do()) continue;
      if (next == launches.size()) return "a step was not launched";
      const FakeCudaState::Launch& launch = launches[next++];
      if (launch.kernel != step.kernel) return "another kernel was launched";
      if (launch.parameters.size() != step.arguments.size()) return "a launch has another number of arguments";
      for (std::size_t i = 0; i < step.arguments.size(); ++i) {
        const std::string wrong = check_argument(weight, choice, step.arguments[i], launch.parameters[i], buffers);
        if (!wrong.empty()) return fmt::format("kernel {}, argument {}: {}", step.kernel, i, wrong);
      }
    }
    return next == launches.size() ? "" : "more was launched than the plan says";
  }

 private:
  std::string check_argument(const TunedWeight& weight, const TunedChoice& choice, const PlanArgument& argument,
                             const std::vector<std::byte>& bytes, const Buffers& buffers) const {
    using Kind = PlanArgument::Kind;
    const Kind kind = argument.kind;
    const bool narrow = kind == Kind::kInt32 || kind == Kind::kScalar;
    const bool map = kind == Kind::kTensorMap;
    if (bytes.size() != (narrow ? 4U : map ? 128U : 8U)) return fmt::format("{} bytes", bytes.size());
    if (narrow || kind == Kind::kInt64) return "";
    std::uint64_t address = 0;
    std::memcpy(&address, bytes.data(), sizeof(address));
    if (kind == Kind::kOperand || map) {
      const std::uint64_t expected = *buffers.operands.find(argument.name);
      const Result<std::int64_t> line = argument.value.evaluate({});
      const bool aligned = expected % 16 == 0 && line.ok() && *line % 8 == 0;
      return address == (map && !aligned ? 0 : expected) ? "" : "not " + argument.name;
    }
    if (kind == Kind::kWorkspace)
      return address >= buffers.workspace.begin() &&
                     address - buffers.workspace.begin() <= static_cast<std::uint64_t>(buffers.workspace_bytes)
                 ? ""
                 : "outside of the workspace";
    const TunedArray& array = *weight.packing(choice.packing)->array(argument.name);
    const std::uint64_t offset = address - model_.memory.address();
    if (offset > model_.memory.bytes() || array.bytes.size() > model_.memory.bytes() - offset)
      return "outside of the weights";
    return std::memcmp(reinterpret_cast<const void*>(address), array.bytes.data(), array.bytes.size()) == 0
               ? ""
               : "another array than " + argument.name;
  }

  const TunedContents& contents_;
  const LoadedModel& model_;
};

// Ends with an error, with a violation, or with everything launched.
void run_once(const LoadedOperator& op, const TunedWeight& weight, const TunedChoice& choice, std::int64_t tokens,
              const Checker& checker, const CudaContext& context, CheckedRun& result) {
  IntegerVariables variables = variables_without_gaps(op.spec, tokens);
  variables.facts = &weight.packing(choice.packing)->facts;
  for (const Operand& operand : op.operands) {
    const std::int64_t length = operand.length.of(tokens);
    const auto element = static_cast<std::int64_t>(size_of(operand.type));
    if (length > 0 && operand.lines.of(tokens) > kMostBytes / element / length) return;
  }
  const Result<std::int64_t> workspace_bytes = op.workspace_bytes(op.choice_for(tokens), variables);
  if (!workspace_bytes.ok()) {
    ++result.refused;
    return;
  }
  if (*workspace_bytes > 4 * kMostBytes) return;  // cuBLASLt asks for 32 MiB
  const LentBytes workspace(*workspace_bytes);
  RunArguments arguments{.tokens = tokens, .workspace = workspace.address()};
  std::list<LentBytes> lent;
  NamedValues<std::uint64_t> operands;
  for (const Operand& operand : op.operands) {
    operands.set(operand.name, 0);
    if (!operand.present) continue;
    const LentBytes& bytes = lent.emplace_back(operand.lines.of(tokens) * operand.length.of(tokens) *
                                               static_cast<std::int64_t>(size_of(operand.type)));
    arguments.operands.set(operand.name, {bytes.address()});
    operands.set(operand.name, bytes.begin());
  }
  fake_cuda().launches.clear();
  const Status status = op.run(context, arguments, nullptr);
  if (!fake_cuda().violations.empty()) {
    result.violation = fake_cuda().violations.front();
  } else if (!status.ok()) {
    ++result.refused;
    if (!fake_cuda().launches.empty()) result.violation = "a run launched a kernel and failed: " + status.message();
  } else {
    ++result.runs;
    result.violation = checker.check(weight, choice, variables, {operands, workspace, *workspace_bytes});
  }
}

// New values of each type that the weight takes. What the fake kernel writes must lie in the weights.
void update(const LoadedWeight& weight, const CudaContext& context, CheckedRun& result) {
  if (weight.writers.empty() || weight.info.nnz > kMostBytes / 4) return;
  const LentBytes values(weight.info.nnz * 4);
  for (const DataType source : {DataType::kFloat32, weight.info.type}) {
    fake_cuda().launches.clear();
    const Status status = weight.set_values(context, values.address(), source, nullptr);
    if (!fake_cuda().violations.empty()) {
      result.violation = fake_cuda().violations.front();
    } else if (!status.ok() && !fake_cuda().launches.empty()) {
      result.violation = "an update launched a kernel and failed: " + status.message();
    }
    ++(status.ok() ? result.updates : result.refused);
  }
}

void run_all(const TunedContents& contents, const LoadedModel& model, const CudaContext& context, CheckedRun& result) {
  const Checker checker(contents, model);
  for (std::size_t i = 0; i < contents.weights.size(); ++i) {
    const TunedWeight& weight = contents.weights[i];
    for (std::size_t j = 0; j < weight.operators.size(); ++j) {
      const TunedOperator& op = weight.operators[j];
      std::set<std::int64_t> tokens = {1, op.choices.back().tokens + 1};
      for (const TunedChoice& choice : op.choices) tokens.insert(choice.tokens);
      for (const std::int64_t n : tokens) {
        run_once(model.weights[i].operators[j], weight, op.choice_for(n), n, checker, context, result);
        if (!result.violation.empty()) return;
      }
    }
    update(model.weights[i], context, result);  // last: what runs is compared with the file's arrays
    if (!result.violation.empty()) return;
  }
}

}  // namespace

CheckedRun run_checked(const TunedContents& contents, bool run_kernels) {
  fake_cuda() = FakeCudaState();
  fake_cuda().check_memory = true;
  fake_cuda().run_kernels = run_kernels;
  CheckedRun result;
  {
    const auto context = CudaContext::open(0);
    if (!context.ok()) {
      result.violation = context.status().to_string();
      return result;
    }
    const bool updatable = std::ranges::all_of(contents.weights, [](const TunedWeight& weight) {
      return std::ranges::all_of(weight.packings, [](const TunedPacking& packing) { return !packing.writers.empty(); });
    });
    const auto model = LoadedModel::load(contents, *context, {.updatable = updatable});
    if (model.ok()) run_all(contents, **model, **context, result);
  }
  const FakeCudaState& after = fake_cuda();
  if (result.violation.empty() && !after.violations.empty()) result.violation = after.violations.front();
  if (result.violation.empty() && (after.live_buffers != 0 || after.live_modules != 0)) result.violation = "a leak";
  return result;
}

}  // namespace sparsmith::test
