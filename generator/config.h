// One value for each parameter of a kernel family.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith {

// A tunable parameter of a family.
struct Parameter {
  std::string name;                  // "threads_per_block"
  std::string abbreviation;          // "b", as it stands in kernel names
  std::vector<std::int64_t> values;  // in ascending order
  std::string meaning;
  std::vector<std::string> labels = {};  // a name for each value, if numbers are not telling; may be empty
  bool later = false;                    // older recorded configs lack it; its value in them is 0
};

struct Config {
  std::string family;
  std::map<std::string, std::int64_t, std::less<>> values;  // parameter name -> value

  std::int64_t at(std::string_view parameter) const;  // REQUIRES: the parameter has a value

  // "rows threads_per_block=128 vector_width=4": every parameter, numbers only. parse() reads this text back.
  // Error: kInvalidInput if the text does not have this form. parse() does not check whether the family has the
  // parameters.
  std::string text() const;
  static Result<Config> parse(std::string_view text);
  bool operator==(const Config&) const = default;
};

// A config with named values. The struct of a family derives from it. Each member is initialized with the value of a
// parameter: `int token_lanes = at("token_lanes");`.
class NamedConfig {
 public:
  explicit NamedConfig(const Config& config) : config_(&config) {}

 protected:
  // A value that converts to a member's type: a number, an enumerator or a flag.
  struct Value {
    std::int64_t number;
    template <class T>
    operator T() const {  // NOLINT(google-explicit-constructor)
      return static_cast<T>(number);
    }
  };
  // `unchosen`: the value of a parameter that has no value yet, for rules that ask earlier.
  Value at(std::string_view parameter, std::int64_t unchosen = 0) const {
    const auto found = config_->values.find(parameter);
    return {found == config_->values.end() ? unchosen : found->second};
  }

 private:
  const Config* config_;  // used during construction only
};

// The number of parameters in which two configs of one family differ.
std::size_t parameters_between(const Config& a, const Config& b);

}  // namespace sparsmith
