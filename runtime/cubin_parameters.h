// The parameters of a kernel as its cubin states them: read from the ELF file, without a driver. Internal.
//
// A launch passes an address per parameter and no sizes: the driver copies as many bytes as the cubin says. So a plan
// is counted against the cubin before it is launched, and a cubin that says nothing is refused.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith {

struct CubinParameters {
  struct Parameter {
    std::int64_t offset = 0;  // bytes from the first parameter
    std::int64_t bytes = 0;
    bool operator==(const Parameter&) const = default;
  };
  std::vector<Parameter> parameters;  // in the order of the kernel's
  std::int64_t max_threads = 0;       // of a block, from __launch_bounds__ or .maxntid; 0: not stated
  bool operator==(const CubinParameters&) const = default;
};

// Reads any bytes: every offset and size is checked against the file. Linear in the file's size.
//   Error: kInvalidInput when the file is no whole ELF file of NVIDIA's, has no kernel of that name, or states its
//   parameters not at all or inconsistently.
Result<CubinParameters> read_cubin_parameters(std::span<const std::byte> cubin, std::string_view kernel);

}  // namespace sparsmith
