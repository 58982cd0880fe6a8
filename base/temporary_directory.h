// A directory for files that nobody keeps.
#pragma once

#include <string>

namespace sparsmith {

// A new directory, for its owner alone, below $TMPDIR (or else /tmp); it goes with the object, and with all that is in
// it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }  // empty where it could not be made
  // The path of a file in it.
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace sparsmith
