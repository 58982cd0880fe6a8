// The headers that generated kernels may include.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "sparsmith/status.h"

namespace sparsmith::snippetc {

// Texts by path relative to the repository root: snippets/**/*.cuh and formats/*_layout.h.
class SourceTree {
 public:
  static Result<SourceTree> read(const std::string& root);

  void put(std::string path, std::string text) { files_.insert_or_assign(std::move(path), std::move(text)); }
  const std::map<std::string, std::string, std::less<>>& files() const { return files_; }
  std::optional<std::string_view> find(std::string_view path) const;

 private:
  std::map<std::string, std::string, std::less<>> files_;
};

// Only headers in this folder may use words of CUDA and of the machine. Each of them includes the emulator's twin of
// itself.
constexpr std::string_view kDeviceFolder = "snippets/device/";
inline bool is_of_device(std::string_view path) { return path.starts_with(kDeviceFolder); }

// emulator/device_twin/x.h for snippets/device/x.cuh; empty if the header has no twin.
std::string twin_of(std::string_view path);

// The role that the folder of a header gives to its snippets: "prolog" for snippets/prolog/x.cuh; empty if the folder
// gives no role.
std::string_view role_of_folder(std::string_view path);

}  // namespace sparsmith::snippetc
