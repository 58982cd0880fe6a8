#include "tools/report/results.h"

#include <algorithm>

namespace sparsmith::tools {

double ResultCase::best_peer_us() const {
  if (cublas_us <= 0) return cusparse_us;
  return cusparse_us > 0 ? std::min(cublas_us, cusparse_us) : cublas_us;
}

}  // namespace sparsmith::tools
