// One value for each parameter of a kernel family.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith {

// A tunable of a family: its name, its values, and what it trades.
struct Parameter {
  std::string name;                  // "threads_per_block"
  std::string abbreviation;          // "b", as it stands in kernel names
  std::vector<std::int64_t> values;  // in ascending order
  std::string meaning;
  std::vector<std::string> labels = {};  // a name for each value, where numbers say nothing; may be empty
  bool later = false;                    // configs recorded before it came lack it, which stands for 0
};

struct Config {
  std::string family;
  std::map<std::string, std::int64_t> values;  // parameter name -> value

  std::int64_t at(const std::string& parameter) const;  // REQUIRES: it has been given a value

  // "rows threads_per_block=128 vector_width=4": every parameter, numbers only; parse() reads it back.
  // Error: kInvalidInput when it is not of that form. Whether the family knows the parameters is not checked.
  std::string text() const;
  static Result<Config> parse(std::string_view text);
  bool operator==(const Config&) const = default;
};

// In how many parameters two configs of one family differ.
std::size_t parameters_between(const Config& a, const Config& b);

}  // namespace sparsmith
