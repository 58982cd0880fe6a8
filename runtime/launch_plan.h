// The steps that run an operator once: the kernels to launch, with their sizes and arguments.
//
// The generator writes plans; the tuner, the emulator and the runtime execute them. A plan is data. Neither the plan
// nor the code that executes it knows kernel families. Plain values, safe to read from any thread.
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

// What a copy by a tensor map brings.
struct MapBox {
  int lines = 64;     // a multiple of 8 up to 256
  int elements = 64;  // of a line: 32 or 64
  bool operator==(const MapBox&) const = default;
};

// One kernel argument, in the order of the kernel's parameters.
struct PlanArgument {
  enum class Kind : std::uint8_t {
    kPacked,     // address of the packed array `name`
    kOperand,    // address of the operand `name` (OperatorSpec::operands()); null when it is not present
    kWorkspace,  // address of the workspace plus `value` bytes
    kInt32,      // `value` as int
    kInt64,      // `value` as long long
    kScalar,     // the number `name` of the epilogue as float: "alpha", "beta"
    kTensorMap,  // the operand `name`, n lines of `value` elements of 16 bits, in boxes, for the tensor memory
                 // accelerator: as wide a swizzle as a box has lines, 0 outside. All 0 if the operand is not aligned
  };
  Kind kind = Kind::kInt32;
  std::string name;
  IntegerExpression value;
  MapBox box = {};  // of a tensor map
  bool operator==(const PlanArgument&) const = default;
};

inline constexpr int kTensorMapBytes = 128;

struct PlanStep {
  enum class Kind : std::uint8_t {
    kLaunch,  // launch `kernel`
    kZero,    // set workspace bytes [zero_offset, zero_offset + zero_bytes) to 0
    kMatmul,  // multiply with the device's library: a dense weight, [M][K] row-major, by X; for sddmm, dY by X
  };
  Kind kind = Kind::kLaunch;

  std::string kernel;
  std::array<IntegerExpression, 3> grid{1, 1, 1};   // blocks; a step whose grid holds a 0 is skipped
  std::array<IntegerExpression, 3> block{1, 1, 1};  // threads
  std::array<IntegerExpression, 3> cluster{1, 1, 1};
  IntegerExpression shared_bytes = 0;  // dynamic shared memory per block
  std::vector<PlanArgument> arguments;
  // Programmatic dependent launch: the kernel may begin before earlier work in the stream has ended; the kernel's code
  // waits for that work (snippets/device/programmatic_launch.cuh). Devices before sm_90 use a plain launch.
  bool programmatic_launch = false;

  IntegerExpression zero_offset = 0;
  IntegerExpression zero_bytes = 0;

  std::string array;  // name of the packed array that holds the dense weight; empty for sddmm, which multiplies by none
  // The weight's offset in the workspace, in bytes, where an earlier step has written it. No value: it is `array`.
  std::optional<IntegerExpression> weight;
  // The offset of W X in the workspace, in bytes; fp32, in Y's layout without gaps. No value: the step computes the
  // whole operator with its epilogue. For sddmm always a value: there lies alpha * dY X^T at all places of the weight,
  // zeros too, [M][K] row-major, of OperatorSpec::gradient_type().
  std::optional<IntegerExpression> product;
  // The library proposes a list of algorithms for `proposed_for` tokens, best first; `proposal` is an index into it.
  // proposed_for = 0: for the tokens of each run. When the list is shorter, or the algorithm does not work for the
  // tokens of a run, that run uses the first algorithm.
  int proposal = 0;
  std::int64_t proposed_for = 0;

  bool makes_gradient() const { return kind == Kind::kMatmul && array.empty() && !weight; }  // the matmul of sddmm
  bool operator==(const PlanStep&) const = default;
};

struct LaunchPlan {
  std::vector<PlanStep> steps;
  IntegerExpression workspace_bytes = 0;
  bool operator==(const LaunchPlan&) const = default;

  bool has_matmul() const;  // a matmul also multiplies the zeros of the weight: 0 times Inf is NaN
};

PlanStep matmul_step(std::string array, std::optional<IntegerExpression> product);
PlanStep matmul_by_workspace(IntegerExpression weight);  // the same, of the whole operator, by a weight at this offset
PlanStep gradient_step(IntegerExpression product);       // dY X^T of sddmm
inline constexpr int kMostProposals = 32;

PlanArgument packed_array(std::string name);
PlanArgument operand(std::string name);
PlanArgument workspace(std::string_view offset = "0");  // `offset`: a formula, in bytes
PlanArgument scalar(std::string name);
PlanArgument tensor_map(std::string name, std::int64_t elements, MapBox box);
PlanArgument null_pointer();

inline constexpr int kProgrammaticFrom = 90;  // the lowest compute capability with programmatic launches

// Marks the kernels of `plan` for programmatic launches, except a kernel directly after a zero step, which is no kernel
// to overlap with. REQUIRES: the code of all these kernels waits for earlier work.
//   first_too: also the first step, which then overlaps with the work before the plan.
void launch_programmatically(LaunchPlan& plan, bool first_too);

// A plan is stored and sent as JSON. Parsing checks kinds, expressions and sizes.
std::string to_json(const LaunchPlan& plan);
Result<LaunchPlan> launch_plan_from_json(std::string_view text);

}  // namespace sparsmith
