// Rules that exclude configs: one rule, one reason.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "generator/config.h"
#include "matrix/sparsity_statistics.h"
#include "runtime/device_properties.h"
#include "runtime/operator_spec.h"

namespace sparsmith {

// The problem that a config is chosen for.
struct Problem {
  OperatorSpec spec;
  std::int64_t tokens = 1;  // N: the bucket's size; the kernels are right for any N
  DeviceProperties device;
};

// The input of a rule. A config is built parameter by parameter: a rule may read the values of the parameters that it
// names.
struct RuleInput {
  const Config& config;
  const Problem& problem;
  const SparsityStatistics& statistics;
  const OperatorSpec& spec = problem.spec;
  const DeviceProperties& device = problem.device;
  std::int64_t operator[](const char* parameter) const { return config.at(parameter); }
};

struct Rule {
  enum class Kind {
    kLegal,       // the kernel would be wrong, or would not launch
    kWorthwhile,  // another config does the same with less: not worth trying in a search
  };
  std::vector<std::string> parameters;  // that the rule names, empty: all; it is asked as soon as they are chosen
  std::string reason;                   // why a config that breaks the rule is excluded, in one line
  std::function<bool(const RuleInput&)> holds;
  Kind kind = Kind::kWorthwhile;
};

// The same rules, with kind kLegal.
inline std::vector<Rule> legal(std::vector<Rule> rules) {
  for (Rule& rule : rules) rule.kind = Rule::Kind::kLegal;
  return rules;
}

// Concatenates lists of rules or parameters.
template <class T>
std::vector<T> joined(std::initializer_list<std::vector<T>> lists) {
  std::vector<T> all;
  for (const std::vector<T>& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace sparsmith
