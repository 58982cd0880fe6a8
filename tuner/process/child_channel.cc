#include "tuner/process/child_channel.h"

#include <fmt/format.h>
#include <poll.h>

#include <utility>

namespace sparsmith {
namespace {

// The time for a child to end by itself after its socket is closed.
constexpr std::chrono::milliseconds kFarewell{2000};
// The interval in which a waiting call checks for an interrupt.
constexpr std::chrono::milliseconds kLookForInterrupts{200};

}  // namespace

ChildChannel::ChildChannel(ChildProcess child, std::string name, InterruptedAt interrupted_at)
    : child_(std::move(child)),
      stream_(child_.take_socket()),
      name_(std::move(name)),
      interrupted_at_(std::move(interrupted_at)) {}

ChildChannel::~ChildChannel() {
  {
    const MessageStream closing = std::move(stream_);
  }
  if (alive_) child_.wait(kFarewell);
}

Result<Message> ChildChannel::ask(const OutgoingMessage& request, const std::string& what,
                                  std::chrono::milliseconds timeout, const FrameLimits& limits) {
  if (!alive_) return device_error(fmt::format("{}: {} {} before", what, name_, end_));
  const auto deadline = Clock::now() + timeout;
  // A child may die with the request half read; what it managed to answer tells more than the failed send.
  const Status sent = stream_.send(request, deadline);
  if (!sent.ok() && sent.code() != StatusCode::kIoError) return lost(sent, what, timeout);
  if (!await_answer(deadline)) {
    give_up("was killed after an interrupt");
    return error(what, /*by_machine=*/true);
  }
  Result<Message> message = stream_.receive(deadline, limits);
  if (!message.ok()) return lost(message.status(), what, timeout);
  return message;
}

bool ChildChannel::await_answer(Clock::time_point deadline) const {
  if (!interrupted_at_) return true;  // receive() waits
  while (true) {
    const auto now = Clock::now();
    const auto interrupted = interrupted_at_();
    if (interrupted && now >= *interrupted + kPatienceAfterInterrupt) return false;
    if (now >= deadline) return true;
    pollfd entry{.fd = stream_.socket(), .events = POLLIN, .revents = 0};
    if (poll(&entry, 1, static_cast<int>(kLookForInterrupts.count())) > 0) return true;
  }
}

bool ChildChannel::is_silent() const {
  pollfd entry{.fd = stream_.socket(), .events = POLLIN, .revents = 0};
  return alive_ && poll(&entry, 1, 0) == 0;
}

void ChildChannel::give_up(const std::string& end) {
  alive_ = false;
  end_ = end;
  child_.kill();
  child_.wait(std::chrono::milliseconds(0));
}

Status ChildChannel::refuse_answer(const Status& reason, const std::string& what) {
  give_up(fmt::format("sent what is no reply ({}) and was killed", reason.message()));
  return error(what);
}

Status ChildChannel::lost(const Status& reason, const std::string& what, std::chrono::milliseconds timeout) {
  if (reason.code() == StatusCode::kIoError) {
    alive_ = false;
    end_ = child_.wait(kFarewell);
    return error(what, child_.killed_by_others());
  }
  if (reason.code() != StatusCode::kDeviceError) return refuse_answer(reason, what);
  const bool stopped = child_.is_stopped();
  give_up(fmt::format("{} within {:.3g} s and was killed", stopped ? "was stopped, gave no answer" : "gave no answer",
                      std::chrono::duration<double>(timeout).count()));
  return error(what, stopped);
}

Status ChildChannel::error(const std::string& what, bool by_machine) const {
  std::string message = fmt::format("{}: {} {}", what, name_, end_);
  return by_machine ? io_error(std::move(message)) : device_error(std::move(message));
}

}  // namespace sparsmith
