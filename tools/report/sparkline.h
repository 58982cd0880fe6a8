// A row of numbers as a word.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sparsmith::tools {

// One letter a value, from the lowest bar to the highest: "▁▃█". More than `width` values are averaged in groups.
// Values that are not finite become blanks.
std::string sparkline(const std::vector<double>& values, std::size_t width);

}  // namespace sparsmith::tools
