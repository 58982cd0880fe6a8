// A group is several weights that share an input (q, k and v; gate and up), run as one: one below the other they are
// one weight, whose Y holds the Y of each member.
#pragma once

#include <cstdint>
#include <string>

namespace sparsmith {

// A member owns the rows [first_row, first_row + rows) of its group; the next member goes on where it ends.
struct GroupMember {
  std::string name;
  std::int64_t first_row = 0;
  std::int64_t rows = 0;  // M of the member
  bool operator==(const GroupMember&) const = default;
};

// Where a member's Y lies in its group's, in elements: token_major y[offset + n * ld + m], feature_major
// y[offset + m * ld + n]. The same holds for a residual; its bias is bias[first_row + m].
struct MemberView {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;  // M of the member
  std::int64_t offset = 0;
  std::int64_t ld = 0;  // the group's leading dimension
};

}  // namespace sparsmith
