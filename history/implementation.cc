#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "history/database.h"

namespace sparsmith {

using nlohmann::json;

bool Implementation::identified() const {
  return !kernels.empty() && !plan_hash.empty() && !packing_hash.empty() &&
         std::ranges::none_of(kernels, [](const PerfKernel& kernel) { return kernel.cubin_hash.empty(); });
}

std::string kernels_to_json(const std::vector<PerfKernel>& kernels) {
  json array = json::array();
  for (const PerfKernel& kernel : kernels) {
    json snippets = json::array();
    for (const PerfKernel::Snippet& snippet : kernel.snippets) snippets.push_back({snippet.header, snippet.hash});
    array.push_back({{"name", kernel.name},
                     {"cubin", kernel.cubin_hash},
                     {"registers", kernel.registers},
                     {"spills", kernel.spill_bytes},
                     {"snippets", snippets}});
  }
  return array.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<std::vector<PerfKernel>> kernels_from_json(const std::string& text) {
  try {
    std::vector<PerfKernel> kernels;
    for (const json& object : json::parse(text)) {
      PerfKernel& kernel = kernels.emplace_back();
      object.at("name").get_to(kernel.name);
      object.at("cubin").get_to(kernel.cubin_hash);
      const auto registers = json_integer(object.at("registers"), 0, std::numeric_limits<int>::max());
      const auto spills = json_integer(object.at("spills"), 0);
      if (!registers || !spills) return invalid_input("a kernel of an implementation has no sensible counts");
      kernel.registers = static_cast<int>(*registers);
      kernel.spill_bytes = *spills;
      for (const json& snippet : object.at("snippets"))
        kernel.snippets.push_back({snippet.at(0).get<std::string>(), snippet.at(1).get<std::string>()});
    }
    return kernels;
  } catch (const json::exception& error) {
    return invalid_input(std::string("the kernels of an implementation cannot be read: ") + json_error(error));
  }
}

}  // namespace sparsmith
