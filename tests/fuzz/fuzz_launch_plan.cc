// Any text: parsing gives a plan or an error, and a plan survives being written and read again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "runtime/launch_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto plan = sparsmith::launch_plan_from_json({reinterpret_cast<const char*>(data), size});
  if (!plan.ok()) return 0;
  const auto again = sparsmith::launch_plan_from_json(sparsmith::to_json(*plan));
  if (!again.ok() || !(*again == *plan)) std::abort();
  return 0;
}
