#include "runtime/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace sparsmith {

Result<SharedLibrary> SharedLibrary::open(std::span<const char* const> names) {
  std::string reasons;
  for (const char* name : names) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return SharedLibrary(name, handle);
    const char* reason = dlerror();
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", reason != nullptr ? reason : name);
  }
  return no_device(reasons);
}

void* SharedLibrary::symbol(const char* name) const { return dlsym(handle_, name); }

}  // namespace sparsmith
