// How `--json` prints.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace sparsmith::tools {

// Prints `json` to stdout as one line. Bytes that are no UTF-8, as names of files and tensors may hold, are replaced:
// the line is always JSON.
void print_json(const nlohmann::json& json);
void print_json(const nlohmann::ordered_json& json);

}  // namespace sparsmith::tools
