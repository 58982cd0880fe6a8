#include "tests/support/kernel_bench.h"

#include <fmt/format.h>

#include <map>

#include "base/file.h"
#include "generator/source_closure.h"

namespace sparsmith {
namespace {

std::string read_device_headers() {
  std::map<std::string, std::string, std::less<>> texts;
  const auto lookup = [&](std::string_view path) -> std::optional<std::string_view> {
    Result<std::string> text = read_file(fmt::format("{}/{}", SPARSMITH_SOURCE_DIR, path));
    if (!text.ok()) return std::nullopt;
    return texts.insert_or_assign(std::string(path), std::move(*text)).first->second;
  };
  const std::vector<std::string> headers = {"snippets/device.cuh"};
  const Result<std::string> closure = closure_text(headers, lookup);
  EXPECT_TRUE(closure.ok()) << closure.status().to_string();
  return *closure;
}

}  // namespace

std::string kernel_text(const std::string& body) {
  static const std::string device = read_device_headers();
  return device + "using namespace sparsmith;\n" + body;
}

}  // namespace sparsmith
