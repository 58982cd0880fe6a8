// The only hash of the project: 128-bit XXH3, written as 32 hexadecimal digits. It is not cryptographic: it
// distinguishes contents and detects damage, but does not protect against forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace sparsmith {

std::string hash_bytes(std::span<const std::byte> bytes);
std::string hash_text(std::string_view text);
std::uint64_t hash64(std::string_view text);

// hash_bytes() for bytes that arrive in pieces.
class HashStream {
 public:
  HashStream();
  ~HashStream();
  HashStream(const HashStream&) = delete;
  HashStream& operator=(const HashStream&) = delete;

  void add(std::span<const std::byte> bytes);
  std::string text() const;  // of all bytes so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sparsmith
