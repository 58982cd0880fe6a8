// Which devices a command uses where none, or some by name, are asked for.
#pragma once

#include <string>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith::tools {

struct DevicesChoice {
  std::vector<std::string> names;  // "cuda:0", "emulator"
  std::string note;                // why, where the user did not say: to be told at the end
};

// The devices of a run: those of `asked`, each once; where none is asked for, the first GPU that works, or else the
// emulator. Error: kInvalidArgument for a name that is neither.
Result<DevicesChoice> choose_devices(const std::vector<std::string>& asked);

}  // namespace sparsmith::tools
