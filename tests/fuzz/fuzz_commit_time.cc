// Any text: a time in UTC, which is its own UTC, or an error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "history/store.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto utc = sparsmith::utc_of({reinterpret_cast<const char*>(data), size});
  if (!utc.ok()) return 0;
  const auto again = sparsmith::utc_of(*utc);
  // Offsets reach into the years before 0000 and after 9999, which four digits do not hold.
  if (utc->size() == 20 && utc->front() != '-' && (!again.ok() || *again != *utc)) std::abort();
  return 0;
}
