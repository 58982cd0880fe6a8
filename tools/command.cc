#include "tools/command.h"

#include <limits>

#include "tools/output_files.h"

namespace sparsmith::tools {

void add_selection_options(CLI::App& command, SelectionOptions& selection) {
  command.add_option("--include", selection.include, "Only weights whose names match a shell pattern; may be repeated")
      ->allow_extra_args(false);
  command.add_option("--exclude", selection.exclude, "Not weights whose names match; may be repeated")
      ->allow_extra_args(false);
  add_shown(command, "--min-sparsity", selection.min_sparsity, "Take weights with a larger share of zeros");
}

void add_page_options(CLI::App& command, std::string& html, bool& force) {
  command.add_option("--html", html, "Also write a page to this file");
  add_force_option(command, force);
}

void add_max_memory_option(CLI::App& command, std::int64_t& bytes) {
  command.add_option("--max-memory", bytes, "Memory that a weight may take, as 8GB; default: half of the machine's")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->check(CLI::Range(std::int64_t{1}, std::numeric_limits<std::int64_t>::max()));
}

}  // namespace sparsmith::tools
