// Command lines of `tune`: a line is an argument. Options that are taken have values that a search can be run with.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "matrix/weight_groups.h"
#include "search/shard.h"
#include "tools/commands/tune_settings.h"

namespace sparsmith {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream lines(std::string(reinterpret_cast<const char*>(data), size));
  std::vector<std::string> words;
  for (std::string line; std::getline(lines, line);) {
    if (line != "--help") words.push_back(line);
  }
  if (const auto seconds = tools::parse_duration(words.empty() ? "" : words.front());
      seconds.ok() && !(std::isfinite(*seconds) && *seconds >= 0))
    std::abort();
  if (tools::shell_word(words.empty() ? "" : words.back()).empty()) std::abort();

  CLI::App app;
  tools::TuneSettings settings;
  tools::add_tune_options(app, settings);
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError&) {
    return 0;
  }
  TuneOptions tuning;
  if (tools::take_memory(settings.memory, tuning).ok() &&
      (!(tuning.memory > 0) || tuning.memory > 16 || tuning.model_bytes < 0))
    std::abort();
  for (const std::string& text : settings.epilogues) {
    const auto given = tools::parse_weight_epilogue(text);
    if (!given.ok()) continue;
    const std::string again = given->pattern + (given->pattern.empty() ? "" : "=") + given->epilogue.name();
    const auto same = tools::parse_weight_epilogue(again);
    if (!same.ok() || same->pattern != given->pattern || same->epilogue != given->epilogue) std::abort();
  }
  if (const auto shard = parse_shard(settings.shard);
      shard.ok() && (shard->number < 1 || shard->number > shard->count || shard->count > 100000))
    std::abort();
  for (const std::string& group : settings.groups) (void)parse_group_pattern(group);
  if (const auto seconds = tools::parse_duration(settings.budget); seconds.ok() && !std::isfinite(*seconds))
    std::abort();
  return 0;
}

}  // namespace sparsmith
