#include "tuner/serve_parent.h"

#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <thread>
#include <utility>

#include "base/log.h"

namespace sparsmith {
namespace {

// Ends the process when the parent has gone, also in the middle of what never ends.
void watch_parent(int socket) {
  pollfd entry{.fd = socket, .events = 0, .revents = 0};
  while (poll(&entry, 1, -1) < 0 || (entry.revents & (POLLHUP | POLLERR)) == 0) {
  }
  _exit(0);
}

}  // namespace

int serve_parent(MessageStream& stream, const std::string& name, const std::function<Status(Message)>& answer) {
  // Ctrl-C reaches every process of the terminal, and what ends a job all of its processes; but both are meant for the
  // parent, which ends us by closing the stream.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
  std::thread(watch_parent, stream.socket()).detach();
  while (true) {
    Result<Message> message = stream.receive();
    if (!message.ok()) {
      if (message.status().code() == StatusCode::kIoError) return 0;  // the parent is done
      log_error("{}: {}", name, message.status().to_string());
      return 1;
    }
    if (!answer(*std::move(message)).ok()) return 0;
  }
}

}  // namespace sparsmith
