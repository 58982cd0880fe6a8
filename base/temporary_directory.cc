#include "base/temporary_directory.h"

#include <cstdlib>
#include <filesystem>

namespace sparsmith {

namespace fs = std::filesystem;

TemporaryDirectory::TemporaryDirectory() {
  std::error_code error;
  std::string pattern = (fs::temp_directory_path(error) / "sparsmith-XXXXXX").string();
  if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code error;
  if (!path_.empty()) fs::remove_all(path_, error);
}

}  // namespace sparsmith
