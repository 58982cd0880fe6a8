#include "search/device_turn.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace sparsmith {

DeviceTurn::DeviceTurn(const std::string& pci_address) {
  if (pci_address.empty()) return;
  std::string name = "sparsmith-" + pci_address + ".lock";
  std::ranges::replace(name, ':', '-');
  std::error_code error;
  const std::filesystem::path directory = std::filesystem::temp_directory_path(error);
  if (!error) file_ = ::open((directory / name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) log_debug("{} cannot be opened; other runs on {} are not waited for", name, pci_address);
}

DeviceTurn::DeviceTurn(DeviceTurn&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

DeviceTurn& DeviceTurn::operator=(DeviceTurn&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

DeviceTurn::~DeviceTurn() {
  if (file_ >= 0) ::close(file_);
}

DeviceTurn::Hold::Hold(DeviceTurn& turn) : file_(turn.file_) {
  while (file_ >= 0 && ::flock(file_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

DeviceTurn::Hold::~Hold() {
  if (file_ >= 0) ::flock(file_, LOCK_UN);
}

}  // namespace sparsmith
