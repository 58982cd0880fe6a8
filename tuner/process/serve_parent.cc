#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <thread>
#include <utility>

#include "base/log.h"
#include "tuner/process/child_process.h"
#include "tuner/process/message.h"

namespace sparsmith {
namespace {

// Ends the process when the parent has gone, even during work that never ends.
void watch_parent(int socket) {
  pollfd entry{.fd = socket, .events = 0, .revents = 0};
  while (poll(&entry, 1, -1) < 0 || (entry.revents & (POLLHUP | POLLERR)) == 0) {
  }
  remove_own_child_folder();
  if (getpgrp() == getpid()) kill(0, SIGKILL);  // with what it has started
  _exit(0);
}

}  // namespace

int serve_parent(MessageStream& stream, const std::string& name, const std::function<Status(Message)>& answer) {
  fcntl(stream.socket(), F_SETFD, FD_CLOEXEC);  // what we start must not hold it open behind us
  std::thread(watch_parent, stream.socket()).detach();
  Result<Message> message = stream.receive();
  while (message.ok() && answer(*std::move(message)).ok()) message = stream.receive();
  // The parent is done, or does not take the answer, unless what it sent is no message.
  const bool is_done = message.ok() || message.status().code() == StatusCode::kIoError;
  if (!is_done) log_error("{}: {}", name, message.status().to_string());
  remove_own_child_folder();
  return is_done ? 0 : 1;
}

}  // namespace sparsmith
