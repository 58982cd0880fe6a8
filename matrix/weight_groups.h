// Finds the tensors of a file that form groups: weights that share an input (q, k and v; gate and up) and are tuned as
// one weight.
//
// A group is one weight. It has the rows of its members, one member below the other, in the order of the pattern.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "matrix/model_file.h"

namespace sparsmith {

// "NAME:MEMBER,MEMBER,...": defines a group, or one group for each layer of a model.
//
// Either every member has one `*`, or no member has one. A `*` stands for any text, also with dots. The text is the
// same in all members of a group, and each text gives one group. So
// `qkv:*.q_proj.weight,*.k_proj.weight,*.v_proj.weight` makes one group of
// model.layers.17.self_attn.{q,k,v}_proj.weight, one group for layer 18, ...
//
// The group's name is the common beginning of the members' names, in whole parts between dots, and then NAME:
// model.layers.17.self_attn.qkv. It is only NAME when the names have no common beginning, or when no member has a `*`.
// A NAME with a `*` is the whole name, with the members' text in place of the `*`.
struct GroupPattern {
  std::string name;
  std::vector<std::string> members;

  // "NAME:MEMBER,MEMBER,...", for messages.
  std::string text() const;

  // Ok when the pattern follows the rules above, with at least so many members. Error: kInvalidArgument.
  Status check(std::size_t least_members = 2) const;
};

// A pattern needs at least two members, all different, and the rules above. Error: kInvalidArgument with the reason.
Result<GroupPattern> parse_group_pattern(const std::string& text);

struct WeightGroup {
  std::string name;
  std::vector<std::size_t> members;  // indices in ModelFile::tensors(), in the order of their rows
};

// The reason to leave out a tensor; empty: use it. A null function uses all tensors.
using LeftOut = std::function<std::string(const std::string& tensor)>;

struct GroupSearch {
  std::vector<GroupPattern> patterns{};
  bool transposed = false;  // weights are transposed tensors: members share the tensors' rows, not the columns
  bool converted = false;   // all weights will get the same type, whatever the tensors' types are
  LeftOut left_out{};
};

// What a pattern finds, in the order of the file, each with every member. Nothing else is checked. Error:
// kInvalidArgument when it finds nothing, or a member is missing.
Result<std::vector<WeightGroup>> find_matches(const ModelFile& file, const GroupPattern& pattern,
                                              const LeftOut& left_out);

// The groups of a file, pattern by pattern, each in the order of the file.
//   Error: kInvalidArgument when a pattern finds nothing, a group lacks a member, its members differ in their input or
//   type, a tensor is in two groups, or a group has the name of a tensor or of another group.
Result<std::vector<WeightGroup>> find_groups(const ModelFile& file, const GroupSearch& search);

}  // namespace sparsmith
