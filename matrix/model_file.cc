#include "matrix/model_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.h"
#include "matrix/matrix_market.h"
#include "matrix/npy.h"
#include "matrix/npz.h"
#include "matrix/safetensors.h"
#include "matrix/smtx.h"

namespace sparsmith {
namespace {

namespace fs = std::filesystem;

// Of a tensor of at least one dimension that has elements.
TensorInfo info_of(const SafetensorsEntry& entry) {
  TensorInfo info{entry.name, entry.shape, entry.shape[0], 1, *data_type_from_safetensors_name(entry.dtype)};
  for (std::size_t i = 1; i < entry.shape.size(); ++i) info.cols *= entry.shape[i];
  return info;
}

// Why a tensor can be no weight; none when it can.
std::optional<std::string> reason_to_skip(const SafetensorsEntry& entry) {
  const std::optional<DataType> type = data_type_from_safetensors_name(entry.dtype);
  if (type != DataType::kFloat32 && type != DataType::kFloat16 && type != DataType::kBFloat16) {
    return fmt::format("its type is {}; weights are F32, F16 or BF16", entry.dtype);
  }
  if (entry.shape.size() != 2 && entry.shape.size() != 4) {
    return fmt::format("it has {} dimension{}; weights have 2, or 4 as convolutions", entry.shape.size(),
                       entry.shape.size() == 1 ? "" : "s");
  }
  if (entry.begin == entry.end) return "it has no elements";
  const TensorInfo info = info_of(entry);
  if (info.rows > kMaxMatrixDimension || info.cols > kMaxMatrixDimension) {
    return fmt::format("it has more than {} rows or columns", kMaxMatrixDimension);
  }
  return std::nullopt;
}

constexpr const char* kPickle =
    "PyTorch pickles are not read, since loading one can run code; save the model as safetensors: "
    "model.save_pretrained(folder), or safetensors.torch.save_file(state_dict, file)";

bool named_as_pickle(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".bin" || extension == ".pt" || extension == ".pth" || extension == ".ckpt";
}

// Pickles are in a zip file, or, of old, bare: the first byte is the opcode of their protocol.
bool is_pickle(const MappedFile& file) {
  return named_as_pickle(file.path()) && (file.text().starts_with("PK\x03\x04") || file.text().starts_with('\x80'));
}

// The format, from the extension where it is a known one, else from the first bytes.
std::string detect_format(const MappedFile& file) {
  const std::string extension = fs::path(file.path()).extension().string();
  for (const char* known : {"safetensors", "smtx", "mtx", "npz", "npy", "json"}) {
    if (extension == fmt::format(".{}", known)) return known;
  }
  const std::string_view text = file.text();
  if (text.starts_with("%%MatrixMarket")) return "mtx";
  if (text.starts_with("PK\3\4")) return "npz";
  if (text.starts_with("\x93NUMPY")) return "npy";
  if (text.size() > 8 && text[8] == '{') return "safetensors";
  if (!text.empty() && (text[0] == '%' || (text[0] >= '0' && text[0] <= '9'))) return "smtx";
  return "";
}

// The file that `path` stands for.
Result<std::string> weights_file(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  for (const char* name : {"model.safetensors.index.json", "model.safetensors"})
    if (const fs::path file = fs::path(path) / name; fs::exists(file, error)) return file.string();
  std::vector<std::string> found;
  bool pickled = false;
  for (fs::directory_iterator entry(path, error); !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".safetensors") found.push_back(entry->path().string());
    pickled |= named_as_pickle(entry->path());
  }
  if (error) return io_error(fmt::format("{}: {}", path, error.message()));
  if (found.size() == 1) return found.front();
  if (found.empty() && pickled) return invalid_input(fmt::format("{}: {}", path, kPickle));
  return invalid_input(
      fmt::format("{}: a folder with {} .safetensors files and no model.safetensors.index.json; name the file to read",
                  path, found.empty() ? "no" : std::to_string(found.size())));
}

// Names of tensors by shard.
using ShardIndex = std::map<std::string, std::set<std::string>>;

// Error: when the text is no index.
Result<ShardIndex> parse_shard_index(std::string_view text) {
  const auto parsed = parse_json(text);
  if (!parsed.ok()) return parsed.status().annotate("no index of safetensors shards");
  const nlohmann::json& json = *parsed;
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    return invalid_input("no index of safetensors shards: a JSON object with 'weight_map' is expected");
  }
  ShardIndex shards;
  for (const auto& [name, shard] : json["weight_map"].items()) {
    if (!shard.is_string()) return invalid_input(fmt::format("'weight_map': the shard of '{}' must be a string", name));
    const std::string file = shard.get<std::string>();
    if (file.empty() || file == ".." || file.find('/') != std::string::npos || file.find('\0') != std::string::npos) {
      return invalid_input(
          fmt::format("'weight_map': the shard '{}' of '{}' must be a file beside the index", file, name));
    }
    shards[file].insert(name);
  }
  return shards;
}

// Of the matrix that a file is.
std::string name_of_matrix(const std::string& path) { return fs::path(path).stem().string(); }

// A shard stands beside the index.
std::string shard_path(const std::string& index, const std::string& shard) {
  return (fs::path(index).parent_path() / shard).string();
}

}  // namespace

std::vector<std::string> files_of_model(const std::string& path) {
  const auto file = weights_file(path);
  std::vector<std::string> files = {file.ok() ? *file : path};
  if (!files[0].ends_with(".json")) return files;
  const auto index = MappedFile::open(files[0]);
  if (!index.ok()) return files;
  const auto shards = parse_shard_index(index->text());
  if (!shards.ok()) return files;
  for (const auto& [shard, names] : *shards) files.push_back(shard_path(*file, shard));
  return files;
}

Result<ModelFile> ModelFile::open(const std::string& path, const ModelFileOptions& options) {
  ModelFile model;
  SPARSMITH_ASSIGN_OR_RETURN(model.path_, weights_file(path));
  SPARSMITH_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::open(model.path_));
  const auto file = std::make_shared<const MappedFile>(std::move(mapped));
  model.max_memory_ = options.max_memory > 0 ? options.max_memory : default_max_memory();
  model.format_ = detect_format(*file);
  const std::string format = model.format_;
  Status status = invalid_input(
      "unknown format; expected safetensors (or the .json index of its shards), .smtx, .mtx, .npz or .npy");
  const bool pickled = is_pickle(*file);
  if (pickled) status = invalid_input(kPickle);
  if (format == "safetensors") status = model.open_safetensors(file);
  if (format == "json") status = model.open_safetensors_index(*file);
  if (format == "smtx") status = model.add_matrix(parse_smtx(file->text(), options.seed, model.max_memory_));
  if (format == "mtx") status = model.add_matrix(parse_matrix_market(file->text(), options.seed, model.max_memory_));
  if (format == "npz" && !pickled) status = model.add_matrix(parse_npz(file->bytes(), model.max_memory_));
  if (format == "npy") status = model.open_npy(file);
  if (status.code() == StatusCode::kUnsupported) status = invalid_input(status.message());
  if (!status.ok()) return status.annotate(model.path_);
  return model;
}

Status ModelFile::open_safetensors(const std::shared_ptr<const MappedFile>& file) {
  std::vector<SafetensorsHeader> headers(1);
  SPARSMITH_ASSIGN_OR_RETURN(headers[0], parse_safetensors_header(file->bytes()));
  const std::vector<SafetensorsEntry>& entries = headers[0].tensors;
  const auto skipped = std::ranges::count_if(entries, [](const auto& entry) { return !!reason_to_skip(entry); });
  skipped_.reserve(skipped);
  tensors_.reserve(entries.size() - skipped);
  sources_.reserve(entries.size() - skipped);
  return add_tensors({file}, headers);
}

Status ModelFile::add_tensors(const Files& files, const std::vector<SafetensorsHeader>& headers) {
  const std::map<std::string_view, BitmaskTensors> compressed = find_bitmask_tensors(headers);
  std::set<std::string_view> added;
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (const SafetensorsEntry& entry : headers[i].tensors) {
      const auto part = bitmask_part(entry.name);
      const auto found = part ? compressed.find(part->first) : compressed.end();
      if (found == compressed.end()) {
        add_tensor(entry, reason_to_skip(entry), {.file = files[i], .offset = entry.begin});
      } else if (added.insert(found->first).second) {
        SPARSMITH_RETURN_IF_ERROR(add_bitmask(files, found->first, found->second));
      }
    }
  }
  return {};
}

Status ModelFile::add_bitmask(const Files& files, std::string_view module, const BitmaskTensors& tensors) {
  std::vector<std::span<const std::byte>> bytes;
  for (const std::shared_ptr<const MappedFile>& file : files) bytes.push_back(file->bytes());
  SPARSMITH_ASSIGN_OR_RETURN(const BitmaskMatrix matrix, bitmask_matrix(module, tensors, bytes));
  Files of_parts;
  for (const BitmaskTensors::Place& place : tensors.parts) {
    if (place.entry != nullptr && std::ranges::find(of_parts, files[place.file]) == of_parts.end())
      of_parts.push_back(files[place.file]);
  }
  // As the dense tensor would be.
  const SafetensorsEntry entry{.name = fmt::format("{}.weight", module),
                               .dtype = tensors.find(BitmaskPart::kCompressed)->dtype,
                               .shape = {matrix.rows, matrix.cols},
                               .begin = 0,
                               .end = static_cast<std::uint64_t>(matrix.rows * matrix.cols)};
  add_tensor(entry, reason_to_skip(entry),
             {.bitmask = std::make_shared<const BitmaskMatrix>(matrix), .part_files = std::move(of_parts)});
  return {};
}

void ModelFile::add_tensor(const SafetensorsEntry& entry, const std::optional<std::string>& reason_to_skip,
                           Source source) {
  if (reason_to_skip) {
    const std::string description = fmt::format("{} [{}]", entry.dtype, fmt::join(entry.shape, ", "));
    skipped_.push_back({entry.name, description, *reason_to_skip});
    return;
  }
  tensors_.push_back(info_of(entry));
  sources_.push_back(std::move(source));
}

Status ModelFile::open_safetensors_index(const MappedFile& index) {
  format_ = "safetensors";
  SPARSMITH_ASSIGN_OR_RETURN(ShardIndex shards, parse_shard_index(index.text()));
  Files files;
  std::vector<SafetensorsHeader> headers;
  for (auto& [shard, names] : shards) {
    Result<MappedFile> mapped = MappedFile::open(shard_path(path_, shard));
    if (!mapped.ok()) return mapped.status().annotate("a shard is missing");
    files.push_back(std::make_shared<const MappedFile>(std::move(*mapped)));
    Result<SafetensorsHeader> header = parse_safetensors_header(files.back()->bytes());
    if (!header.ok()) return header.status().annotate(fmt::format("shard {}", shard));
    std::erase_if(header->tensors, [&](const SafetensorsEntry& entry) {
      if (names.erase(entry.name) > 0) return false;
      add_tensor(entry, fmt::format("shard {} holds it, but the index does not say so", shard), {});
      return true;
    });
    if (!names.empty()) {
      return invalid_input(
          fmt::format("tensor '{}': the index places it in shard {}, which lacks it", *names.begin(), shard));
    }
    headers.push_back(std::move(*header));
  }
  return add_tensors(files, headers);
}

Status ModelFile::open_npy(std::shared_ptr<const MappedFile> file) {
  SPARSMITH_ASSIGN_OR_RETURN(const NpyArray array, parse_npy(file->bytes()));
  const bool streams = array.kind == 'f' && array.item_size <= 4 && !array.fortran_order && array.shape.size() == 2;
  if (!streams) return add_matrix(csr_from_npy(array, max_memory_));
  SPARSMITH_RETURN_IF_ERROR(check_matrix_shape(array.shape[0], array.shape[1]));
  tensors_.push_back({name_of_matrix(path_), array.shape, array.shape[0], array.shape[1], array.data_type()});
  sources_.push_back({.file = std::move(file), .offset = array.data_offset});
  return {};
}

Status ModelFile::add_matrix(Result<CsrMatrix> matrix) {
  if (!matrix.ok()) return matrix.status();
  tensors_.push_back(
      {name_of_matrix(path_), {matrix->rows, matrix->cols}, matrix->rows, matrix->cols, matrix->data_type});
  sources_.push_back({.matrix = std::make_shared<const CsrMatrix>(std::move(*matrix))});
  return {};
}

std::optional<std::size_t> ModelFile::find(const std::string& name) const {
  const auto found = std::ranges::find(tensors_, name, &TensorInfo::name);
  if (found == tensors_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - tensors_.begin());
}

void ModelFile::Source::release_part(std::span<const std::byte> bytes) const {
  if (bytes.empty()) return;
  for (const std::shared_ptr<const MappedFile>& each : part_files) {
    const std::span<const std::byte> all = each->bytes();
    const bool inside =
        std::less_equal<>()(all.data(), bytes.data()) && std::less<>()(bytes.data(), all.data() + all.size());
    if (inside) each->release(bytes.data() - all.data(), bytes.size());
  }
}

DenseMatrix ModelFile::dense(std::size_t index) const {
  const TensorInfo& info = tensors_[index];
  return {sources_[index].file->bytes().data() + sources_[index].offset, info.rows, info.cols, info.data_type};
}

Result<CsrMatrix> ModelFile::read(std::size_t index) const {
  const Source& source = sources_.at(index);
  if (source.matrix != nullptr) return *source.matrix;
  Result<CsrMatrix> result = source.bitmask != nullptr ? csr_from_bitmask(*source.bitmask, max_memory_)
                                                       : csr_from_dense(dense(index), max_memory_);
  if (source.bitmask != nullptr) {
    for (const std::span<const std::byte> part :
         {source.bitmask->bitmask, source.bitmask->compressed, source.bitmask->row_offsets})
      source.release_part(part);
  } else {
    source.file->release(source.offset, static_cast<std::size_t>(dense(index).rows) * dense(index).row_bytes());
  }
  if (!result.ok()) return result.status().annotate(fmt::format("{}: tensor '{}'", path_, tensors_[index].name));
  return result;
}

Result<SparsityStatistics> ModelFile::statistics(std::size_t index, int threads) const {
  const Source& source = sources_.at(index);
  if (source.matrix != nullptr) return compute_statistics(*source.matrix);
  const auto release = [&source](std::size_t offset, std::size_t size) {
    source.file->release(source.offset + offset, size);
  };
  const auto release_part = [&source](std::span<const std::byte> bytes) { source.release_part(bytes); };
  Result<SparsityStatistics> result = source.bitmask != nullptr
                                          ? compute_bitmask_statistics(*source.bitmask, threads, release_part)
                                          : compute_dense_statistics(dense(index), threads, release);
  if (!result.ok()) return result.status().annotate(fmt::format("{}: tensor '{}'", path_, tensors_[index].name));
  return result;
}

}  // namespace sparsmith
