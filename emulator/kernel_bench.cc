#include "emulator/kernel_bench.h"

#include "base/file.h"

namespace sparsmith {

std::string kernel_text(const std::string& body) {
  const std::string snippets = std::string(SPARSMITH_SOURCE_DIR) + "/snippets/";
  const Result<std::string> device = read_file(snippets + "device.cuh");
  EXPECT_TRUE(device.ok()) << device.status().to_string();
  return *device + "using namespace sparsmith;\n" + body;
}

}  // namespace sparsmith
