// From a drawn model to a group that is run and checked, on any device: what the tests of the emulator and of a GPU
// share. The model is one layer's q, k and v, and they are found by patterns, tuned as one, and written to a file.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/temporary_directory.h"
#include "matrix/csr_matrix.h"
#include "runtime/operator_spec.h"
#include "search/tune.h"
#include "sparsmith/group_member.h"
#include "tuner/verify/element_buffer.h"
#include "tuner/verify/reference_problem.h"

namespace sparsmith::test {

struct GroupCase {
  DataType type = DataType::kFloat32;
  Layout layout = Layout::kTokenMajor;
  std::int64_t tokens = 1;  // tuned for; one less is run where there is more than one
};
// "fp16_token_major_4": names a test.
std::string text_of(const GroupCase& group_case);

// What a run of the whole group is given, rows with gaps between them.
struct GroupInputs {
  std::int64_t tokens = 1;
  std::int64_t ldx = 0;
  std::int64_t ldy = 0;  // and ldr
  float alpha = 1;
  ElementBuffer x;
  ElementBuffer bias;
  ElementBuffer residual;
  ElementBuffer y;  // NaN
};

class TunedGroup {
 public:
  static constexpr const char* kName = "layers.3.attention.qkv";

  // Draws and tunes. Error: of whatever fails on the way, among it that the tuned file does not hold the group.
  static Result<std::unique_ptr<TunedGroup>> make(const GroupCase& group_case, const TuneResources& resources);

  // The tuned file.
  std::string path() const { return directory_.file("model.tuned.safetensors"); }
  // "layers.3.attention.q.weight", ...
  const std::vector<std::string>& members() const { return members_; }

  // Runs the group, and compares the part of each member's Y with the product of that member's weight, in fp64.
  //   member: what is tested, as Operator::member().   run: writes Y.   factor: of the weight's values by now.
  using MemberOf = std::function<Result<MemberView>(const std::string& name, std::int64_t tokens, std::int64_t ldy)>;
  using Run = std::function<Status(GroupInputs& inputs)>;
  Status check(const MemberOf& member, const Run& run, float factor = 1) const;
  // The values of the group times `factor`, in the order of its pattern.
  Result<std::vector<float>> values(float factor) const;

 private:
  struct Member {
    CsrMatrix matrix;
    std::unique_ptr<ReferenceProblem> problem;  // of this member alone, every member with the same X
    MemberView view;
  };

  Result<std::vector<Member>> problems(const MemberOf& member, std::int64_t tokens, float factor) const;
  GroupInputs inputs(const std::vector<Member>& members) const;
  // Where (row, token) of a member stands in the group's Y.
  std::int64_t output_index(const MemberView& view, std::int64_t row, std::int64_t token) const;

  TemporaryDirectory directory_;
  GroupCase case_;
  std::vector<std::string> members_;
};

}  // namespace sparsmith::test
