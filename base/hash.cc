#include "base/hash.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

namespace sparsmith {
namespace {

std::string digits(const XXH128_hash_t& hash) { return fmt::format("{:016x}{:016x}", hash.high64, hash.low64); }

}  // namespace

std::string hash_bytes(std::span<const std::byte> bytes) { return digits(XXH3_128bits(bytes.data(), bytes.size())); }

std::string hash_text(std::string_view text) { return hash_bytes(std::as_bytes(std::span(text))); }

std::uint64_t hash64(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

struct HashStream::State {
  XXH3_state_t state;
};

HashStream::HashStream() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->state); }
HashStream::~HashStream() = default;

void HashStream::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->state, bytes.data(), bytes.size());
}

std::string HashStream::text() const { return digits(XXH3_128bits_digest(&state_->state)); }

}  // namespace sparsmith
