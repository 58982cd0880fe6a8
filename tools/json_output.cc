#include "tools/json_output.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/print.h"

namespace sparsmith::tools {

void print_json(const nlohmann::json& json) {
  print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_json(const nlohmann::ordered_json& json) {
  print("{}\n", json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace sparsmith::tools
