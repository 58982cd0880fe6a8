// A packed weight as the bytes that fuzz targets take, and back.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "formats/packed_weight.h"
#include "matrix/csr_matrix.h"
#include "sparsmith/status.h"

namespace sparsmith::fuzz {

std::string packed_to_bytes(const PackedWeight& packed);

// Any bytes are some weight: what they lack is 0, and no array is longer than they are.
PackedWeight packed_from_bytes(std::span<const std::byte> bytes);

// Unpacks the weight that `bytes` stand for, and ends the program where a broken matrix comes out.
void check_unpacking(std::span<const std::byte> bytes, Result<CsrMatrix> (*unpack)(const PackedWeight&));

}  // namespace sparsmith::fuzz
