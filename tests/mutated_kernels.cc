#include "tests/mutated_kernels.h"

#include "emulator/emulated_executor.h"

namespace sparsmith::testing {

std::string mutated(const std::string& source, const std::string& from, const std::string& to) {
  std::string text = source;
  const std::size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

bool caught(const std::vector<KernelCase>& cases, const std::string& from, const std::string& to,
            const std::shared_ptr<CpuKernelCompiler>& compiler) {
  auto executor = make_emulated_executor({.compiler = compiler});
  const std::string prefix = cases.front().config.family + "_";
  const ImageOf image_of = [&](const KernelSource& kernel) -> Result<KernelImage> {
    const bool broken = kernel.name.starts_with(prefix);
    return KernelImage{
        kernel.name, broken ? mutated(kernel.source, from, to) : kernel.source, {}, kernel.max_shared_bytes};
  };
  for (KernelCase each : cases) {
    for (const bool small_grid : {true, false}) {
      each.small_grid = small_grid;
      if (!run_case(each, **executor, image_of).ok()) return true;
    }
  }
  return false;
}

}  // namespace sparsmith::testing
