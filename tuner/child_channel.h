// A child process that answers requests, one at a time, and may be lost over each of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "sparsmith/status.h"
#include "tuner/child_process.h"
#include "tuner/message.h"

namespace sparsmith {

// One thread at a time. The destructor closes the socket, at which a child ends by itself, and kills one that does not.
class ChildChannel {
 public:
  // When the user asked for an end; nothing while nobody has. May be empty.
  using InterruptedAt = std::function<std::optional<std::chrono::steady_clock::time_point>()>;
  // What the work at hand may take then, before its child is killed.
  static constexpr std::chrono::seconds kPatienceAfterInterrupt{10};

  // `name`: what errors call the child, "the worker".
  ChildChannel(ChildProcess child, std::string name, InterruptedAt interrupted_at = {});
  ~ChildChannel();

  // Sends a request and waits for what comes back; `what` says in errors what was going on. Errors, where the child is
  // of no more use: kDeviceError, "verifying k: the worker died of signal 11 (Segmentation fault)", "... gave no answer
  // within 120 s and was killed"; kIoError when others have killed or stopped it, or an interrupt: "... the worker was
  // killed".
  Result<Message> ask(const OutgoingMessage& request, const std::string& what, std::chrono::milliseconds timeout,
                      const FrameLimits& limits);

  // Kills a child that answered and is of no more use; `end` is what errors say of it from now on ("lost its device").
  void give_up(const std::string& end);
  // The same for an answer that makes no sense; the error.
  Status refuse_answer(const Status& reason, const std::string& what);

  bool alive() const { return alive_; }
  // Whether a child that owes no answer is there and silent; one that is not has ended, or soon will.
  bool is_silent() const;
  std::int64_t resident_bytes() const { return child_.resident_bytes(); }

 private:
  using Clock = MessageStream::Clock;
  // Until an answer begins to come, `deadline`, or an interrupt's patience is over; false in the last case.
  bool await_answer(Clock::time_point deadline) const;
  Status lost(const Status& reason, const std::string& what, std::chrono::milliseconds timeout);
  Status error(const std::string& what) const;

  ChildProcess child_;
  MessageStream stream_;
  std::string name_;
  InterruptedAt interrupted_at_;
  bool alive_ = true;
  std::string end_;
};

}  // namespace sparsmith
