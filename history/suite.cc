#include "history/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.h"

namespace sparsmith {
namespace {

using nlohmann::json;

constexpr int kMostRounds = 1000;

// A JSON object whose members are read by name, with the place for messages. What goes wrong is kept until status().
class Members {
 public:
  Members(const json& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object.is_object()) fail("is not an object");
  }

  template <class T>
  void read(const char* name, T& value) {
    known_.insert(name);
    if (!status_.ok() || !object_.contains(name)) return;
    try {
      if (!take(object_.at(name), value)) fail(fmt::format("has no sensible '{}'", name));
    } catch (const json::exception&) {
      fail(fmt::format("has no sensible '{}'", name));
    }
  }
  // A value, or a list of values.
  void read_list(const char* name, std::vector<std::string>& values) {
    if (status_.ok() && object_.contains(name) && object_[name].is_string()) {
      known_.insert(name);
      values = {object_[name].get<std::string>()};
    } else {
      read(name, values);
    }
  }
  void read_count(const char* name, int& value) {
    std::int64_t count = value;
    if (status_.ok() && object_.contains(name) && !object_[name].is_number_integer())
      fail(fmt::format("'{}' is not a whole number", name));
    read(name, count);
    if (count < 1 || count > kMostRounds) fail(fmt::format("'{}' is not from 1 to {}", name, kMostRounds));
    if (status_.ok()) value = static_cast<int>(count);
  }

  const json* child(const char* name) {
    known_.insert(name);
    return status_.ok() && object_.contains(name) ? &object_[name] : nullptr;
  }
  void fail(const std::string& what) {
    if (status_.ok()) status_ = invalid_input(fmt::format("{} {}", place_, what));
  }
  // What went wrong first; or a member that nobody asked for.
  Status status() {
    if (status_.ok()) {
      for (const auto& [name, value] : object_.items()) {
        if (!known_.contains(name)) fail(fmt::format("has a member '{}', which is not known", name));
      }
    }
    return status_;
  }

 private:
  template <class T>
  static bool take(const json& json, T& value) {
    json.get_to(value);
    return true;
  }
  static bool take(const json& json, std::int64_t& value) {
    const auto integer = json_integer(json);
    value = integer.value_or(0);
    return integer.has_value();
  }
  static bool take(const json& json, std::uint64_t& value) {
    const auto integer = json_unsigned(json);
    value = integer.value_or(0);
    return integer.has_value();
  }
  static bool take(const json& json, std::vector<std::int64_t>& values) {
    values.clear();
    return json.is_array() &&
           std::ranges::all_of(json, [&](const auto& each) { return take(each, values.emplace_back()); });
  }

  const json& object_;
  std::string place_;
  std::set<std::string> known_;
  Status status_;
};

Result<DrawnWeight> parse_drawn(const json& object, const std::string& place) {
  DrawnWeight drawn;
  Members members(object, place + ".synth");
  std::vector<std::int64_t> shape;
  members.read("shape", shape);
  members.read("sparsity", drawn.sparsity);
  members.read("pattern", drawn.pattern);
  members.read("seed", drawn.seed);
  if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1) members.fail("has no 'shape', as [4096, 1024] is");
  if (!(drawn.sparsity >= 0 && drawn.sparsity <= 1)) members.fail("has a 'sparsity' that is not from 0 to 1");
  SPARSMITH_RETURN_IF_ERROR(members.status());
  drawn.rows = shape[0];
  drawn.cols = shape[1];
  return drawn;
}

Result<SuiteEntry> parse_entry(const json& object, std::size_t number) {
  SuiteEntry entry;
  const std::string place = fmt::format("weights[{}]", number);
  Members members(object, place);
  members.read("name", entry.name);
  members.read("file", entry.file);
  members.read_list("include", entry.include);
  members.read("tokens", entry.tokens);
  members.read_list("dtypes", entry.dtypes);
  members.read("layout", entry.layout);
  members.read("accumulation", entry.accumulation);
  members.read("epilogue", entry.epilogue);
  const json* const synth = members.child("synth");
  if ((synth != nullptr) == !entry.file.empty()) members.fail("needs either 'file' or 'synth'");
  if (synth != nullptr && entry.name.empty()) members.fail("draws a weight and needs a 'name' for it");
  if (synth != nullptr && !entry.include.empty()) members.fail("draws one weight: 'include' is for files");
  if (entry.tokens.empty() || entry.tokens.front() < 1 ||
      std::ranges::adjacent_find(entry.tokens, std::greater_equal<>()) != entry.tokens.end())
    members.fail("has 'tokens' that are not positive and ascending");
  if (entry.accumulation != "fp32" && entry.accumulation != "fp16_chains")
    members.fail("has an 'accumulation' that is neither fp32 nor fp16_chains");
  SPARSMITH_RETURN_IF_ERROR(members.status());
  if (synth != nullptr) {
    SPARSMITH_ASSIGN_OR_RETURN(entry.drawn, parse_drawn(*synth, place));
  }
  return entry;
}

}  // namespace

Result<Suite> parse_suite(std::string_view text) {
  const auto parsed = parse_json(text);
  if (!parsed.ok()) return parsed.status().annotate("the suite is not JSON");
  const json& document = *parsed;
  Suite suite;
  Members members(document, "the suite");
  members.read("name", suite.name);
  members.read_list("devices", suite.devices);
  members.read_count("rounds", suite.rounds);
  members.read_count("repetitions", suite.repetitions);
  members.read("budget", suite.budget);
  members.read("cache_policy", suite.cache_policy);
  const json* const weights = members.child("weights");
  if (weights == nullptr || !weights->is_array() || weights->empty()) members.fail("has no list 'weights'");
  if (!suite.cache_policy.empty() && suite.cache_policy != "cold_weights" &&
      suite.cache_policy != "cold_weights_programmatic")
    members.fail("has a 'cache_policy' that is neither cold_weights nor cold_weights_programmatic");
  SPARSMITH_RETURN_IF_ERROR(members.status());
  for (std::size_t i = 0; i < weights->size(); ++i) {
    SPARSMITH_ASSIGN_OR_RETURN(SuiteEntry entry, parse_entry((*weights)[i], i));
    suite.weights.push_back(std::move(entry));
  }
  return suite;
}

}  // namespace sparsmith
