// snippetc: reads the snippet headers, checks what they state, and writes the catalogue that is checked in.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include "base/file.h"
#include "snippetc/catalogue_build.h"
#include "snippetc/catalogue_text.h"

namespace sparsmith::snippetc {
namespace {

enum ExitCode : int { kDone = 0, kRuleBroken = 1, kFailed = 2, kStale = 3 };

int fail(const Status& status) {
  fmt::print(stderr, "snippetc: {}\n", status.to_string());
  return kFailed;
}

// Whether the file holds `text`, line breaks and all.
bool holds(const std::string& path, const std::string& text) {
  const Result<std::string> present = read_file(path);
  return present.ok() && *present == text;
}

int update(const std::string& root, bool check) {
  const Result<SourceTree> tree = SourceTree::read(root);
  if (!tree.ok()) return fail(tree.status());

  Findings findings;
  const std::vector<CataloguedSnippet> snippets = build_catalogue(*tree, findings);
  for (const Finding& finding : findings) fmt::print(stderr, "{}\n", finding.text());
  if (!findings.empty()) return kRuleBroken;

  const std::pair<std::string_view, std::string> outputs[] = {{kDataPath, data_text(snippets)},
                                                              {kPagePath, page_text(snippets)}};
  int code = kDone;
  for (const auto& [name, text] : outputs) {
    const std::filesystem::path path = std::filesystem::path(root) / name;
    if (holds(path.string(), text)) continue;
    if (check) {
      fmt::print(stderr, "{}: stale: build the target update_catalogue and commit what it changes\n", name);
      code = kStale;
      continue;
    }
    std::error_code ignored;  // writing says what is wrong
    std::filesystem::create_directories(path.parent_path(), ignored);
    if (const Status status = write_file_atomically(path.string(), text); !status.ok()) return fail(status);
    fmt::print("wrote {}\n", name);
  }
  return code;
}

int run(int argc, char** argv) {
  CLI::App app(
      "Reads the snippet headers, checks what they state, and writes generator/catalogue_data.inc and "
      "docs/internals/snippets.md.");
  std::string root = ".";
  bool check = false;
  app.add_option("--root", root, "the repository")->check(CLI::ExistingDirectory)->capture_default_str();
  app.add_flag("--check", check, "write nothing; exit code 3 when a file is stale");
  CLI11_PARSE(app, argc, argv);
  return update(root, check);
}

}  // namespace
}  // namespace sparsmith::snippetc

int main(int argc, char** argv) {
  try {
    return sparsmith::snippetc::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "snippetc: %s\n", error.what());
    return sparsmith::snippetc::kFailed;
  }
}
