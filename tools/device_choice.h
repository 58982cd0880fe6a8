// Which devices a command uses where none, or some by name, are asked for.
#pragma once

#include <string>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith::tools {

struct DeviceChoice {
  std::string name;  // "cuda:0" or "emulator"
  std::string note;  // why, where the user did not say: to be told at the end
};

// The devices of a run: those of `asked`, each once, or the one that choose_device() finds.
struct DevicesChoice {
  std::vector<std::string> names;
  std::string note;
};
Result<DevicesChoice> choose_devices(const std::vector<std::string>& asked);

// `asked` empty: the first GPU that works, or else the emulator. Error: kInvalidArgument for a name that is neither.
Result<DeviceChoice> choose_device(const std::string& asked);

}  // namespace sparsmith::tools
