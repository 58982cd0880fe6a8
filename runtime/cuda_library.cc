#include "runtime/cuda_library.h"

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
    if (fs::exists(above / ".deps/cuda/lib", error)) path.after.push_back(above / ".deps/cuda/lib");
  return path;
}

// One search for a library under any of its names.
class Search {
 public:
  explicit Search(const std::vector<std::string>& names) : names_(names) {}

  // Each opens the first of the names that is there, and leaves its file in path(); null when none is.
  void* in_folders(const std::vector<fs::path>& folders) {
    for (const fs::path& folder : folders) {
      places_.push_back(folder.string());
      for (const std::string& name : names_) {
        std::error_code error;
        if (!fs::exists(folder / name, error)) continue;
        if (void* handle = load((folder / name).string())) return handle;
        refused_ = dlerror();
      }
    }
    return nullptr;
  }
  void* by_loader() {
    places_.emplace_back("the loader's path");
    for (const std::string& name : names_) {
      if (void* handle = load(name)) return handle;
      // The loader's word for a file that is not there; any other names the file, or what it needs, and what is wrong.
      const std::string reason = dlerror();
      if (!reason.starts_with(name + ": cannot open shared object file")) refused_ = reason;
    }
    return nullptr;
  }

  const std::string& path() const { return path_; }
  Status not_found() const {
    return no_device(fmt::format("{} not found in {}{}; install it, or name its folder in SPARSMITH_CUDA_LIBRARY_PATH",
                                 names_.empty() ? "library" : names_.front(), fmt::join(places_, ", "),
                                 refused_.empty() ? "" : " (" + refused_ + ")"));
  }

 private:
  void* load(std::string path) {
    path_ = std::move(path);
    return dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  }

  const std::vector<std::string>& names_;
  std::vector<std::string> places_;
  std::string path_;
  std::string refused_;  // why the loader did not take a file that is there
};

}  // namespace

Result<CudaLibrary> CudaLibrary::open(const std::vector<std::string>& names) {
  const SearchPath path = search_path();
  Search search(names);
  void* handle = search.in_folders(path.before);
  if (handle == nullptr) handle = search.by_loader();
  if (handle == nullptr) handle = search.in_folders(path.after);
  if (handle == nullptr) return search.not_found();
  return CudaLibrary(search.path(), handle);
}

void* CudaLibrary::find(const char* symbol) const { return dlsym(handle_, symbol); }

}  // namespace sparsmith
