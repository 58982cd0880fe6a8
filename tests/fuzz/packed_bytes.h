// A packed weight as the bytes that fuzz targets take, and back.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "formats/packed_weight.h"

namespace sparsmith::fuzz {

std::string packed_to_bytes(const PackedWeight& packed);

// Any bytes are some weight: what they lack is 0, and no array is longer than they are.
PackedWeight packed_from_bytes(std::span<const std::byte> bytes);

// Checks and unpacks the weight that `bytes` stand for, and ends the program where a broken matrix comes out, or where
// checks and unpacking do not agree.
void check_reading(std::span<const std::byte> bytes);

}  // namespace sparsmith::fuzz
