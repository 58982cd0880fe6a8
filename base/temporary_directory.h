// A directory for temporary files.
#pragma once

#include <string>

namespace sparsmith {

// A new directory below $TMPDIR (or else /tmp), accessible only to its owner. The destructor removes it with its
// contents.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }  // empty when it could not be made
  // The path of a file in it.
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace sparsmith
