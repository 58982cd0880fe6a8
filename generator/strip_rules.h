// Rules that the families whose warps go through strips of K share: bitmap, two_four.
#pragma once

#include <vector>

#include "generator/rule.h"

namespace sparsmith {

// REQUIRES: parameters token_tiles, bulk_copies, column_parts and sum.
std::vector<Rule> legal_strip_rules();
std::vector<Rule> worthwhile_strip_rules();

}  // namespace sparsmith
