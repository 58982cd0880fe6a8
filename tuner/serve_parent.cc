#include "tuner/serve_parent.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <thread>
#include <utility>

#include "base/log.h"
#include "tuner/child_folder.h"

namespace sparsmith {
namespace {

// Ends the process when the parent has gone, also in the middle of what never ends.
void watch_parent(int socket) {
  pollfd entry{.fd = socket, .events = 0, .revents = 0};
  while (poll(&entry, 1, -1) < 0 || (entry.revents & (POLLHUP | POLLERR)) == 0) {
  }
  remove_own_child_folder();
  if (getpgrp() == getpid()) kill(0, SIGKILL);  // with what it has started
  _exit(0);
}

int leave(int code) {
  remove_own_child_folder();
  return code;
}

}  // namespace

int serve_parent(MessageStream& stream, const std::string& name, const std::function<Status(Message)>& answer) {
  fcntl(stream.socket(), F_SETFD, FD_CLOEXEC);  // what we start must not hold it open behind us
  std::thread(watch_parent, stream.socket()).detach();
  while (true) {
    Result<Message> message = stream.receive();
    if (!message.ok()) {
      if (message.status().code() == StatusCode::kIoError) return leave(0);  // the parent is done
      log_error("{}: {}", name, message.status().to_string());
      return leave(1);
    }
    if (!answer(*std::move(message)).ok()) return leave(0);
  }
}

}  // namespace sparsmith
