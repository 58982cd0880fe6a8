#include "tuner/cuda_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace sparsmith {
namespace {

namespace fs = std::filesystem;

void append_split(std::vector<fs::path>& folders, const std::string& joined) {
  for (std::size_t begin = 0; begin <= joined.size();) {
    const std::size_t end = std::min(joined.find(':', begin), joined.size());
    if (end > begin) folders.emplace_back(joined.substr(begin, end - begin));
    begin = end + 1;
  }
}

// Toolkits below /usr/local, the newest first.
std::vector<fs::path> toolkit_folders() {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/usr/local", error))
    if (entry.path().filename().string().starts_with("cuda")) folders.push_back(entry.path() / "lib64");
  std::sort(folders.rbegin(), folders.rend());
  return folders;
}

// Where to look before the loader's own path, and after it.
struct SearchPath {
  std::vector<fs::path> before;
  std::vector<fs::path> after;
};

SearchPath search_path() {
  SearchPath path;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (!program.empty()) path.before = {program, program.parent_path() / "lib"};
  if (const char* joined = std::getenv("SPARSMITH_CUDA_LIBRARY_PATH")) append_split(path.before, joined);

  path.after = toolkit_folders();
  fs::path above = program;
  for (int level = 0; level < 4 && above.has_relative_path(); ++level, above = above.parent_path())
    path.after.push_back(above / ".deps/cuda/lib");
  return path;
}

}  // namespace

Result<CudaLibrary> CudaLibrary::open(const std::vector<std::string>& names) {
  const SearchPath path = search_path();
  std::vector<std::string> places;
  std::string refused;  // why the loader did not take a file that is there
  const auto try_folders = [&](const std::vector<fs::path>& folders) -> void* {
    for (const fs::path& folder : folders) {
      places.push_back(folder.string());
      for (const std::string& name : names) {
        const fs::path file = folder / name;
        std::error_code error;
        if (!fs::exists(file, error)) continue;
        if (void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
          places = {file.string()};
          return handle;
        }
        refused = dlerror();
      }
    }
    return nullptr;
  };

  if (void* handle = try_folders(path.before)) return CudaLibrary(places[0], handle);
  for (const std::string& name : names)
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return CudaLibrary(name, handle);
  places.emplace_back("the loader's path");
  if (void* handle = try_folders(path.after)) return CudaLibrary(places[0], handle);

  return no_device(fmt::format("{} not found in {}{}; install it, or name its folder in SPARSMITH_CUDA_LIBRARY_PATH",
                               names.empty() ? "library" : names.front(), fmt::join(places, ", "),
                               refused.empty() ? "" : " (" + refused + ")"));
}

void* CudaLibrary::find(const char* symbol) const { return dlsym(handle_, symbol); }

}  // namespace sparsmith
