#include "tuner/ptxas_log.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace sparsmith {
namespace {

// The number that stands directly before `unit` in `line`: 24 in "Used 24 registers" for " registers".
std::optional<std::int64_t> number_before(std::string_view line, std::string_view unit) {
  const std::size_t end = line.find(unit);
  if (end == std::string_view::npos) return std::nullopt;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(line.data() + begin, line.data() + end, value);
  if (error != std::errc() || stop != line.data() + end) return std::nullopt;
  return value;
}

bool names_entry(std::string_view line, std::string_view kernel) {
  return line.find("Compiling entry function '" + std::string(kernel) + "'") != std::string_view::npos;
}

// "Function properties for NAME" is followed by the figures of that function, which need not be the entry.
std::optional<std::string_view> function_of(std::string_view line) {
  constexpr std::string_view kMark = "Function properties for ";
  const std::size_t at = line.find(kMark);
  if (at == std::string_view::npos) return std::nullopt;
  return line.substr(at + kMark.size());
}

}  // namespace

Result<PtxasFigures> parse_ptxas_log(std::string_view log, std::string_view kernel) {
  PtxasFigures figures;
  bool in_entry = false;
  bool in_properties = false;
  bool found_registers = false;
  for (std::size_t begin = 0; begin < log.size();) {
    const std::size_t end = std::min(log.find('\n', begin), log.size());
    const std::string_view line = log.substr(begin, end - begin);
    begin = end + 1;
    if (line.find("Compiling entry function") != std::string_view::npos) in_entry = names_entry(line, kernel);
    if (!in_entry) continue;
    if (const auto function = function_of(line)) in_properties = *function == kernel;
    if (const auto registers = number_before(line, " registers"); registers && !found_registers) {
      figures.registers = static_cast<int>(*registers);
      figures.static_shared_bytes = number_before(line, " bytes smem").value_or(0);
      found_registers = true;
    }
    if (!in_properties) continue;
    if (const auto stack = number_before(line, " bytes stack frame")) figures.stack_bytes = *stack;
    if (const auto stores = number_before(line, " bytes spill stores")) figures.spill_store_bytes = *stores;
    if (const auto loads = number_before(line, " bytes spill loads")) figures.spill_load_bytes = *loads;
  }
  if (!found_registers) return invalid_input(fmt::format("the compiler's log says nothing of kernel {}", kernel));
  return figures;
}

}  // namespace sparsmith
