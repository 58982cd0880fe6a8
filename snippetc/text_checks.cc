#include "snippetc/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "generator/source_closure.h"
#include "generator/source_tokens.h"

namespace sparsmith::snippetc {
namespace {

// What is wrong with an include of `path`; empty: nothing.
std::string include_fault(const SourceTree& tree, std::string_view path, const IncludeLine& include) {
  if (include.angled) {
    return fmt::format(
        "includes <{}>: a kernel is compiled without a search path; what a snippet needs of the machine "
        "comes from {}",
        include.path, kDeviceFolder);
  }
  if (is_left_in_place(include)) {
    if (include.path == twin_of(path)) return "";
    return fmt::format("includes {}: of the emulator's, headers of {} include each its twin, and others none",
                       include.path, kDeviceFolder);
  }
  if (!tree.find(include.path)) {
    return fmt::format("includes {}, which is neither snippets/**/*.cuh nor formats/*_layout.h of this tree",
                       include.path);
  }
  if (include.conditional) return fmt::format("includes {} inside #if: includes are unconditional", include.path);
  return "";
}

// Whether the includes of `path` lead to `target`.
bool leads_to(const SourceTree& tree, const std::string& path, const std::string& target,
              std::vector<std::string>& visited) {
  if (path == target) return true;
  if (std::ranges::find(visited, path) != visited.end()) return false;
  visited.push_back(path);
  const std::optional<std::string_view> text = tree.find(path);
  return text && std::ranges::any_of(include_lines(*text), [&](const IncludeLine& include) {
           return leads_to(tree, include.path, target, visited);
         });
}

}  // namespace

void check_includes(const SourceTree& tree, Findings& findings) {
  for (const auto& [path, text] : tree.files()) {
    for (const IncludeLine& include : include_lines(text)) {
      if (std::string fault = include_fault(tree, path, include); !fault.empty()) {
        findings.push_back({path, include.line, std::move(fault)});
      } else if (std::vector<std::string> visited; leads_to(tree, include.path, path, visited)) {
        findings.push_back({path, include.line, fmt::format("includes {}, which includes it in turn", include.path)});
      }
    }
  }
}

bool is_machine_word(std::string_view word) {
  constexpr std::array<std::string_view, 6> kWords = {"asm",      "threadIdx", "blockIdx",
                                                      "blockDim", "gridDim",   "warpSize"};
  constexpr std::array<std::string_view, 2> kOfThePreprocessor = {"__VA_ARGS__", "__VA_OPT__"};
  if (word.starts_with("__")) return std::ranges::find(kOfThePreprocessor, word) == kOfThePreprocessor.end();
  if (word.starts_with("atomic") && word.size() > 6 && word[6] >= 'A' && word[6] <= 'Z') return true;
  return std::ranges::find(kWords, word) != kWords.end();
}

void check_machine_words(const SourceTree& tree, Findings& findings) {
  for (const auto& [path, text] : tree.files()) {
    if (is_of_device(path)) continue;
    for (const SourceToken& token : scan_source(text)) {
      if (token.kind != SourceToken::Kind::kIdentifier || !is_machine_word(token.text)) continue;
      findings.push_back(
          {path, token.line,
           fmt::format("names {}: only {} does, so that the emulator has a twin of it", token.text, kDeviceFolder)});
    }
  }
}

}  // namespace sparsmith::snippetc
