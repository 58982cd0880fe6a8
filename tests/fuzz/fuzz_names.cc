// What users and files name things by: configs, operators, epilogues, groups and splits of weights, drawn patterns and
// shapes. A name that is understood is understood again as it is printed.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "generator/config.h"
#include "matrix/synthesis.h"
#include "matrix/weight_groups.h"
#include "matrix/weight_splits.h"
#include "runtime/operator_spec.h"

namespace sparsmith {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto config = Config::parse(text); config.ok()) {
    const auto again = Config::parse(config->text());
    if (!again.ok() || *again != *config) std::abort();
    (void)parameters_between(*config, *again);
  }
  if (const auto spec = OperatorSpec::parse(text); spec.ok()) {
    const auto again = OperatorSpec::parse(spec->name());
    if (!spec->check().ok() || !again.ok() || *again != *spec) std::abort();
  }
  if (const auto epilogue = Epilogue::parse(text); epilogue.ok()) {
    const auto again = Epilogue::parse(epilogue->name());
    if (!again.ok() || *again != *epilogue) std::abort();
  }
  if (const auto group = parse_group_pattern(text); group.ok()) {
    const auto again = parse_group_pattern(group->text());
    if (group->members.size() < 2 || !again.ok() || again->members != group->members) std::abort();
  }
  if (const auto given = parse_split_pattern(text); given.ok()) {
    const auto again = parse_split_pattern(given->text());
    if (!again.ok() || again->text() != given->text() || again->units != given->units ||
        given->dimensions.size() != given->weights.members.size())
      std::abort();
  }
  if (const auto pattern = parse_synthesis_pattern(text); pattern.ok()) {
    // Also not NaN.
    if (!(pattern->parameter >= 0 && pattern->parameter <= 256)) std::abort();
    if (!(pattern->scattered >= 0 && pattern->scattered <= 1)) std::abort();
  }
  SynthesisSpec shape;
  (void)parse_shape(text, shape);  // synthesize() looks at what it says
  return 0;
}

}  // namespace sparsmith
