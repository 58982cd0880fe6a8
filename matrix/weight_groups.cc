#include "matrix/weight_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "base/split.h"

namespace sparsmith {
namespace {

bool has_star(const std::string& text) { return text.find('*') != std::string::npos; }

// What `*` stands for where `pattern` is `name`; nothing where it is not. "" for a pattern without one.
std::optional<std::string> text_of_star(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern ? std::optional(std::string()) : std::nullopt;
  const std::string_view tail = pattern.substr(star + 1);
  if (name.size() + 1 < pattern.size() || !name.starts_with(pattern.substr(0, star)) || !name.ends_with(tail)) {
    return std::nullopt;
  }
  return std::string(name.substr(star, name.size() + 1 - pattern.size()));
}

// `pattern` with `text` for its `*`.
std::string replace_star(std::string pattern, const std::string& text) {
  const std::size_t star = pattern.find('*');
  return star == std::string::npos ? pattern : pattern.replace(star, 1, text);
}

// The parts between dots with which all of `names` begin, each with its dot: "model.layers.17.self_attn.", or "".
std::string common_parts(const std::vector<std::string>& names) {
  std::size_t common = names.front().size();
  for (const std::string& name : names) {
    const auto end = std::ranges::mismatch(names.front(), name).in1;
    common = std::min(common, static_cast<std::size_t>(end - names.front().begin()));
  }
  const std::size_t dot = common == 0 ? std::string::npos : names.front().rfind('.', common - 1);
  return dot == std::string::npos ? "" : names.front().substr(0, dot + 1);
}

std::string group_name(const GroupPattern& pattern, const std::string& text, const std::vector<std::string>& members) {
  if (has_star(pattern.name)) return replace_star(pattern.name, text);
  if (!has_star(pattern.members.front())) return pattern.name;
  return common_parts(members) + pattern.name;
}

std::string reason_of_absence(const ModelFile& file, const LeftOut& left_out, const std::string& name) {
  if (file.find(name)) return ": " + left_out(name);
  for (const SkippedTensor& tensor : file.skipped()) {
    if (tensor.name == name) return fmt::format(": the tensor is no weight, {}", tensor.reason);
  }
  return "";
}

Status check_members(const ModelFile& file, const GroupSearch& search, const WeightGroup& group) {
  const TensorInfo& first = file.tensors()[group.members.front()];
  const auto inputs = [&](const TensorInfo& info) { return search.transposed ? info.rows : info.cols; };
  std::int64_t outputs = 0;
  for (const std::size_t index : group.members) {
    const TensorInfo& info = file.tensors()[index];
    if (inputs(info) != inputs(first)) {
      return invalid_argument(fmt::format("its members share their input, but {} takes {} features and {} takes {}",
                                          first.name, inputs(first), info.name, inputs(info)));
    }
    if (info.data_type != first.data_type && !search.converted) {
      return invalid_argument(
          fmt::format("its members are of one type, but {} is {} and {} is {}: convert with --dtype", first.name,
                      safetensors_name(first.data_type), info.name, safetensors_name(info.data_type)));
    }
    outputs += search.transposed ? info.cols : info.rows;
  }
  if (outputs > kMaxMatrixDimension) {
    return invalid_argument(fmt::format("together they have more than {} rows", kMaxMatrixDimension));
  }
  return {};
}

}  // namespace

std::string GroupPattern::text() const { return fmt::format("{}:{}", name, fmt::join(members, ",")); }

Status GroupPattern::check(std::size_t least_members) const {
  if (name.empty()) return invalid_argument("its name is empty");
  if (members.size() < least_members) return invalid_argument("a group has at least two members, separated by ','");
  const bool starred = has_star(members.front());
  std::set<std::string_view> seen;
  for (const std::string& member : members) {
    if (member.empty()) return invalid_argument("a member has no name");
    if (!seen.insert(member).second) return invalid_argument(fmt::format("the member {} stands twice", member));
    if (has_star(member) != starred) return invalid_argument("either every member holds a *, or none does");
    if (std::ranges::count(member, '*') > 1) return invalid_argument(fmt::format("{} holds more than one *", member));
  }
  if (std::ranges::count(name, '*') > (starred ? 1 : 0)) {
    return invalid_argument("its name holds a * that stands for nothing");
  }
  return {};
}

Result<GroupPattern> parse_group_pattern(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) {
    return invalid_argument(
        fmt::format("group '{}': NAME:MEMBER,MEMBER,... is expected, as in qkv:*.q.weight,*.k.weight", text));
  }
  const std::vector<std::string_view> members = split(std::string_view(text).substr(colon + 1), ",");
  GroupPattern pattern{text.substr(0, colon), {members.begin(), members.end()}};
  SPARSMITH_RETURN_IF_ERROR(pattern.check().annotate(fmt::format("group '{}'", text)));
  return pattern;
}

Result<std::vector<WeightGroup>> find_matches(const ModelFile& file, const GroupPattern& pattern,
                                              const LeftOut& left_out) {
  std::vector<std::string> texts;  // in the order of the file
  std::map<std::string, std::vector<std::optional<std::size_t>>> found;
  for (std::size_t index = 0; index < file.tensors().size(); ++index) {
    const std::string& name = file.tensors()[index].name;
    if (left_out && !left_out(name).empty()) continue;
    for (std::size_t member = 0; member < pattern.members.size(); ++member) {
      const std::optional<std::string> text = text_of_star(pattern.members[member], name);
      if (!text) continue;
      const auto [place, is_new] = found.try_emplace(*text, pattern.members.size());
      if (is_new) texts.push_back(*text);
      place->second[member] = index;
    }
  }
  if (texts.empty()) return invalid_argument("no weight is called as any of its members is");
  std::vector<WeightGroup> groups;
  for (const std::string& text : texts) {
    const std::vector<std::optional<std::size_t>>& members = found.at(text);
    const auto present = std::ranges::find_if(members, [](const auto& member) { return member.has_value(); });
    WeightGroup group;
    std::vector<std::string> names;
    for (std::size_t member = 0; member < members.size(); ++member) {
      names.push_back(replace_star(pattern.members[member], text));
      if (!members[member]) {
        return invalid_argument(fmt::format("there is {}, but no {} to go with it{}", file.tensors()[**present].name,
                                            names.back(), reason_of_absence(file, left_out, names.back())));
      }
      group.members.push_back(*members[member]);
    }
    group.name = group_name(pattern, text, names);
    groups.push_back(std::move(group));
  }
  return groups;
}

Result<std::vector<WeightGroup>> find_groups(const ModelFile& file, const GroupSearch& search) {
  std::vector<WeightGroup> groups;
  std::set<std::string> names;                  // of groups
  std::map<std::size_t, std::string> group_of;  // a tensor
  const auto check_names = [&](const WeightGroup& group) -> Status {
    if (file.find(group.name) ||
        std::ranges::find(file.skipped(), group.name, &SkippedTensor::name) != file.skipped().end())
      return invalid_argument("a tensor of the file has that name");
    if (!names.insert(group.name).second) {
      return invalid_argument(
          "another group has that name: a * in the name gives each its own, as in qkv.*:q.*.weight,k.*.weight");
    }
    for (const std::size_t index : group.members) {
      const auto [owner, is_new] = group_of.try_emplace(index, group.name);
      if (!is_new) {
        return invalid_argument(fmt::format("{} is in group {} already", file.tensors()[index].name,
                                            owner->second == group.name ? group.name + " (this one)" : owner->second));
      }
    }
    return {};
  };
  for (const GroupPattern& pattern : search.patterns) {
    Result<std::vector<WeightGroup>> matches = find_matches(file, pattern, search.left_out);
    if (!matches.ok()) return matches.status().annotate(fmt::format("{}: group '{}'", file.path(), pattern.text()));
    for (WeightGroup& group : *matches) {
      Status status = check_members(file, search, group);
      if (status.ok()) status = check_names(group);
      if (!status.ok()) return status.annotate(fmt::format("{}: group {}", file.path(), group.name));
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

}  // namespace sparsmith
