#include "runtime/cuda_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/split.h"

namespace sparsmith {
namespace {

namespace fs = std::filesystem;

// The folders of toolkits below /usr/local, the newest first.
std::vector<fs::path> toolkit_folders() {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/usr/local", error))
    if (entry.path().filename().string().starts_with("cuda")) folders.push_back(entry.path() / "lib64");
  std::sort(folders.rbegin(), folders.rend());
  return folders;
}

std::string this_program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).string();
}

// The folders to search before the loader's own path.
std::vector<fs::path> folders_before_loader() {
  std::vector<fs::path> folders;
  for (const std::string& folder : folders_of_program(this_program())) folders.emplace_back(folder);
  const char* const joined = std::getenv("SPARSMITH_CUDA_LIBRARY_PATH");
  for (const std::string_view folder : split(joined == nullptr ? "" : joined, ":"))
    if (!folder.empty()) folders.emplace_back(folder);
  return folders;
}

std::vector<fs::path> wheel_folders() {
  std::vector<fs::path> folders;
  for (const std::string& folder : wheel_folders_of_program(this_program())) folders.emplace_back(folder);
  return folders;
}

// The existing folders that nobody but root, this user and the program's owner can write to.
std::vector<std::string> trusted_folders(const std::string& program, const std::vector<fs::path>& candidates) {
  struct stat owner = {};
  if (program.empty() || stat(program.c_str(), &owner) != 0) return {};
  std::vector<std::string> folders;
  for (const fs::path& folder : candidates) {
    struct stat status = {};
    if (stat(folder.c_str(), &status) != 0 || (status.st_mode & S_IWOTH) != 0) continue;
    if (status.st_uid != 0 && status.st_uid != geteuid() && status.st_uid != owner.st_uid) continue;
    folders.push_back(folder.string());
  }
  return folders;
}

// One search for a library under any of its names.
class Search {
 public:
  explicit Search(const std::vector<std::string>& names, std::string needed_by = "")
      : names_(names), needed_by_(std::move(needed_by)) {}

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
    return no_device(fmt::format(
        "{}{} not found in {}{}; install it, or name its folder in SPARSMITH_CUDA_LIBRARY_PATH",
        names_.empty() ? "library" : names_.front(), needed_by_.empty() ? "" : ", which " + needed_by_ + " needs,",
        fmt::join(places_, ", "), refused_.empty() ? "" : " (" + refused_ + ")"));
  }

 private:
  void* load(std::string path) {
    path_ = std::move(path);
    return dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  }

  const std::vector<std::string>& names_;
  const std::string needed_by_;  // the file that needs it; empty: none does
  std::vector<std::string> places_;
  std::string path_;
  std::string refused_;  // why the loader did not take a file that is there
};

}  // namespace

Result<CudaLibrary> CudaLibrary::open(const std::vector<std::string>& names) {
  Search search(names);
  void* handle = search.in_folders(folders_before_loader());
  if (handle == nullptr) handle = search.by_loader();
  if (handle == nullptr) handle = search.in_folders(toolkit_folders());
  if (handle == nullptr) handle = search.in_folders(wheel_folders());
  if (handle == nullptr) return search.not_found();
  return CudaLibrary(search.path(), handle);
}

Result<CudaLibrary> CudaLibrary::open_companion(const std::string& name) const {
  std::vector<fs::path> folders;
  if (const link_map* map = nullptr; dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0) {
    const fs::path file = map->l_name;
    folders.push_back(file.parent_path());
    std::error_code error;
    const fs::path target = fs::canonical(file, error).parent_path();
    if (!error && target != file.parent_path()) folders.push_back(target);
  }
  const std::vector<std::string> names = {name};
  Search search(names, path_);
  void* handle = search.in_folders(folders);
  if (handle == nullptr) handle = search.by_loader();
  if (handle == nullptr) return search.not_found();
  return CudaLibrary(search.path(), handle);
}

void* CudaLibrary::find(const char* symbol) const { return dlsym(handle_, symbol); }

std::vector<std::string> folders_of_program(const std::string& program) {
  const fs::path own = fs::path(program).parent_path();
  return trusted_folders(program, {own, own.parent_path() / "lib"});
}

std::vector<std::string> wheel_folders_of_program(const std::string& program) {
  // site-packages/sparsmith/bin/<program>
  const fs::path package = fs::path(program).parent_path().parent_path();
  if (package.filename() != "sparsmith") return {};
  std::vector<fs::path> folders;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(package.parent_path() / "nvidia", error))
    folders.push_back(entry.path() / "lib");
  std::sort(folders.rbegin(), folders.rend());
  return trusted_folders(program, folders);
}

}  // namespace sparsmith
