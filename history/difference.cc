// What differs between two implementations.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "history/comparison.h"

namespace sparsmith {
namespace {

bool same_kernels(const Implementation& a, const Implementation& b) {
  return std::ranges::equal(a.kernels, b.kernels, [](const PerfKernel& x, const PerfKernel& y) {
    return x.name == y.name && x.cubin_hash == y.cubin_hash;
  });
}

// Headers of all kernels. A header has the same text in each.
std::map<std::string, std::string> snippets_of(const Implementation& implementation) {
  std::map<std::string, std::string> result;
  for (const PerfKernel& kernel : implementation.kernels) {
    for (const PerfKernel::Snippet& snippet : kernel.snippets) result[snippet.header] = snippet.hash;
  }
  return result;
}

class Differences {
 public:
  void add(const std::string& what, const std::string& base, const std::string& head) {
    if (base != head) found_.push_back({what, base, head});
  }
  void add(const std::string& what, std::int64_t base, std::int64_t head) {
    add(what, std::to_string(base), std::to_string(head));
  }
  // "a=1 b=2" against "a=1 b=3": b alone. Texts that are not of that form are compared as a whole.
  void add_config(const std::string& base, const std::string& head) {
    const auto x = parameters_of(base);
    const auto y = parameters_of(head);
    if (!x || !y) return add("config", base, head);
    std::set<std::string> names;
    for (const auto& [name, value] : *x) names.insert(name);
    for (const auto& [name, value] : *y) names.insert(name);
    const auto value_in = [](const std::map<std::string, std::string>& of, const std::string& name) {
      const auto found = of.find(name);
      return found == of.end() ? "-" : found->second;
    };
    for (const std::string& name : names) add(name, value_in(*x, name), value_in(*y, name));
  }
  std::vector<Difference> take() { return std::move(found_); }

 private:
  static std::optional<std::map<std::string, std::string>> parameters_of(const std::string& text) {
    std::map<std::string, std::string> parameters;
    std::size_t begin = 0;
    while (begin < text.size()) {
      const std::size_t end = std::min(text.find_first_of(" ,;", begin), text.size());
      const std::string_view word = std::string_view(text).substr(begin, end - begin);
      const std::size_t equals = word.find('=');
      if (equals != std::string_view::npos) {
        parameters.emplace(word.substr(0, equals), word.substr(equals + 1));
      } else if (!word.empty() && !parameters.emplace("family", word).second) {
        return std::nullopt;
      }
      begin = end + 1;
    }
    return parameters;
  }

  std::vector<Difference> found_;
};

}  // namespace

const char* cause_name(Cause cause) {
  switch (cause) {
    case Cause::kEnvironment: return "environment";
    case Cause::kNone: return "none";
    case Cause::kOtherChoice: return "other choice";
    case Cause::kKernel: return "kernel";
    case Cause::kPacking: return "packing";
    case Cause::kLaunchPlan: return "launch plan";
    case Cause::kUnknown: return "not known";
  }
  return "not known";
}

Cause cause_of(const Implementation& base, const Implementation& head) {
  if (base.choice != head.choice || base.config != head.config || base.packing != head.packing)
    return Cause::kOtherChoice;
  if (!same_kernels(base, head)) return Cause::kKernel;
  if (base.packing_hash != head.packing_hash || base.packed_bytes != head.packed_bytes) return Cause::kPacking;
  if (base.plan_hash != head.plan_hash) return Cause::kLaunchPlan;
  return base.identified() && head.identified() ? Cause::kNone : Cause::kUnknown;
}

std::vector<Difference> differences(const Implementation& base, const Implementation& head) {
  Differences result;
  result.add("choice", base.choice, head.choice);
  result.add_config(base.config, head.config);
  result.add("packing", base.packing, head.packing);
  result.add("packed bytes", base.packed_bytes, head.packed_bytes);
  result.add("packed contents", base.packing_hash.substr(0, 8), head.packing_hash.substr(0, 8));
  result.add("launch plan", base.plan_hash.substr(0, 8), head.plan_hash.substr(0, 8));
  for (std::size_t i = 0; i < std::max(base.kernels.size(), head.kernels.size()); ++i) {
    const PerfKernel none;
    const PerfKernel& x = i < base.kernels.size() ? base.kernels[i] : none;
    const PerfKernel& y = i < head.kernels.size() ? head.kernels[i] : none;
    const std::string number = std::max(base.kernels.size(), head.kernels.size()) > 1 ? fmt::format(" {}", i + 1) : "";
    result.add("kernel" + number, x.name, y.name);
    result.add("cubin" + number, x.cubin_hash.substr(0, 8), y.cubin_hash.substr(0, 8));
    result.add("registers" + number, x.registers, y.registers);
    result.add("spilled bytes" + number, x.spill_bytes, y.spill_bytes);
  }
  return result.take();
}

std::vector<std::string> changed_snippets(const Implementation& base, const Implementation& head) {
  const auto x = snippets_of(base);
  const auto y = snippets_of(head);
  std::set<std::string> changed;
  for (const auto& [header, hash] : x) {
    const auto found = y.find(header);
    if (found == y.end() || found->second != hash) changed.insert(header);
  }
  for (const auto& [header, hash] : y) {
    if (!x.contains(header)) changed.insert(header);
  }
  return {changed.begin(), changed.end()};
}

}  // namespace sparsmith
