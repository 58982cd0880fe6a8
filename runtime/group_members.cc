#include "runtime/group_members.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace sparsmith {

Status not_a_member(std::string_view name, const std::string& group, const std::vector<GroupMember>& members) {
  for (const GroupMember& member : members) {
    if (member.name != name) continue;
    return not_found(
        fmt::format("{} is no weight of its own: it is rows {} to {} of group {}; run that, and take the "
                    "member's part of its Y",
                    name, member.first_row, member.first_row + member.rows - 1, group));
  }
  return {};
}

Status no_such_weight(std::string_view name, std::vector<std::string> names) {
  constexpr std::size_t kShown = 10;
  const bool more = names.size() > kShown;
  if (more) names.resize(kShown);
  return not_found(
      fmt::format("there is no weight {}; there are {}{}", name, fmt::join(names, ", "), more ? ", ..." : ""));
}

Result<MemberView> member_view(std::string_view name, const std::vector<GroupMember>& members, Layout layout,
                               std::int64_t ldy) {
  const auto member = std::ranges::find(members, name, &GroupMember::name);
  if (member == members.end()) {
    if (members.empty()) return not_found(fmt::format("there is no member {}: it is no group", name));
    std::vector<std::string> names;
    for (const GroupMember& each : members) names.push_back(each.name);
    return not_found(fmt::format("there is no member {}; there are {}", name, fmt::join(names, ", ")));
  }
  MemberView view{member->first_row, member->rows, member->first_row, ldy};
  if (layout == Layout::kFeatureMajor && __builtin_mul_overflow(member->first_row, ldy, &view.offset)) {
    return invalid_argument(fmt::format("ldy = {} is too large", ldy));
  }
  return view;
}

}  // namespace sparsmith
