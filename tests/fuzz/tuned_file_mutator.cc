#include "tests/fuzz/tuned_file_mutator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <map>
#include <span>

#include "base/hash.h"
#include "formats/packed_format.h"
#include "matrix/safetensors.h"
#include "sparsmith/data_type.h"

namespace sparsmith::fuzz {
namespace {

using Random = std::mt19937_64;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

template <class Items>
const auto& one_of(const Items& items, Random& random) {
  return items[random() % std::size(items)];
}

TunedFileParts::Tensor* find(TunedFileParts& parts, const std::string& name) {
  const auto found = std::ranges::find(parts.tensors, name, &TunedFileParts::Tensor::name);
  return found == parts.tensors.end() ? nullptr : &*found;
}

// Members and elements of any tree, whatever has become of it: nothing where they are not there.
std::vector<Json*> list(Json& json, const char* key) {
  std::vector<Json*> items;
  if (!json.is_object() || !json.contains(key) || !json[key].is_array()) return items;
  for (Json& item : json[key]) items.push_back(&item);
  return items;
}
std::string text(const Json& json, const char* key) {
  return json.is_object() && json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
}
std::int64_t integer(const Json& json, const char* key) {
  return json.is_object() && json.contains(key) && json[key].is_number_integer() ? json[key].get<std::int64_t>() : 0;
}

void repair_hash(TunedFileParts& parts, Json& json, const char* key, const std::string& tensor) {
  if (const auto* found = find(parts, tensor); found != nullptr && json.is_object() && json.contains(key))
    json[key] = hash_bytes(bytes_of(found->bytes));
}

void repair_tensor_hashes(TunedFileParts& parts) {
  for (Json* weight : list(parts.description, "weights")) {
    for (Json* packing : list(*weight, "packings")) {
      const std::string prefix = "packed/" + text(*weight, "name") + "/" + text(*packing, "packing") + "/";
      for (Json* array : list(*packing, "arrays")) repair_hash(parts, *array, "hash", prefix + text(*array, "name"));
    }
  }
  for (Json* kernel : list(parts.description, "kernels")) {
    const std::string name = text(*kernel, "name");
    repair_hash(parts, *kernel, "source_hash", "source/" + name);
    for (Json* binary : list(*kernel, "binaries"))
      repair_hash(parts, *binary, "hash", "cubin/" + name + "/" + text(*binary, "architecture"));
  }
}

std::size_t element_bytes(const std::string& dtype) {
  const std::size_t digits = dtype.find_first_of("0123456789");
  return digits == std::string::npos ? 1 : std::max<std::size_t>(std::stoul(dtype.substr(digits)) / 8, 1);
}

// ---- bytes ----

void alter_bytes(std::string& bytes, std::size_t element, Random& random) {
  const std::size_t count = std::max<std::size_t>(bytes.size() / element, 1);
  element = std::min(element, bytes.size());
  char* const at = bytes.data() + random() % count * element;
  std::uint64_t value = 0;
  std::memcpy(&value, at, element);
  switch (random() % 6) {
    case 0: value ^= std::uint64_t{1} << random() % (8 * element); break;
    case 1: value = random(); break;
    case 2: value += random() % 2 == 0 ? 1 : ~std::uint64_t{0}; break;
    case 3:
      value = one_of(std::array<std::uint64_t, 5>{0, ~std::uint64_t{0}, 0x8000, 0x7FFFFFFF, 0x80000000}, random);
      break;
    default: {  // another element's value, or an exchange of the two
      char* const other = bytes.data() + random() % count * element;
      std::uint64_t there = 0;
      std::memcpy(&there, other, element);
      if (random() % 2 == 0) std::memcpy(other, &value, element);
      value = there;
    }
  }
  std::memcpy(at, &value, element);
}

// ---- JSON ----

struct Place {
  Json* parent;
  Json* value;
};

void collect(Json& json, std::vector<Place>& places) {
  if (!json.is_structured()) return;
  for (Json& child : json) {
    places.push_back({&json, &child});
    collect(child, places);
  }
}

Json edge_number(const Json& old, Random& random) {
  static const std::array<std::int64_t, 22> kEdges = {0,
                                                      1,
                                                      -1,
                                                      2,
                                                      3,
                                                      7,
                                                      31,
                                                      64,
                                                      255,
                                                      1024,
                                                      65535,
                                                      65536,
                                                      2147483647,
                                                      2147483648,
                                                      4294967295,
                                                      4294967296,
                                                      std::int64_t{1} << 40,
                                                      std::int64_t{1} << 62,
                                                      INT64_MAX - 255,
                                                      INT64_MAX,
                                                      INT64_MIN,
                                                      -256};
  switch (random() % 6) {
    case 0: return old.is_number_integer() ? Json(static_cast<std::int64_t>(old.get<std::uint64_t>() + 1)) : Json(0.5);
    case 1:
      return old.is_number_integer() ? Json(static_cast<std::int64_t>(old.get<std::uint64_t>() - 1)) : Json(1e308);
    case 2: return random() % 8 == 0 ? Json(UINT64_MAX) : Json(static_cast<std::int64_t>(random()));
    default: return one_of(kEdges, random);
  }
}

Json other_text(const std::string& old, const std::vector<Place>& places, Random& random) {
  static const std::array<const char*, 23> kTexts = {"n",
                                                     "n * 2",
                                                     "n + 1",
                                                     "n - 1",
                                                     "0 - n",
                                                     "ld.x",
                                                     "ld.y * n",
                                                     "fact.places",
                                                     "fact.segments",
                                                     "n * n * n * n * n",
                                                     "ceil_div(n, 0)",
                                                     "n % 3",
                                                     "n * 4611686018427387904",
                                                     "9223372036854775807",
                                                     "max(n, 1048576)",
                                                     "min(n, 1)",
                                                     "dense",
                                                     "fp16",
                                                     "bf16",
                                                     "feature_major",
                                                     "bias+relu",
                                                     "",
                                                     "x"};
  switch (random() % 4) {
    case 0: return one_of(kTexts, random);
    case 1: return "(" + old + ") * 2";
    case 2: return "(" + old + ") + " + std::to_string(random() % 300);
    default: {
      const Json& other = *one_of(places, random).value;
      return other.is_string() ? other : Json(old + "0");
    }
  }
}

// Drops, repeats or exchanges members or elements.
void alter_structure(Json& parent, Random& random) {
  const std::size_t at = random() % parent.size();
  const std::size_t other = random() % parent.size();
  const auto nth = [&parent](std::size_t i) { return std::next(parent.begin(), static_cast<std::ptrdiff_t>(i)); };
  switch (random() % 4) {
    case 0: parent.erase(nth(at)); break;
    case 1: std::swap(*nth(at), *nth(other)); break;
    case 2:
      if (parent.is_array()) parent.push_back(Json(*nth(at)));
      break;
    default: *nth(at) = Json(*nth(other));
  }
}

void alter_json(Json& description, Random& random) {
  std::vector<Place> places;
  Json* root = &description;
  // Plans have most of what can do harm.
  if (random() % 2 == 0) {
    std::vector<Json*> runs;  // choices, and a writer now and then
    for (Json* op : list(description, "operators")) std::ranges::copy(list(*op, "choices"), std::back_inserter(runs));
    for (Json* weight : list(description, "weights"))
      for (Json* packing : list(*weight, "packings"))
        if (random() % 4 == 0) std::ranges::copy(list(*packing, "writers"), std::back_inserter(runs));
    if (!runs.empty()) root = one_of(runs, random);
    if (root->is_object() && root->contains("plan") && random() % 4 != 0) root = &(*root)["plan"];
  }
  collect(*root, places);
  if (places.empty()) return;
  const Place place = one_of(places, random);
  Json& value = *place.value;
  switch (random() % 16) {
    case 0: alter_structure(*place.parent, random); return;
    case 1: value = Json(*one_of(places, random).value); return;
    case 2:
      for (std::uint64_t depth = random() % 40; depth > 0; --depth) value = Json::array({std::move(value)});
      return;
    case 3:
      value = one_of(std::array<Json, 4>{Json(nullptr), Json(true), Json::array(), Json::object()}, random);
      return;
    default: break;
  }
  if (value.is_number()) {
    value = random() % 8 == 0 ? Json("n") : edge_number(value, random);
  } else if (value.is_string()) {
    value = other_text(value.get<std::string>(), places, random);
  } else if (value.is_boolean()) {
    value = !value.get<bool>();
  } else if (!value.empty()) {
    alter_structure(value, random);
  }
}

// ---- hashes of weights ----

PackedWeight packed_of(TunedFileParts& parts, Json& weight, Json& packing) {
  PackedWeight packed;
  packed.packing = text(packing, "packing");
  packed.packer_version = static_cast<int>(integer(packing, "packer_version"));
  packed.rows = integer(weight, "rows");
  packed.cols = integer(weight, "cols");
  packed.nnz = integer(weight, "nnz");
  packed.value_type = data_type_from_short_name(text(weight, "type")).value_or(DataType::kFloat32);
  if (packing.contains("facts") && packing["facts"].is_object())
    for (const auto& fact : packing["facts"].items())
      if (fact.value().is_number_integer()) packed.facts[fact.key()] = fact.value().get<std::int64_t>();
  for (Json* array : list(packing, "arrays")) {
    const std::string name = text(*array, "name");
    const auto* tensor = find(parts, "packed/" + text(weight, "name") + "/" + packed.packing + "/" + name);
    const auto type = data_type_from_short_name(text(*array, "type"));
    if (tensor == nullptr || !type || tensor->bytes.size() % size_of(*type) != 0) continue;
    const auto bytes = bytes_of(tensor->bytes);
    packed.arrays.push_back({name, *type, {bytes.begin(), bytes.end()}});
  }
  return packed;
}

}  // namespace

std::optional<TunedFileParts> take_apart(std::string_view file) {
  const auto header = parse_safetensors_header(bytes_of(file));
  if (!header.ok()) return std::nullopt;
  const auto description = header->metadata.find("sparsmith");
  if (description == header->metadata.end()) return std::nullopt;
  TunedFileParts parts;
  parts.description = Json::parse(description->second, nullptr, /*allow_exceptions=*/false);
  if (parts.description.is_discarded()) return std::nullopt;
  for (const SafetensorsEntry& entry : header->tensors)
    parts.tensors.push_back({entry.name, entry.dtype, std::string(file.substr(entry.begin, entry.end - entry.begin))});
  return parts;
}

std::string put_together(TunedFileParts parts) {
  repair_tensor_hashes(parts);
  const std::string description = parts.description.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::vector<SafetensorsPart> list_of_parts;
  for (const TunedFileParts::Tensor& tensor : parts.tensors) {
    const auto elements = static_cast<std::int64_t>(tensor.bytes.size() / element_bytes(tensor.dtype));
    list_of_parts.push_back({tensor.name, tensor.dtype, {elements}, bytes_of(tensor.bytes)});
  }
  auto file = safetensors_header_bytes(
      list_of_parts, {{"format", "sparsmith"}, {"sparsmith", description}, {"sparsmith_hash", hash_text(description)}});
  if (!file.ok()) return {};
  for (const TunedFileParts::Tensor& tensor : parts.tensors) *file += tensor.bytes;
  return *std::move(file);
}

bool alter_contents(TunedFileParts& parts, std::mt19937_64& random) {
  std::vector<TunedFileParts::Tensor*> packed;
  for (TunedFileParts::Tensor& tensor : parts.tensors)
    if (tensor.name.starts_with("packed/") && !tensor.bytes.empty()) packed.push_back(&tensor);
  if (packed.empty()) return false;
  TunedFileParts::Tensor& tensor = *one_of(packed, random);
  const std::string before = tensor.bytes;
  for (std::uint64_t edits = 1 + random() % 3; edits > 0; --edits)
    alter_bytes(tensor.bytes, random() % 4 == 0 ? 1 : element_bytes(tensor.dtype), random);
  return tensor.bytes != before;
}

bool alter_anything(TunedFileParts& parts, std::mt19937_64& random) {
  const Json before = parts.description;
  for (std::uint64_t edits = 1 + random() % 3; edits > 0; --edits) alter_json(parts.description, random);
  bool changed = parts.description != before;
  if (random() % 8 == 0) changed = alter_contents(parts, random) || changed;
  if (random() % 8 == 0) {
    for (TunedFileParts::Tensor& tensor : parts.tensors) {
      if (!tensor.name.starts_with("cubin/") || tensor.bytes.empty() || random() % 2 == 0) continue;
      alter_bytes(tensor.bytes, 1, random);
      changed = true;
    }
  }
  return changed;
}

void repair_weights(TunedFileParts& parts) {
  for (Json* weight : list(parts.description, "weights")) {
    for (Json* packing : list(*weight, "packings")) {
      const Result<CsrMatrix> matrix = unpack(packed_of(parts, *weight, *packing));
      if (!matrix.ok()) continue;
      (*weight)["nnz"] = matrix->nnz();
      (*weight)["pattern_hash"] = matrix->pattern_hash();
      (*weight)["value_hash"] = matrix->value_hash();
      break;
    }
  }
}

}  // namespace sparsmith::fuzz
