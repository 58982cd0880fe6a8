// A program of ours that runs as a child, joined to this process by a socket.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith {

// Movable. The destructor kills a child that still runs, and waits for it. One thread at a time.
class ChildProcess {
 public:
  // The child's end of the socket; the same in every child.
  static constexpr int kChildSocket = 3;

  // Starts `program` with `arguments` (argv[1] on). Its stdout goes to this process's stderr. Error: kNoDevice when it
  // cannot be started, with the path.
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

  // What it has in memory; 0 where the system does not say.
  std::int64_t resident_bytes() const;

 private:
  ChildProcess(pid_t pid, int socket) : pid_(pid), socket_(socket) {}

  pid_t pid_ = -1;  // -1: none, or waited for
  int socket_ = -1;
  std::string end_ = "has not run";
};

// The folder of the program that runs now.
std::string program_folder();

}  // namespace sparsmith
