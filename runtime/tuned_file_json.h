// The text part of a tuned file: everything except arrays, cubins and sources. The text has their names and hashes.
// Internal.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/tuned_file.h"

namespace sparsmith {

// Names of the tensors. A weight's name may hold any character, so these names are never parsed.
std::string packed_tensor_name(const TunedWeight& weight, const TunedPacking& packing, std::string_view array);
std::string cubin_tensor_name(const TunedKernel& kernel, std::string_view architecture);
std::string source_tensor_name(const TunedKernel& kernel);

std::string tuned_contents_to_json(const TunedContents& contents);

// Finds the bytes of a tensor, and checks its type and hash.
using TensorBytes = std::function<Result<std::span<const std::byte>>(const std::string& tensor, DataType type,
                                                                     const std::string& hash)>;

// The contents that `text` describes, with bytes from `tensors`. Errors: kInvalidInput, which names the wrong value;
// also when the text's tree or the plans would take more than about `memory_bytes`.
Result<TunedContents> tuned_contents_from_json(std::string_view text, const TensorBytes& tensors,
                                               std::size_t memory_bytes = std::size_t{256} << 20);

}  // namespace sparsmith
