#include "tools/device_choice.h"

#include <fmt/format.h>

#include "tuner/worker.h"

namespace sparsmith::tools {

Result<DeviceChoice> choose_device(const std::string& asked) {
  if (!asked.empty()) {
    if (asked != "emulator" && !asked.starts_with("cuda:"))
      return invalid_argument(fmt::format("--device {}: cuda:<number>, or emulator", asked));
    return DeviceChoice{asked, ""};
  }
  const auto worker = Worker::start({.device = "cuda:0", .program = ""});
  if (worker.ok()) return DeviceChoice{"cuda:0", ""};
  return DeviceChoice{"emulator", fmt::format("no usable GPU ({})", worker.status().message())};
}

}  // namespace sparsmith::tools
