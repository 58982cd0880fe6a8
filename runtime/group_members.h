// Look-ups by name when there are groups. Tuned files and loaded models share these rules and messages. Internal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/operator_spec.h"
#include "sparsmith/group_member.h"
#include "sparsmith/status.h"

namespace sparsmith {

// Ok unless `name` is a member of `group`. Then kNotFound, which names the group and tells how to reach the member.
Status not_a_member(std::string_view name, const std::string& group, const std::vector<GroupMember>& members);

// A kNotFound error with some of the existing names.
Status no_such_weight(std::string_view name, std::vector<std::string> names);

// The place of member `name` in a Y of this layout with leading dimension `ldy`.
//   Errors: kNotFound with the names of the members; kInvalidArgument when the offset does not fit 64 bits.
Result<MemberView> member_view(std::string_view name, const std::vector<GroupMember>& members, Layout layout,
                               std::int64_t ldy);

}  // namespace sparsmith
