// Something on a GPU whose time is taken: a candidate's launch plan, or a call of a vendor library.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "sparsmith/status.h"

namespace sparsmith {

// One thread at a time, with the GPU's context current.
class TimedWork {
 public:
  virtual ~TimedWork() = default;

  // What one copy of the weight takes.
  virtual std::int64_t weight_bytes() const = 0;
  // What a launch reads of it.
  virtual std::int64_t read_bytes() const { return weight_bytes(); }
  // Graph nodes of one launch, at most.
  virtual int nodes() const = 0;
  // Makes copies of the weight until there are `count`, the first included. Other calls of this work may use them.
  virtual Status make_copies(int count) = 0;
  // Puts one launch that reads copy `copy` on `stream`, and does not wait. The stream may be captured.
  virtual Status enqueue(CUstream stream, int copy) = 0;
};

}  // namespace sparsmith
