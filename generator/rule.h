// What rules a config out: one rule, one reason.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "generator/config.h"
#include "matrix/sparsity_statistics.h"
#include "runtime/device_properties.h"
#include "runtime/operator_spec.h"

namespace sparsmith {

// What a config is chosen for.
struct Problem {
  OperatorSpec spec;
  std::int64_t tokens = 1;  // N: the bucket's size; the kernels are right for any N
  DeviceProperties device;
};

// What a rule looks at. A config is built parameter by parameter: a rule sees values of the parameters it names.
struct RuleInput {
  const Config& config;
  const Problem& problem;
  const SparsityStatistics& statistics;
  std::int64_t operator[](const char* parameter) const { return config.at(parameter); }
};

struct Rule {
  enum class Kind {
    kLegal,       // the kernel would be wrong, or would not launch
    kWorthwhile,  // another config does the same with less: not worth a try in a search
  };
  Kind kind = Kind::kLegal;
  std::vector<std::string> parameters;  // those it names; it is asked as soon as they are chosen
  std::string reason;                   // why a config that breaks it is out, in one line
  std::function<bool(const RuleInput&)> holds;
};

}  // namespace sparsmith
