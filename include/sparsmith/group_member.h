// A group is several weights with one input (q, k and v; gate and up) that run as one weight: their rows follow each
// other, and the Y of the group holds the Y of each member.
#pragma once

#include <cstdint>
#include <string>

namespace sparsmith {

// A member owns the rows [first_row, first_row + rows) of its group; the next member's rows follow.
struct GroupMember {
  std::string name;
  std::int64_t first_row = 0;
  std::int64_t rows = 0;  // M of the member
  bool operator==(const GroupMember&) const = default;
};

// The place of a member's Y in the Y of its group, in elements: y[offset + n * ld + m] (token_major) or
// y[offset + m * ld + n] (feature_major). The same holds for a residual. The member's bias is bias[first_row + m].
struct MemberView {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;  // M of the member
  std::int64_t offset = 0;
  std::int64_t ld = 0;  // the group's leading dimension
};

}  // namespace sparsmith
