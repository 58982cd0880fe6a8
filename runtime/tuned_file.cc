#include "runtime/tuned_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "matrix/safetensors.h"
#include "runtime/plan_check.h"
#include "runtime/tuned_file_json.h"

namespace sparsmith {
namespace {

// Keys of __metadata__.
constexpr const char* kFormatKey = "format";
constexpr const char* kFormat = "sparsmith";
constexpr const char* kDescriptionKey = "sparsmith";
constexpr const char* kHashKey = "sparsmith_hash";  // of the description

SafetensorsPart part_of(std::string name, DataType type, std::span<const std::byte> bytes) {
  return {std::move(name),
          std::string(safetensors_name(type)),
          {static_cast<std::int64_t>(bytes.size() / size_of(type))},
          bytes};
}

// The parts, with large elements first: then each tensor is aligned to its elements.
std::vector<SafetensorsPart> parts_of(const TunedContents& contents) {
  std::vector<SafetensorsPart> parts;
  for (const TunedWeight& weight : contents.weights) {
    for (const TunedPacking& packing : weight.packings) {
      for (const TunedArray& array : packing.arrays) {
        parts.push_back(part_of(packed_tensor_name(weight, packing, array.name), array.type, array.bytes));
      }
    }
  }
  for (const TunedKernel& kernel : contents.kernels) {
    parts.push_back(part_of(source_tensor_name(kernel), DataType::kUint8, std::as_bytes(std::span(kernel.source))));
    for (const TunedKernel::Binary& binary : kernel.binaries) {
      parts.push_back(part_of(cubin_tensor_name(kernel, binary.architecture), DataType::kUint8, binary.cubin));
    }
  }
  std::ranges::stable_sort(parts, std::greater<>(), [](const SafetensorsPart& part) {
    return size_of(*data_type_from_safetensors_name(part.dtype));
  });
  return parts;
}

// The tensors of a file. Each must be requested exactly once.
class TensorTable {
 public:
  TensorTable(std::span<const std::byte> file, const SafetensorsHeader& header) : file_(file) {
    for (const SafetensorsEntry& entry : header.tensors) entries_.emplace(entry.name, &entry);
  }

  Result<std::span<const std::byte>> take(const std::string& name, DataType type, const std::string& hash) {
    const auto found = entries_.find(name);
    if (found == entries_.end()) return invalid_input(fmt::format("tensor {} is missing, or is used twice", name));
    const SafetensorsEntry& entry = *found->second;
    entries_.erase(found);
    const std::span<const std::byte> bytes = file_.subspan(entry.begin, entry.end - entry.begin);
    if (entry.dtype != safetensors_name(type) || bytes.size() % size_of(type) != 0) {
      return invalid_input(fmt::format("tensor {} is of type {}, not {}", name, entry.dtype, safetensors_name(type)));
    }
    if (entry.begin % size_of(type) != 0) {
      return invalid_input(fmt::format("tensor {} begins in the middle of an element", name));
    }
    if (hash_bytes(bytes) != hash) return invalid_input(fmt::format("tensor {} is damaged: its hash differs", name));
    return bytes;
  }

  Status check_all_taken() const {
    if (entries_.empty()) return {};
    return invalid_input(fmt::format("tensor {} belongs to nothing", entries_.begin()->first));
  }

 private:
  std::span<const std::byte> file_;
  std::unordered_map<std::string, const SafetensorsEntry*> entries_;
};

// Checks that the packed arrays hold the described weights, and that no kernel accesses memory outside of them.
Status check_packed_arrays(const TunedContents& contents, int threads) {
  if (threads <= 0) threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (const TunedWeight& weight : contents.weights) {
    const PackedClaim claim{weight.nnz, weight.pattern_hash, weight.value_hash};
    for (const TunedPacking& packing : weight.packings) {
      const Status status = check_packed(view_of(weight, packing), claim, PackedCheck::kContents, threads);
      if (!status.ok()) return invalid_input(status.message()).annotate("weight " + weight.name);
    }
  }
  return {};
}

// The memory limit of a description is this plus the size of the file, which mostly holds weights.
constexpr std::size_t kDescriptionBytes = std::size_t{16} << 20;

Result<TunedContents> parse_contents(std::span<const std::byte> file, const LoadOptions& options) {
  SPARSMITH_ASSIGN_OR_RETURN(const SafetensorsHeader header, parse_safetensors_header(file));
  const auto metadata = [&header](const char* key) -> const std::string* {
    const auto found = header.metadata.find(key);
    return found == header.metadata.end() ? nullptr : &found->second;
  };
  const std::string* description = metadata(kDescriptionKey);
  if (description == nullptr || metadata(kFormatKey) == nullptr || *metadata(kFormatKey) != kFormat) {
    return invalid_input("a safetensors file, but no tuned one: make one with `sparsmith tune`");
  }
  if (metadata(kHashKey) == nullptr || *metadata(kHashKey) != hash_text(*description) || header.metadata.size() != 3) {
    return invalid_input("its description is damaged: its hash differs");
  }
  TensorTable table(file, header);
  SPARSMITH_ASSIGN_OR_RETURN(TunedContents contents,
                             tuned_contents_from_json(*description, std::bind_front(&TensorTable::take, &table),
                                                      kDescriptionBytes + file.size()));
  SPARSMITH_RETURN_IF_ERROR(table.check_all_taken());
  SPARSMITH_RETURN_IF_ERROR(contents.validate());
  SPARSMITH_RETURN_IF_ERROR(check_plans(contents));
  if (!options.trusted) SPARSMITH_RETURN_IF_ERROR(check_packed_arrays(contents, options.threads));
  return contents;
}

}  // namespace

Result<TunedFile> TunedFile::open(const std::string& path, const LoadOptions& options) {
  SPARSMITH_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  Result<TunedContents> contents = parse_contents(file.bytes(), options);
  if (!contents.ok()) return contents.status().annotate(path);
  return TunedFile(std::move(file), std::move(contents).value());
}

Result<TunedFile> TunedFile::parse(std::span<const std::byte> bytes, const LoadOptions& options) {
  constexpr std::uintptr_t kAlignment = 8;  // of the largest element
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % kAlignment != 0)
    return invalid_argument(fmt::format("the file's bytes are not aligned to {}", kAlignment));
  SPARSMITH_ASSIGN_OR_RETURN(TunedContents contents, parse_contents(bytes, options));
  return TunedFile(std::nullopt, std::move(contents));
}

Status write_tuned_file(const std::string& path, const TunedContents& contents) {
  Status status = contents.validate();
  if (status.ok()) status = check_plans(contents);
  if (!status.ok()) return status.annotate(path);
  const std::string description = tuned_contents_to_json(contents);
  return write_safetensors(path, parts_of(contents),
                           {{kFormatKey, kFormat}, {kDescriptionKey, description}, {kHashKey, hash_text(description)}});
}

}  // namespace sparsmith
