// Any text: parsing gives measurements that name their case, or an error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "history/recording.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto recording = sparsmith::parse_bench_json({reinterpret_cast<const char*>(data), size});
  if (!recording.ok()) return 0;
  for (const sparsmith::PerfMeasurement& measurement : recording->measurements) {
    if (measurement.key.name.empty() || measurement.samples_us.empty()) std::abort();
    for (const float sample : measurement.samples_us) {
      if (!(sample > 0)) std::abort();
    }
  }
  return 0;
}
