// Any text: parsing gives one positive sample a repetition, or an error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "history/recording.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto recording = sparsmith::parse_google_benchmark({reinterpret_cast<const char*>(data), size});
  if (!recording.ok()) return 0;
  for (const sparsmith::PerfMeasurement& measurement : recording->measurements) {
    if (measurement.samples_us.size() != 1 || !(measurement.samples_us[0] > 0)) std::abort();
  }
  return 0;
}
