// Runs a program to its end.
#pragma once

#include <string>
#include <vector>

namespace sparsmith {

// Runs command[0] from $PATH without input. Its output goes to the file `log`. Returns its exit code; over 128 when a
// signal ended it; -1 when it could not be started.
int run_program(std::vector<std::string> command, const std::string& log);

}  // namespace sparsmith
