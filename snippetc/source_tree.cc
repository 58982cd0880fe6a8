#include "snippetc/source_tree.h"

#include <filesystem>
#include <system_error>

#include "base/file.h"

namespace sparsmith::snippetc {
namespace {

namespace fs = std::filesystem;

bool is_kernel_header(std::string_view path) {
  if (path.starts_with("snippets/")) return path.ends_with(".cuh");
  return path.starts_with("formats/") && path.ends_with("_layout.h");
}

}  // namespace

Result<SourceTree> SourceTree::read(const std::string& root) {
  SourceTree tree;
  for (const std::string folder : {"snippets", "formats"}) {
    std::error_code error;
    fs::recursive_directory_iterator entries(fs::path(root) / folder, error);
    if (error && folder == "formats") continue;
    for (; !error && entries != fs::recursive_directory_iterator(); entries.increment(error)) {
      const std::string path = entries->path().lexically_relative(root).generic_string();
      if (!is_kernel_header(path)) continue;
      SPARSMITH_ASSIGN_OR_RETURN(std::string text, read_file(entries->path().string()));
      tree.put(path, std::move(text));
    }
    if (error) return io_error((fs::path(root) / folder).string() + ": cannot read the folder: " + error.message());
  }
  return tree;
}

std::optional<std::string_view> SourceTree::find(std::string_view path) const {
  const auto found = files_.find(path);
  if (found == files_.end()) return std::nullopt;
  return found->second;
}

std::string twin_of(std::string_view path) {
  constexpr std::string_view kExtension = ".cuh";
  if (!is_of_device(path) || !path.ends_with(kExtension)) return "";
  path.remove_prefix(kDeviceFolder.size());
  path.remove_suffix(kExtension.size());
  return "emulator/device_twin/" + std::string(path) + ".h";
}

std::string_view role_of_folder(std::string_view path) {
  if (path.starts_with("snippets/prolog/")) return "prolog";
  if (path.starts_with("snippets/reduction/")) return "reduction";
  if (path.starts_with("snippets/epilog/")) return "epilog";
  if (path.starts_with("snippets/kernels/")) return "kernel";
  return "";
}

}  // namespace sparsmith::snippetc
