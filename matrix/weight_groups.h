// Weights that share an input (q, k and v; gate and up) and are tuned as one: which tensors of a file form groups.
//
// A group is one weight: the rows of its members, one below the other, in the order in which the members are given.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "matrix/model_file.h"

namespace sparsmith {

// "NAME:MEMBER,MEMBER,...": what makes a group, or in a model of many layers one group a layer.
//
// Either every member holds one `*`, or none does. A `*` stands for any text, dots included, and for the same one in
// all members of a group: each text makes a group of its own. So `qkv:*.q_proj.weight,*.k_proj.weight,*.v_proj.weight`
// makes one group of model.layers.17.self_attn.{q,k,v}_proj.weight, one of those of layer 18, ...
//
// The group's name is NAME behind what the members' names have in common, in whole parts between dots:
// model.layers.17.self_attn.qkv. It is NAME alone where they have nothing in common, or where no member holds a `*`.
// A NAME that holds a `*` is the whole name, with the text of the members in its place.
struct GroupPattern {
  std::string name;
  std::vector<std::string> members;

  // "NAME:MEMBER,MEMBER,...", for messages.
  std::string text() const;
};

// Error: kInvalidArgument with what is wrong: at least two members, all different, as said above.
Result<GroupPattern> parse_group_pattern(const std::string& text);

struct WeightGroup {
  std::string name;
  std::vector<std::size_t> members;  // in ModelFile::tensors(), in the order of their rows
};

struct GroupSearch {
  std::vector<GroupPattern> patterns{};
  bool transposed = false;  // the weights are the transposed tensors: members share the tensors' rows, not the columns
  bool converted = false;   // the weights will be of one type, whatever the tensors are
  // Why not to take a tensor; empty: take it. May be null: take all.
  std::function<std::string(const std::string& tensor)> left_out{};
};

// The groups of a file, pattern by pattern, each in the order of the file.
//   Error: kInvalidArgument when a pattern finds nothing, a group lacks a member, its members differ in their input or
//   type, a tensor is in two groups, or a group is called as a tensor or another group is.
Result<std::vector<WeightGroup>> find_groups(const ModelFile& file, const GroupSearch& search);

}  // namespace sparsmith
