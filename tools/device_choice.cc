#include "tools/device_choice.h"

#include <fmt/format.h>

#include "base/log.h"
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
  log_debug("{}", worker.status().message());
  return DeviceChoice{"emulator", "no usable GPU (sparsmith doctor says why)"};
}

}  // namespace sparsmith::tools
