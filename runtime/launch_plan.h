// What it takes to run an operator once: the kernels to launch, with what sizes and arguments.
//
// The generator writes plans; the tuner, the emulator and the runtime execute them. A plan is data: nothing
// in it, and nothing that executes it, knows about kernel families. Plain values, safe to read from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/integer_expression.h"
#include "sparsmith/status.h"

namespace sparsmith {

// One kernel argument, in the order of the kernel's parameters.
struct PlanArgument {
  enum class Kind : std::uint8_t {
    kPacked,     // address of the packed array `name`
    kOperand,    // address of the operand `name` (OperatorSpec::operands()), or null where it is not present
    kWorkspace,  // address of the workspace plus `value` bytes
    kInt32,      // `value` as int
    kInt64,      // `value` as long long
    kScalar,     // the number `name` of the epilogue as float: "alpha", "beta"
  };
  Kind kind = Kind::kInt32;
  std::string name;
  IntegerExpression value;
  bool operator==(const PlanArgument&) const = default;
};

struct PlanStep {
  enum class Kind : std::uint8_t {
    kLaunch,  // launch `kernel`
    kZero,    // set workspace bytes [zero_offset, zero_offset + zero_bytes) to 0
    kMatmul,  // multiply by the dense weight `array`, [M][K] row-major, with the device's library
  };
  Kind kind = Kind::kLaunch;

  std::string kernel;
  std::array<IntegerExpression, 3> grid{1, 1, 1};   // blocks; a step whose grid holds a 0 is skipped
  std::array<IntegerExpression, 3> block{1, 1, 1};  // threads
  std::array<IntegerExpression, 3> cluster{1, 1, 1};
  IntegerExpression shared_bytes = 0;  // dynamic shared memory a block
  std::vector<PlanArgument> arguments;
  // Programmatic dependent launch: the kernel may begin before what is in front of it in the stream has ended, for
  // which it waits by itself (snippets/device/programmatic_launch.cuh). Devices before sm_90 launch it plainly.
  bool programmatic_launch = false;

  IntegerExpression zero_offset = 0;
  IntegerExpression zero_bytes = 0;

  std::string array;  // a packed one
  // Where W X goes in fp32, in Y's layout without gaps: byte of the workspace. Nothing: the step computes the whole
  // operator, epilogue and all.
  std::optional<IntegerExpression> product;
  // Which of the algorithms that the library proposes for so many tokens, best first; 0 tokens: those of each run.
  // Where it proposes fewer, or its algorithm does not serve the tokens of a run, the first for that run.
  int proposal = 0;
  std::int64_t proposed_for = 0;
  bool operator==(const PlanStep&) const = default;
};

struct LaunchPlan {
  std::vector<PlanStep> steps;
  IntegerExpression workspace_bytes = 0;
  bool operator==(const LaunchPlan&) const = default;

  bool has_matmul() const;  // and so multiplies what the weight does not store: 0 times Inf is NaN
};

PlanStep matmul_step(std::string array, std::optional<IntegerExpression> product);
inline constexpr int kMostProposals = 32;

PlanArgument packed_array(std::string name);
PlanArgument operand(std::string name);
PlanArgument workspace(std::string_view offset = "0");  // `offset`: a formula, in bytes
PlanArgument scalar(std::string name);
PlanArgument null_pointer();

inline constexpr int kProgrammaticFrom = 90;  // the compute capability that programmatic launches begin with

// Launches the kernels of `plan` programmatically; but not one right behind a step that zeroes, which is no kernel that
// it could overlap with. REQUIRES: all of them wait for what is in front of them.
//   first_too: also the first step, which overlaps with whatever is in front of the plan, rather than the others alone.
void launch_programmatically(LaunchPlan& plan, bool first_too);

// JSON, the form in which a plan is stored and sent. Parsing checks kinds, expressions and sizes.
std::string to_json(const LaunchPlan& plan);
Result<LaunchPlan> launch_plan_from_json(std::string_view text);

}  // namespace sparsmith
