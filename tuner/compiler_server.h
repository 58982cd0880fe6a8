// The compiler program's side of the protocol.
#pragma once

#include <memory>

#include "tuner/kernel_compiler.h"
#include "tuner/message.h"

namespace sparsmith {

// Answers requests that come in on `stream`, one after another, until the other end closes it or dies; returns the
// process's exit code. Where there is no compiler, each is answered with the reason.
int serve_compiler(MessageStream stream, const Result<std::unique_ptr<KernelCompiler>>& compiler);

}  // namespace sparsmith
