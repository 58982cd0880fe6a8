#include "generator/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "generator/source_closure.h"

namespace sparsmith {
namespace {

using std::string_view_literals::operator""sv;

#include "generator/catalogue_data.inc"  // kSnippets, by snippetc
#include "generator/header_texts.inc"    // kHeaders, by the build

}  // namespace

const Snippet* Catalogue::find(std::string_view name) const {
  const auto found = std::ranges::find(snippets_, name, &Snippet::name);
  return found == snippets_.end() ? nullptr : &*found;
}

const SnippetHeader* Catalogue::find_header(std::string_view path) const {
  const auto found = std::ranges::find(headers_, path, &SnippetHeader::path);
  return found == headers_.end() ? nullptr : &*found;
}

Result<std::span<const std::int64_t>> Catalogue::values_of(std::string_view snippet, std::string_view parameter) const {
  const Snippet* const owner = find(snippet);
  if (owner == nullptr) return not_found(fmt::format("the catalogue has no snippet {}", snippet));
  const auto found = std::ranges::find_if(owner->tuned, [&](const TunedParameter& candidate) {
    const bool is_member_of_same_name =
        candidate.name.ends_with('_') && candidate.name.substr(0, candidate.name.size() - 1) == parameter;
    return candidate.name == parameter || is_member_of_same_name;
  });
  if (found == owner->tuned.end())
    return not_found(fmt::format("{}: {} has no SPARSMITH_TUNE line of {}", owner->header, snippet, parameter));
  return found->values;
}

Result<std::string> Catalogue::closure_source(std::span<const std::string> headers) const {
  return closure_text(headers, [this](std::string_view path) -> std::optional<std::string_view> {
    const SnippetHeader* const header = find_header(path);
    if (header == nullptr) return std::nullopt;
    return header->text;
  });
}

const Catalogue& catalogue() {
  static const Catalogue instance(kSnippets, kHeaders);
  return instance;
}

std::vector<std::int64_t> tuned(std::string_view snippet, std::string_view parameter) {
  const auto values = catalogue().values_of(snippet, parameter).value();
  return {values.begin(), values.end()};
}

}  // namespace sparsmith
