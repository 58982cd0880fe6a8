#include "search/record/space_prediction.h"

#include <fmt/format.h>

#include <vector>

#include "generator/family.h"

namespace sparsmith {
namespace {

// Configs of an earlier version may lack a parameter that has come since.
Status check_parameters(const Family& family, const Config& config) {
  for (const Parameter& parameter : family.parameters) {
    if (!parameter.later && !config.values.contains(parameter.name))
      return unsupported(
          fmt::format("{}: this version's configs have a parameter {} as well", config.text(), parameter.name));
  }
  return {};
}

}  // namespace

Status predict_again(RecordedSpace& space, const SparsityStatistics& statistics) {
  Problem problem;
  SPARSMITH_ASSIGN_OR_RETURN(problem.spec, OperatorSpec::parse(space.operator_name));
  problem.spec.rows = space.rows;
  problem.spec.cols = space.cols;
  problem.tokens = space.tokens;
  const auto device = device_of_class(space.device_class);
  if (!device || space.device_class.starts_with("emulator"))
    return unsupported(fmt::format("{}: \"{}\" is no GPU's class", space.title(), space.device_class));
  problem.device = *device;
  problem.device.set_speeds({.memory_bandwidth = space.memory_bandwidth,
                             .l2_bandwidth = typical_l2_bandwidth(device->sm_count, device->clock_khz)});
  std::vector<double> predicted;
  for (const RecordedCandidate& candidate : space.candidates) {
    const Family* const of = family(candidate.config.family);
    if (of == nullptr) return unsupported(space.title() + ": no kernel family is called " + candidate.config.family);
    SPARSMITH_RETURN_IF_ERROR(check_parameters(*of, candidate.config));
    predicted.push_back(of->predict(candidate.config, problem, statistics));
  }
  for (std::size_t i = 0; i < predicted.size(); ++i) space.candidates[i].predicted_us = predicted[i];
  return {};
}

}  // namespace sparsmith
