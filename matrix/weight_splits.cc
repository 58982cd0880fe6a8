#include "matrix/weight_splits.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "base/enum_names.h"
#include "base/split.h"

namespace sparsmith {
namespace {

using Dimension = WeightCut::Dimension;

std::int64_t extent_of(const TensorInfo& info, Dimension dimension) {
  return dimension == Dimension::kRows ? info.rows : info.cols;
}

// Takes UNITS off "NAME/UNITS".
Status take_units(std::string& name, std::int64_t& units) {
  const std::size_t slash = name.rfind('/');
  if (slash == std::string::npos) return {};
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + slash + 1, end, units);
  if (error != std::errc() || stop != end || units < 2 || units > kMaxMatrixDimension)
    return invalid_argument("behind the / of its name stands a number of units, 2 or more, as in attention/8");
  name.resize(slash);
  return {};
}

Status read_pattern(const std::string& text, std::size_t colon, SplitPattern& pattern) {
  pattern.weights.name = text.substr(0, colon);
  SPARSMITH_RETURN_IF_ERROR(take_units(pattern.weights.name, pattern.units));
  for (const std::string_view member : split(std::string_view(text).substr(colon + 1), ",")) {
    const std::size_t equals = std::min(member.find('='), member.size());
    const auto dimension = value_in<Dimension>(kCutDimensions, member.substr(0, equals));
    if (!dimension || equals == member.size())
      return invalid_argument(fmt::format("the member {} begins with neither rows= nor columns=", member));
    pattern.dimensions.push_back(*dimension);
    pattern.weights.members.emplace_back(member.substr(equals + 1));
  }
  return pattern.weights.check(1);
}

// The units of a set without given ones.
Result<std::int64_t> units_of(const ModelFile& file, const SplitSet& set, int ranks) {
  constexpr std::int64_t kMostFeatures = 64;
  const TensorInfo& first = file.tensors()[set.members.front()];
  const std::int64_t extent = extent_of(first, set.dimensions.front());
  for (std::size_t i = 0; i < set.members.size(); ++i) {
    const TensorInfo& info = file.tensors()[set.members[i]];
    if (const std::int64_t other = extent_of(info, set.dimensions[i]); other != extent)
      return invalid_argument(
          fmt::format("{} features of {} and {} of {} are not cut alike: give the number of units that both have, as "
                      "the 8 key and value heads in attention/8:...",
                      extent, first.name, other, info.name));
  }
  std::int64_t features = kMostFeatures;
  while (features > 1 && (extent % features != 0 || extent / features < ranks)) features /= 2;
  return extent / features;
}

Status check_set(const ModelFile& file, const SplitSet& set, int ranks) {
  for (std::size_t i = 0; i < set.members.size(); ++i) {
    const TensorInfo& info = file.tensors()[set.members[i]];
    const std::int64_t extent = extent_of(info, set.dimensions[i]);
    if (extent == 0 || extent % set.units != 0)
      return invalid_argument(fmt::format("{} {} of {} do not divide into {} units", extent,
                                          name_in(kCutDimensions, set.dimensions[i]), info.name, set.units));
  }
  if (set.units < ranks) return invalid_argument(fmt::format("{} units are too few for {} ranks", set.units, ranks));
  return {};
}

// A group is cut as one weight: all of it by rows, in one set.
Status check_group(const ModelFile& file, const WeightGroup& group, std::span<const SplitSet> sets) {
  for (const SplitSet& set : sets) {
    std::size_t cut = 0;
    for (std::size_t i = 0; i < set.members.size(); ++i) {
      if (std::ranges::find(group.members, set.members[i]) == group.members.end()) continue;
      if (set.dimensions[i] != Dimension::kRows)
        return invalid_argument(
            fmt::format("its member {} is cut by columns in split {}; the weights of a group have "
                        "one input, and are cut by rows",
                        file.tensors()[set.members[i]].name, set.name));
      ++cut;
    }
    if (cut > 0 && cut < group.members.size())
      return invalid_argument(
          fmt::format("split {} cuts {} of its {} members: give it all or none", set.name, cut, group.members.size()));
  }
  return {};
}

}  // namespace

std::string SplitPattern::text() const {
  std::string text = weights.name + (units > 0 ? fmt::format("/{}", units) : "");
  for (std::size_t i = 0; i < dimensions.size(); ++i)
    text += fmt::format("{}{}={}", i == 0 ? ":" : ",", name_in(kCutDimensions, dimensions[i]), weights.members[i]);
  return text;
}

Result<SplitPattern> parse_split_pattern(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos)
    return invalid_argument(fmt::format(
        "split '{}': NAME:rows=MEMBER,columns=MEMBER,... is expected, as in mlp:rows=*.up.weight,columns=*.down.weight",
        text));
  SplitPattern pattern;
  SPARSMITH_RETURN_IF_ERROR(read_pattern(text, colon, pattern).annotate(fmt::format("split '{}'", text)));
  return pattern;
}

bool SplitSet::whole() const { return std::ranges::count(dimensions, dimensions.front()) == std::ssize(dimensions); }

Result<std::vector<SplitSet>> find_splits(const ModelFile& file, const SplitSearch& search) {
  std::vector<SplitSet> sets;
  std::map<std::size_t, std::string> set_of;  // a tensor
  const auto complete = [&](const SplitPattern& pattern, SplitSet& set) -> Status {
    for (const std::size_t index : set.members) {
      const auto [owner, is_new] = set_of.try_emplace(index, set.name);
      if (!is_new)
        return invalid_argument(fmt::format("{} is in split {} already", file.tensors()[index].name, owner->second));
    }
    set.units = pattern.units;
    if (set.units == 0) {
      SPARSMITH_ASSIGN_OR_RETURN(set.units, units_of(file, set, search.ranks));
    }
    return check_set(file, set, search.ranks);
  };
  for (const SplitPattern& pattern : search.patterns) {
    const auto matches = find_matches(file, pattern.weights, search.left_out);
    if (!matches.ok()) return matches.status().annotate(fmt::format("{}: split '{}'", file.path(), pattern.text()));
    for (const WeightGroup& match : *matches) {
      SplitSet& set = sets.emplace_back(SplitSet{match.name, match.members, pattern.dimensions});
      SPARSMITH_RETURN_IF_ERROR(complete(pattern, set).annotate(fmt::format("{}: split {}", file.path(), set.name)));
    }
  }
  for (const WeightGroup& group : search.groups)
    SPARSMITH_RETURN_IF_ERROR(
        check_group(file, group, sets).annotate(fmt::format("{}: group {}", file.path(), group.name)));
  return sets;
}

}  // namespace sparsmith
