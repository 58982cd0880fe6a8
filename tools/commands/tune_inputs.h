// The weights of a tuning run, from a model file: the selected ones, grouped, with their epilogues, or a shard of them;
// or their parts for ranks.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "matrix/model_analysis.h"
#include "matrix/model_file.h"
#include "search/rank_parts.h"
#include "search/weight_input.h"
#include "tools/commands/tune_settings.h"

namespace sparsmith::tools {

struct TuneInputs {
  ModelFile model;
  ModelAnalysis analysis;
  std::vector<WeightInput> weights{};  // read from `model`
  RankParts rank_parts{};              // of them
};

// `tuning`: the settings' options, completed. Errors: what ModelFile and analyze_model() say; kInvalidArgument for
// groups, epilogues, shards and splits that the model does not fit.
Result<std::unique_ptr<TuneInputs>> open_inputs(const TuneSettings& settings, const TuneOptions& tuning);

// Weights of a run by name (search/shard.h).
struct NamedUnit {
  std::vector<std::string> weights;
  double work = 0;
  std::optional<std::size_t> after;
};
// Errors: as open_inputs(); kInvalidArgument for a bound on all weights together.
Result<std::vector<NamedUnit>> units_of(const TuneSettings& settings, const TuneOptions& tuning, int count);

}  // namespace sparsmith::tools
