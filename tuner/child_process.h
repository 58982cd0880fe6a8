// A program of ours that runs as a child, joined to this process by a socket.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sparsmith/status.h"
#include "tuner/child_folder.h"

namespace sparsmith {

// Movable. The destructor kills a child that still runs, and waits for it. One thread at a time.
class ChildProcess {
 public:
  // The child's end of the socket; the same in every child.
  static constexpr int kChildSocket = 3;

  // Starts `program` with `arguments` (argv[1] on), in a process group of its own, which ends with it: a terminal's
  // Ctrl-C does not reach it. Its stdout goes to this process's stderr, and its $TMPDIR is a folder of its own
  // (child_folder.h). Errors: kNoDevice when it cannot be started, with the path; kIoError when the system has no
  // process, memory or descriptor for it.
  static Result<ChildProcess> start(const std::string& program, const std::vector<std::string>& arguments);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  // Our end of the socket, given away once.
  int take_socket();

  void kill();
  // Waits at most `patience`, then kills. How it ended: "exited with code 1", "died of signal 11 (Segmentation
  // fault)", "was killed"; the same again on later calls.
  std::string wait(std::chrono::milliseconds patience);
  // Whether it ended by a signal that somebody sent, and not by a fault of its own.
  bool killed_by_others() const { return killed_by_others_; }
  // Whether a signal that somebody sent keeps it from running.
  bool is_stopped() const;

  // What it has in memory; 0 where the system does not say.
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

// The folder of the program that runs now.
std::string program_folder();

}  // namespace sparsmith
