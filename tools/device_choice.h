// Which device a command uses where none, or one by name, is asked for.
#pragma once

#include <string>

#include "sparsmith/status.h"

namespace sparsmith::tools {

struct DeviceChoice {
  std::string name;  // "cuda:0" or "emulator"
  std::string note;  // why, where the user did not say: to be told at the end
};

// `asked` empty: the first GPU that works, or else the emulator. Error: kInvalidArgument for a name that is neither.
Result<DeviceChoice> choose_device(const std::string& asked);

}  // namespace sparsmith::tools
