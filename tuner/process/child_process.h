// A program of ours that runs as a child process. A socket connects it to this process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith {

// A folder for the temporary files of one child process, below $TMPDIR (or else /tmp). It is removed after the child's
// end, even when the child crashes.
//
// Movable. The destructor removes the folder with its contents. When the parent and the child die without removing it,
// a later make() removes it: only a living parent holds the lock on its folder.
class ChildFolder {
 public:
  ChildFolder() = default;  // none
  // Makes a folder, and removes folders that dead processes of this user left behind. On failure the object has no
  // folder.
  static ChildFolder make();
  ChildFolder(ChildFolder&& other) noexcept;
  ChildFolder& operator=(ChildFolder&&) = delete;
  ~ChildFolder();

  const std::string& path() const { return path_; }  // empty: no folder

 private:
  std::string path_;
  int lock_ = -1;
};

// Removes the folder of the calling child process. For a child that outlives its parent. Any thread may call it.
void remove_own_child_folder();

// Movable. The destructor kills a child that still runs, and waits for it. One thread at a time.
class ChildProcess {
 public:
  // The descriptor of the child's end of the socket, in every child.
  static constexpr int kChildSocket = 3;

  // Starts `program` with `arguments` (from argv[1]) in its own process group, which ends with it: a terminal's Ctrl-C
  // does not reach the child. Its stdout goes to this process's stderr. Its $TMPDIR is its own folder (ChildFolder).
  // Errors: kNoDevice when it cannot be started, with the path; kIoError when the system has no process, memory or
  // descriptor for it.
  static Result<ChildProcess> start(const std::string& program, const std::vector<std::string>& arguments);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  // Our end of the socket. The caller owns it. Call it once.
  int take_socket();

  void kill();
  // Waits for the child's end at most `patience`, then kills it. Returns the way it ended: "exited with code 1", "died
  // of signal 11 (Segmentation fault)", "was killed". Later calls return the same text.
  std::string wait(std::chrono::milliseconds patience);
  // Whether a signal from another process ended the child, and not its own fault.
  bool killed_by_others() const { return killed_by_others_; }
  // Whether a signal from another process has stopped the child.
  bool is_stopped() const;

  // The resident memory of the child; 0: not known.
  std::int64_t resident_bytes() const;

 private:
  ChildProcess(pid_t pid, int socket, ChildFolder folder) : pid_(pid), socket_(socket), folder_(std::move(folder)) {}

  pid_t pid_ = -1;  // -1: none, or waited for
  int socket_ = -1;
  ChildFolder folder_;
  std::string end_ = "has not run";
  bool killed_by_us_ = false;
  bool killed_by_others_ = false;
};

// The folder of this process's program.
std::string program_folder();

}  // namespace sparsmith
