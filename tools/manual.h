// Man pages, shell completions and the reference of commands, made from the options of the program.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sparsmith::tools {

inline const std::vector<std::string> kShells = {"bash", "zsh", "fish"};

// The completion script for one of kShells.
std::string completion_script(const CLI::App& app, std::string_view shell);

// Pages in roff by name: "sparsmith.1" and one for each command, as "sparsmith-tune.1".
std::vector<std::pair<std::string, std::string>> man_pages(const CLI::App& app);

// docs/reference/commands.md.
std::string commands_page(const CLI::App& app);

}  // namespace sparsmith::tools
