// A child process that answers one request at a time. Each request may crash it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "sparsmith/status.h"
#include "tuner/process/child_process.h"
#include "tuner/process/message.h"

namespace sparsmith {

// One thread at a time. The destructor closes the socket: a child then ends by itself. The destructor kills a child
// that does not end.
class ChildChannel {
 public:
  // The time of the user's interrupt, or no value before it. The function may be empty.
  using InterruptedAt = std::function<std::optional<std::chrono::steady_clock::time_point>()>;
  // The time from an interrupt until the child at work is killed.
  static constexpr std::chrono::seconds kPatienceAfterInterrupt{10};

  // `name`: the name of the child in errors, "the worker".
  ChildChannel(ChildProcess child, std::string name, InterruptedAt interrupted_at = {});
  ~ChildChannel();

  // Sends a request and waits for the answer. `what` describes the work in errors. After an error the child is gone.
  // Errors: kDeviceError, "verifying k: the worker died of signal 11 (Segmentation fault)", "... gave no answer within
  // 120 s and was killed"; kIoError when an interrupt or another process has killed or stopped the child: "... the
  // worker was killed".
  Result<Message> ask(const OutgoingMessage& request, const std::string& what, std::chrono::milliseconds timeout,
                      const FrameLimits& limits);

  // Kills a child that answered but cannot work on. Later errors contain `end` ("lost its device").
  void give_up(const std::string& end);
  // The same for an answer that cannot be read. Returns the error.
  Status refuse_answer(const Status& reason, const std::string& what);

  bool alive() const { return alive_; }
  // Whether a child without a pending request is alive and sends nothing. Otherwise the child has ended or will soon
  // end.
  bool is_silent() const;
  std::int64_t resident_bytes() const { return child_.resident_bytes(); }

 private:
  using Clock = MessageStream::Clock;
  // Waits until an answer begins to arrive, until `deadline`, or until kPatienceAfterInterrupt is over. Returns false
  // in the last case.
  bool await_answer(Clock::time_point deadline) const;
  Status lost(const Status& reason, const std::string& what, std::chrono::milliseconds timeout);
  // An error with the way the child ended. `by_machine`: another process ended or stopped it.
  Status error(const std::string& what, bool by_machine = false) const;

  ChildProcess child_;
  MessageStream stream_;
  std::string name_;
  InterruptedAt interrupted_at_;
  bool alive_ = true;
  std::string end_;
};

}  // namespace sparsmith
