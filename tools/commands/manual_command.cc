// `sparsmith completion` and `sparsmith manual`: texts made from the options of all commands.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tools/command.h"
#include "tools/manual.h"
#include "tools/print.h"

namespace sparsmith::tools {
namespace {

struct Options {
  const CLI::App* program = nullptr;
  std::string shell;
  std::string folder;
};

Result<ExitCode> print_completion(const Options& options) {
  print("{}", completion_script(*options.program, options.shell));
  return kDone;
}

// The files of an installed tree's share/, or without a folder docs/reference/commands.md.
Result<ExitCode> write_manual(const Options& options) {
  if (options.folder.empty()) {
    print("{}", commands_page(*options.program));
    return kDone;
  }
  auto files = man_pages(*options.program);
  for (auto& [name, text] : files) name.insert(0, "man/man1/");
  files.emplace_back("bash-completion/completions/sparsmith", completion_script(*options.program, "bash"));
  files.emplace_back("zsh/site-functions/_sparsmith", completion_script(*options.program, "zsh"));
  files.emplace_back("fish/vendor_completions.d/sparsmith.fish", completion_script(*options.program, "fish"));
  for (const auto& [name, text] : files) {
    const std::filesystem::path path = std::filesystem::path(options.folder) / name;
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    SPARSMITH_RETURN_IF_ERROR(write_file_atomically(path.string(), text));
  }
  return kDone;
}

}  // namespace

void add_manual_commands(CLI::App& app, Action& action) {
  const auto options = std::make_shared<Options>();
  options->program = &app;
  CLI::App* const completion = app.add_subcommand("completion", "Print a script that completes commands and options");
  completion->add_option("shell", options->shell, "bash, zsh or fish")->required()->check(CLI::IsMember(kShells));
  set_action(*completion, action, options, print_completion);
  CLI::App* const manual = app.add_subcommand("manual", "Print the reference of commands as Markdown");
  manual->add_option("--folder", options->folder, "Write man pages and completions to this folder instead");
  set_action(*manual, action, options, write_manual);
}

}  // namespace sparsmith::tools
