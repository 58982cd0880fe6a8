// Any text: what is read of it becomes a page, or an error; the page never throws.
#include <cstdint>
#include <string_view>

#include "tools/report/report_input.h"
#include "tools/report/report_page.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sparsmith::tools::ReportInputs inputs;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (!sparsmith::tools::add_report_json(text, "input", inputs).ok()) return 0;
  (void)sparsmith::tools::report_page("page", inputs);
  (void)sparsmith::tools::report_table(inputs);
  return 0;
}
