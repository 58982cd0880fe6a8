// A child process that answers requests, one at a time, and may be lost over each of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "sparsmith/status.h"
#include "tuner/child_process.h"
#include "tuner/message.h"

namespace sparsmith {

// One thread at a time. The destructor closes the socket, at which a child ends by itself, and kills one that does not.
class ChildChannel {
 public:
  // `name`: what errors call the child, "the worker".
  ChildChannel(ChildProcess child, std::string name);
  ~ChildChannel();

  // Sends a request and waits for what comes back; `what` says in errors what was going on. Error: kDeviceError, where
  // the child is of no more use: "verifying k: the worker died of signal 11 (Segmentation fault)", "... gave no answer
  // within 120 s and was killed".
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
  Status lost(const Status& reason, const std::string& what, std::chrono::milliseconds timeout);
  Status error(const std::string& what) const;

  ChildProcess child_;
  MessageStream stream_;
  std::string name_;
  bool alive_ = true;
  std::string end_;
};

}  // namespace sparsmith
