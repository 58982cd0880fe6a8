#include "tools/command.h"

#include <limits>

#include "tools/output_files.h"

namespace sparsmith::tools {

void add_selection_options(CLI::App& command, SelectionOptions& selection) {
  command.add_option("--include", selection.include, "Only weights whose names match this shell pattern (repeatable)")
      ->allow_extra_args(false);
  command.add_option("--exclude", selection.exclude, "Skip weights whose names match this shell pattern (repeatable)")
      ->allow_extra_args(false);
  add_shown(command, "--min-sparsity", selection.min_sparsity,
            "Skip weights with a smaller share of zeros, from 0 to 1");
}

void add_page_options(CLI::App& command, std::string& html, bool& force) {
  command.add_option("--html", html, "Also write an HTML page to this file");
  add_force_option(command, force);
}

void add_max_memory_option(CLI::App& command, std::int64_t& bytes) {
  command.add_option("--max-memory", bytes, "Host memory for one weight, such as 8GB; default: half of this machine's")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->check(CLI::Range(std::int64_t{1}, std::numeric_limits<std::int64_t>::max()));
}

}  // namespace sparsmith::tools
