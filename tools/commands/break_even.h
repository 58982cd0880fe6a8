// `bench --break-even`: the sparsity from which drawn weights of a shape use a sparse kernel.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/operator_spec.h"
#include "search/break_even.h"
#include "tools/commands/tune_settings.h"
#include "tools/report/table.h"

namespace sparsmith::tools {

struct BreakEvenSettings {
  std::string shape;  // "8192x8192"; empty: no break-even search
  std::string pattern = "uniform";
  BreakEvenRange range;
};

void add_break_even_options(CLI::App& command, BreakEvenSettings& settings);

struct BreakEvenOutcome {
  TuneOutcome tuning;  // the last tuning run: device, timing policy, evidence
  OperatorSpec spec;
  std::string pattern;
  std::uint64_t seed = 0;
  BreakEvenRange range;
  struct Case {
    std::int64_t tokens;
    BreakEven found;
  };
  std::vector<Case> cases;   // in order of N
  bool interrupted = false;  // interrupted before the last N
};

// Draws and tunes weights, one N after the other. `tuning` sets cache, device, data type (default: fp16), layout,
// epilogue, families and N. Error: kInvalidArgument; otherwise as break_even_of_drawn(). After an interrupt the results
// so far are kept.
Result<BreakEvenOutcome> find_break_evens(const TuneSettings& tuning, const BreakEvenSettings& settings, bool quiet);

Table break_even_table(const BreakEvenOutcome& outcome);

// {"device":{...},"break_even":[{...,"probes":[...]}],...}
nlohmann::json break_even_json(const BreakEvenOutcome& outcome);

}  // namespace sparsmith::tools
