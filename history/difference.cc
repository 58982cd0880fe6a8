// What differs between two implementations.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "base/split.h"
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

// The parameters of "rows a=1 b=2", the family among them. Nothing for a text that is not of this form.
std::optional<std::map<std::string, std::string>> parameters_of(const std::string& text) {
  std::map<std::string, std::string> parameters;
  for (const std::string_view word : split(text, " ,;")) {
    const std::size_t equals = word.find('=');
    if (equals != std::string_view::npos) {
      parameters.emplace(word.substr(0, equals), word.substr(equals + 1));
    } else if (!word.empty() && !parameters.emplace("family", word).second) {
      return std::nullopt;
    }
  }
  return parameters;
}

}  // namespace

bool Implementation::identified() const {
  return !kernels.empty() && !plan_hash.empty() && !packing_hash.empty() &&
         std::ranges::none_of(kernels, [](const PerfKernel& kernel) { return kernel.cubin_hash.empty(); });
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
  std::vector<Difference> found;
  const auto add = [&](const std::string& what, const std::string& x, const std::string& y) {
    if (x != y) found.push_back({what, x, y});
  };
  const auto add_number = [&](const std::string& what, std::int64_t x, std::int64_t y) {
    add(what, std::to_string(x), std::to_string(y));
  };
  const auto add_hash = [&](const std::string& what, const std::string& x, const std::string& y) {
    add(what, x.substr(0, 8), y.substr(0, 8));
  };
  add("choice", base.choice, head.choice);
  auto x = parameters_of(base.config);
  auto y = parameters_of(head.config);
  if (x && y) {  // only the parameters that differ
    for (const auto& [name, value] : *x) y->try_emplace(name, "-");
    for (const auto& [name, value] : *y) add(name, x->try_emplace(name, "-").first->second, value);
  } else {
    add("config", base.config, head.config);
  }
  add("packing", base.packing, head.packing);
  add_number("packed bytes", base.packed_bytes, head.packed_bytes);
  add_hash("packed contents", base.packing_hash, head.packing_hash);
  add_hash("launch plan", base.plan_hash, head.plan_hash);
  const std::size_t kernels = std::max(base.kernels.size(), head.kernels.size());
  for (std::size_t i = 0; i < kernels; ++i) {
    const PerfKernel none;
    const PerfKernel& of_base = i < base.kernels.size() ? base.kernels[i] : none;
    const PerfKernel& of_head = i < head.kernels.size() ? head.kernels[i] : none;
    const std::string number = kernels > 1 ? fmt::format(" {}", i + 1) : "";
    add("kernel" + number, of_base.name, of_head.name);
    add_hash("cubin" + number, of_base.cubin_hash, of_head.cubin_hash);
    add_number("registers" + number, of_base.registers, of_head.registers);
    add_number("spilled bytes" + number, of_base.spill_bytes, of_head.spill_bytes);
  }
  return found;
}

std::vector<std::string> changed_snippets(const Implementation& base, const Implementation& head) {
  const auto x = snippets_of(base);
  const auto y = snippets_of(head);
  std::vector<std::pair<std::string, std::string>> changed;  // headers with their hashes
  std::ranges::set_symmetric_difference(x, y, std::back_inserter(changed));
  std::set<std::string> headers;
  for (const auto& [header, hash] : changed) headers.insert(header);
  return {headers.begin(), headers.end()};
}

}  // namespace sparsmith
