// The safetensors container: a JSON header that names tensors, and then their bytes. This layer does not know weights:
// it reads any tensor type and writes any bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // as in the file: "F16", "I64", ...
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // the tensor's bytes are [begin, end) of the file
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;        // in the order of their bytes
  std::map<std::string, std::string> metadata;  // __metadata__
};

// Parses and checks the header in a whole file's bytes. The header's length must be inside of the file, names must be
// unique, each tensor's size must fit its type and shape, and the tensors must fill the file without overlap or hole.
//   Errors: kInvalidInput with the tensor and the reason.
Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> file);

// A tensor to write. `bytes` must outlive the call.
struct SafetensorsPart {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

// Writes a file for parse_safetensors_header, completely or not at all. A tensor starts at a multiple of eight bytes
// when the sizes of all tensors before it are multiples of eight: put the tensors with large elements first.
//   Errors: kInvalidArgument when two parts share a name; kIoError.
Status write_safetensors(const std::string& path, std::span<const SafetensorsPart> parts,
                         const std::map<std::string, std::string>& metadata);

// The bytes that write_safetensors puts before the first tensor.
Result<std::string> safetensors_header_bytes(std::span<const SafetensorsPart> parts,
                                             const std::map<std::string, std::string>& metadata);

}  // namespace sparsmith
