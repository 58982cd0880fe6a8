#include "tools/device_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "tuner/worker.h"

namespace sparsmith::tools {

Result<DevicesChoice> choose_devices(const std::vector<std::string>& asked) {
  DevicesChoice devices;
  for (const std::string& name : asked) {
    if (name != "emulator" && !name.starts_with("cuda:"))
      return invalid_argument(fmt::format("--device {}: cuda:<number>, or emulator", name));
    if (std::ranges::find(devices.names, name) != devices.names.end())
      return invalid_argument(fmt::format("--device names {} twice", name));
    devices.names.push_back(name);
  }
  if (devices.names.size() > 1 && std::ranges::find(devices.names, "emulator") != devices.names.end())
    return invalid_argument("--device: the emulator measures nothing, and goes together with no other device");
  if (!devices.names.empty()) return devices;
  const auto worker = Worker::start({.device = "cuda:0", .program = ""});
  if (worker.ok()) return DevicesChoice{{"cuda:0"}, ""};
  if (worker.status().code() == StatusCode::kIoError) return worker.status();  // it says nothing of a GPU
  log_debug("{}", worker.status().message());
  return DevicesChoice{{"emulator"}, "no usable GPU (sparsmith doctor says why)"};
}

}  // namespace sparsmith::tools
