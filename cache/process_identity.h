// Tells whether the process that wrote a row is still there.
#pragma once

#include <cstdint>
#include <string>

namespace sparsmith {

struct ProcessIdentity {
  std::string host;  // host name, boot and process-id namespace: where the number below means something
  std::int64_t pid = 0;
  std::int64_t start_time = 0;  // in clock ticks after boot: process numbers are reused, pairs are not

  static ProcessIdentity current();

  // REQUIRES: this->host is that of the calling process.
  bool alive() const;
};

}  // namespace sparsmith
