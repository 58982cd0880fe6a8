// The parameters of a kernel as its cubin states them: read from the ELF file, without a driver. Internal.
//
// A launch passes one address for each parameter and no sizes. The driver copies as many bytes as the cubin states. So
// a plan's arguments are compared with the cubin before a launch. A cubin without these statements is refused.
#pragma once

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
  std::vector<Parameter> parameters;  // in the order of the kernel's parameters
  std::int64_t max_threads = 0;       // per block, from __launch_bounds__ or .maxntid; 0: not stated
  bool operator==(const CubinParameters&) const = default;
};

// Safe for any bytes: every offset and size is checked against the file. Takes time linear in the file's size.
//   Error: kInvalidInput when the file is not a complete NVIDIA ELF file, has no kernel of that name, or does not state
//   its parameters or states them inconsistently.
Result<CubinParameters> read_cubin_parameters(std::span<const std::byte> cubin, std::string_view kernel);

}  // namespace sparsmith
