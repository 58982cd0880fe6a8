// `bench --break-even`: from which sparsity on drawn weights of a shape are run by a sparse kernel.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/operator_spec.h"
#include "search/break_even.h"
#include "tools/text_table.h"
#include "tools/tune_settings.h"

namespace sparsmith::tools {

struct BreakEvenSettings {
  std::string shape;  // "8192x8192"; empty: not asked for
  std::string pattern = "uniform";
  BreakEvenRange range;
};

void add_break_even_options(CLI::App& command, BreakEvenSettings& settings);

struct BreakEvenOutcome {
  TuneOutcome tuning;  // of what was tuned last: device, timing policy, whether it was measured
  OperatorSpec spec;
  std::string pattern;
  std::uint64_t seed = 0;
  BreakEvenRange range;
  struct Case {
    std::int64_t tokens;
    BreakEven found;
  };
  std::vector<Case> cases;   // by N
  bool interrupted = false;  // before the last N
};

// Draws and tunes, one N after the other, with what `tuning` says of cache, device, data type (fp16 where it says
// nothing), layout, epilogue, families and N. Error: kInvalidArgument; else as break_even_of_drawn(), but that what was
// found before an interruption stays.
Result<BreakEvenOutcome> find_break_evens(const TuneSettings& tuning, const BreakEvenSettings& settings, bool quiet);

TextTable break_even_table(const BreakEvenOutcome& outcome);

// {"device":{...},"break_even":[{...,"probes":[...]}],...}
std::string break_even_json(const BreakEvenOutcome& outcome);

}  // namespace sparsmith::tools
