// A child program's main loop.
#pragma once

#include <functional>
#include <string>

#include "sparsmith/status.h"
#include "tuner/message.h"

namespace sparsmith {

// Hands each message that comes in on `stream` to `answer`, which sends the reply on it, until the other end closes it;
// returns the process's exit code. Ends the process at once when the other end goes away in the middle of a request.
//   name: of the program, in its log
//   answer: an error when its reply could not be sent
int serve_parent(MessageStream& stream, const std::string& name, const std::function<Status(Message)>& answer);

}  // namespace sparsmith
