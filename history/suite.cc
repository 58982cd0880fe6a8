#include "history/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "base/json_reader.h"
#include "base/json_text.h"

namespace sparsmith {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostRounds = 1000;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

// A text, or a list of texts; none where the member is missing.
std::vector<std::string> texts_or_none(JsonReader& fields, const json& object, const char* key) {
  if (!fields.has(key)) return {};
  return object[key].is_string() ? std::vector{fields.text(key)} : fields.texts(key);
}

// One of `names`, the first of which is the default.
std::string one_of(JsonReader& fields, const char* key, std::initializer_list<const char*> names) {
  const std::string text = fields.text_or(key, *names.begin());
  if (std::ranges::find(names, text) == names.end())
    fields.fail(key, fmt::format("is none of {}", fmt::join(names, ", ")));
  return text;
}

int count_or(JsonReader& fields, const char* key, int otherwise) {
  return fields.has(key) ? static_cast<int>(fields.integer(key, 1, kMostRounds)) : otherwise;
}

DrawnWeight drawn_weight(JsonReader& entry) {
  JsonReader fields(entry.object("synth"), entry.place("synth"), {"shape", "sparsity", "pattern", "seed"});
  DrawnWeight drawn;
  const std::vector<std::int64_t> shape = fields.integers("shape", 1, kMost);
  if (shape.size() == 2) {
    drawn.rows = shape[0];
    drawn.cols = shape[1];
  } else {
    fields.fail("shape", "is no pair, as [4096, 1024] is");
  }
  drawn.sparsity = fields.number_or("sparsity", 0, 1, drawn.sparsity);
  drawn.pattern = fields.text_or("pattern", drawn.pattern);
  if (fields.has("seed")) drawn.seed = fields.unsigned_integer("seed");
  entry.adopt(fields.status());
  return drawn;
}

Result<SuiteEntry> parse_entry(const json& object, const std::string& place) {
  JsonReader fields(object, place,
                    {"name", "file", "include", "tokens", "dtypes", "layout", "accumulation", "epilogue", "synth"});
  SuiteEntry entry;
  entry.name = fields.text_or("name", "");
  entry.file = fields.text_or("file", "");
  entry.include = texts_or_none(fields, object, "include");
  if (fields.has("tokens")) entry.tokens = fields.integers("tokens", 1, kMost);
  entry.dtypes = texts_or_none(fields, object, "dtypes");
  entry.layout = fields.text_or("layout", entry.layout);
  entry.accumulation = one_of(fields, "accumulation", {"fp32", "fp16_chains"});
  entry.epilogue = fields.text_or("epilogue", entry.epilogue);
  const bool drawn = fields.has("synth");
  if (drawn == !entry.file.empty()) fields.fail(invalid_input("needs either \"file\" or \"synth\""));
  if (drawn && entry.name.empty()) fields.fail(invalid_input("draws a weight and needs a \"name\" for it"));
  if (drawn && !entry.include.empty()) fields.fail(invalid_input("draws one weight: \"include\" is for files"));
  if (entry.tokens.empty() || std::ranges::adjacent_find(entry.tokens, std::greater_equal<>()) != entry.tokens.end())
    fields.fail("tokens", "is not ascending");
  if (drawn) entry.drawn = drawn_weight(fields);
  if (!fields.status().ok()) return fields.status();
  return entry;
}

}  // namespace

Result<Suite> parse_suite(std::string_view text) {
  const auto parsed = parse_json(text);
  if (!parsed.ok()) return parsed.status().annotate("the suite is not JSON");
  JsonReader fields(*parsed, "the suite",
                    {"name", "devices", "rounds", "repetitions", "budget", "cache_policy", "weights"});
  Suite suite;
  suite.name = fields.text_or("name", "");
  suite.devices = texts_or_none(fields, *parsed, "devices");
  suite.rounds = count_or(fields, "rounds", suite.rounds);
  suite.repetitions = count_or(fields, "repetitions", suite.repetitions);
  suite.budget = fields.text_or("budget", "");
  suite.cache_policy = one_of(fields, "cache_policy", {"cold_weights", "cold_weights_programmatic"});
  const json& weights = fields.array("weights");
  if (weights.empty()) fields.fail("weights", "is empty");
  if (!fields.status().ok()) return fields.status();
  for (const json& weight : weights) {
    SPARSMITH_ASSIGN_OR_RETURN(SuiteEntry entry, parse_entry(weight, fmt::format("weights[{}]", suite.weights.size())));
    suite.weights.push_back(std::move(entry));
  }
  return suite;
}

}  // namespace sparsmith
