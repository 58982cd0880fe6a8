// Look-ups by name where there are groups: the same rules and words for tuned files and for loaded models. Internal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/operator_spec.h"
#include "sparsmith/group_member.h"
#include "sparsmith/status.h"

namespace sparsmith {

// Ok unless `name` is a member of `group`; then kNotFound, with where it lies and how to get at it.
Status not_a_member(std::string_view name, const std::string& group, const std::vector<GroupMember>& members);

// kNotFound, with some of the names that there are.
Status no_such_weight(std::string_view name, std::vector<std::string> names);

// Where member `name` lies in a Y of this layout with leading dimension `ldy`.
//   Errors: kNotFound with the members that there are; kInvalidArgument where 64 bits do not hold the offset.
Result<MemberView> member_view(std::string_view name, const std::vector<GroupMember>& members, Layout layout,
                               std::int64_t ldy);

}  // namespace sparsmith
