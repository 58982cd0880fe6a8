// Where a child process keeps files that nobody needs after it: a folder of its own below $TMPDIR (or else /tmp), which
// goes with it, however it ends.
#pragma once

#include <string>

namespace sparsmith {

// Movable. The destructor removes the folder with all that is in it. A folder that outlives its parent and its child is
// removed by the next one that is made: a living parent has it locked.
class ChildFolder {
 public:
  ChildFolder() = default;  // none
  // Makes a folder, and removes those of dead processes of this user. Where that fails, there is none.
  static ChildFolder make();
  ChildFolder(ChildFolder&& other) noexcept;
  ChildFolder& operator=(ChildFolder&&) = delete;
  ~ChildFolder();

  const std::string& path() const { return path_; }  // empty: there is none

 private:
  std::string path_;
  int lock_ = -1;
};

// In a child: removes the folder that its parent made for it. For a child that outlives its parent; any number of
// threads.
void remove_own_child_folder();

}  // namespace sparsmith
