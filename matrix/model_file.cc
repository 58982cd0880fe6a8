#include "matrix/model_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
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

std::string description_of(const SafetensorsEntry& entry) {
  return fmt::format("{} [{}]", entry.dtype, fmt::join(entry.shape, ", "));
}

// Of a tensor of at least one dimension that has elements.
TensorInfo info_of(const SafetensorsEntry& entry) {
  TensorInfo info;
  info.name = entry.name;
  info.shape = entry.shape;
  info.rows = entry.shape[0];
  info.cols = 1;
  for (std::size_t i = 1; i < entry.shape.size(); ++i) info.cols *= entry.shape[i];
  info.data_type = *data_type_from_safetensors_name(entry.dtype);
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

// The format, from the extension where it is a known one, else from the first bytes.
std::string detect_format(const MappedFile& file) {
  const std::string extension = std::filesystem::path(file.path()).extension().string();
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

// Shards by tensor name. Error: when the text is no index.
Result<std::map<std::string, std::string>> parse_shard_index(std::string_view text) {
  const auto parsed = parse_json(text);
  if (!parsed.ok()) return parsed.status().annotate("no index of safetensors shards");
  const nlohmann::json& json = *parsed;
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    return invalid_input("no index of safetensors shards: a JSON object with 'weight_map' is expected");
  }
  std::map<std::string, std::string> shards;
  for (const auto& [name, shard] : json["weight_map"].items()) {
    if (!shard.is_string()) return invalid_input(fmt::format("'weight_map': the shard of '{}' must be a string", name));
    const std::string file = shard.get<std::string>();
    if (file.empty() || file == ".." || file.find('/') != std::string::npos || file.find('\0') != std::string::npos) {
      return invalid_input(
          fmt::format("'weight_map': the shard '{}' of '{}' must be a file beside the index", file, name));
    }
    shards[name] = file;
  }
  return shards;
}

// A shard stands beside the index.
std::string shard_path(const std::string& index, const std::string& shard) {
  return (std::filesystem::path(index).parent_path() / shard).string();
}

}  // namespace

std::vector<std::string> files_of_model(const std::string& path) {
  std::vector<std::string> files = {path};
  if (!path.ends_with(".json")) return files;
  const auto index = MappedFile::open(path);
  if (!index.ok()) return files;
  const auto shard_of = parse_shard_index(index->text());
  if (!shard_of.ok()) return files;
  std::set<std::string> shards;
  for (const auto& [name, shard] : *shard_of) shards.insert(shard);
  for (const std::string& shard : shards) files.push_back(shard_path(path, shard));
  return files;
}

Result<ModelFile> ModelFile::open(const std::string& path, const ModelFileOptions& options) {
  SPARSMITH_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::open(path));
  const auto file = std::make_shared<const MappedFile>(std::move(mapped));
  ModelFile model;
  model.path_ = path;
  model.max_memory_ = options.max_memory > 0 ? options.max_memory : default_max_memory();
  model.format_ = detect_format(*file);
  Status status;
  if (model.format_ == "safetensors")
    status = model.open_safetensors(file);
  else if (model.format_ == "json")
    status = model.open_safetensors_index(*file);
  else if (model.format_ == "smtx")
    status = model.add_matrix(parse_smtx(file->text(), options.seed, model.max_memory_));
  else if (model.format_ == "mtx")
    status = model.add_matrix(parse_matrix_market(file->text(), options.seed, model.max_memory_));
  else if (model.format_ == "npz")
    status = model.add_matrix(parse_npz(file->bytes(), model.max_memory_));
  else if (model.format_ == "npy")
    status = model.open_npy(file);
  else
    status = invalid_input(
        "unknown format; expected safetensors (or the .json index of its shards), .smtx, .mtx, .npz or .npy");
  if (status.code() == StatusCode::kUnsupported) status = invalid_input(status.message());
  if (!status.ok()) return status.annotate(path);
  return model;
}

Status ModelFile::open_safetensors(const std::shared_ptr<const MappedFile>& file) {
  SPARSMITH_ASSIGN_OR_RETURN(const SafetensorsHeader header, parse_safetensors_header(file->bytes()));
  const auto skipped = std::ranges::count_if(header.tensors, [](const auto& entry) { return !!reason_to_skip(entry); });
  skipped_.reserve(skipped);
  tensors_.reserve(header.tensors.size() - skipped);
  sources_.reserve(header.tensors.size() - skipped);
  for (const SafetensorsEntry& entry : header.tensors) {
    if (const auto reason = reason_to_skip(entry)) {
      skipped_.push_back({entry.name, description_of(entry), *reason});
    } else {
      add_dense(info_of(entry), {file, entry.begin});
    }
  }
  return {};
}

Status ModelFile::open_safetensors_index(const MappedFile& index) {
  format_ = "safetensors";
  std::map<std::string, std::string> shard_of;
  SPARSMITH_ASSIGN_OR_RETURN(shard_of, parse_shard_index(index.text()));
  std::set<std::string> shards;
  for (const auto& [name, shard] : shard_of) shards.insert(shard);
  std::set<std::string> found;
  for (const std::string& shard : shards) {
    Result<MappedFile> mapped = MappedFile::open(shard_path(path_, shard));
    if (!mapped.ok()) return mapped.status().annotate("a shard is missing");
    const auto file = std::make_shared<const MappedFile>(std::move(*mapped));
    Result<SafetensorsHeader> header = parse_safetensors_header(file->bytes());
    if (!header.ok()) return header.status().annotate(fmt::format("shard {}", shard));
    for (const SafetensorsEntry& entry : header->tensors) {
      const auto listed = shard_of.find(entry.name);
      if (listed == shard_of.end() || listed->second != shard) {
        skipped_.push_back({entry.name, description_of(entry),
                            fmt::format("shard {} holds it, but the index does not say so", shard)});
        continue;
      }
      found.insert(entry.name);
      if (const auto reason = reason_to_skip(entry)) {
        skipped_.push_back({entry.name, description_of(entry), *reason});
      } else {
        add_dense(info_of(entry), {file, entry.begin});
      }
    }
  }
  for (const auto& [name, shard] : shard_of) {
    if (!found.contains(name))
      return invalid_input(fmt::format("tensor '{}': the index places it in shard {}, which lacks it", name, shard));
  }
  return {};
}

Status ModelFile::open_npy(std::shared_ptr<const MappedFile> file) {
  SPARSMITH_ASSIGN_OR_RETURN(const NpyArray array, parse_npy(file->bytes()));
  const bool streams = array.kind == 'f' && array.item_size <= 4 && !array.fortran_order && array.shape.size() == 2;
  if (!streams) return add_matrix(csr_from_npy(array, max_memory_));
  SPARSMITH_RETURN_IF_ERROR(check_matrix_shape(array.shape[0], array.shape[1]));
  const DataType type = array.item_size == 2 ? DataType::kFloat16 : DataType::kFloat32;
  const std::string name = std::filesystem::path(path_).stem().string();
  add_dense({name, array.shape, array.shape[0], array.shape[1], type}, {std::move(file), array.data_offset});
  return {};
}

Status ModelFile::add_matrix(Result<CsrMatrix> matrix) {
  if (!matrix.ok()) return matrix.status();
  TensorInfo info;
  info.name = std::filesystem::path(path_).stem().string();
  info.shape = {matrix->rows, matrix->cols};
  info.rows = matrix->rows;
  info.cols = matrix->cols;
  info.data_type = matrix->data_type;
  tensors_.push_back(std::move(info));
  sources_.emplace_back(std::make_shared<const CsrMatrix>(std::move(*matrix)));
  return {};
}

void ModelFile::add_dense(TensorInfo info, DenseSource source) {
  tensors_.push_back(std::move(info));
  sources_.emplace_back(std::move(source));
}

std::optional<std::size_t> ModelFile::find(const std::string& name) const {
  const auto found =
      std::find_if(tensors_.begin(), tensors_.end(), [&](const TensorInfo& info) { return info.name == name; });
  if (found == tensors_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - tensors_.begin());
}

DenseMatrix ModelFile::dense(std::size_t index) const {
  const auto& source = std::get<DenseSource>(sources_.at(index));
  const TensorInfo& info = tensors_[index];
  return {source.file->bytes().data() + source.offset, info.rows, info.cols, info.data_type};
}

Result<CsrMatrix> ModelFile::read(std::size_t index) const {
  if (const auto* matrix = std::get_if<std::shared_ptr<const CsrMatrix>>(&sources_.at(index))) return **matrix;
  const DenseMatrix matrix = dense(index);
  Result<CsrMatrix> result = csr_from_dense(matrix, max_memory_);
  const auto& source = std::get<DenseSource>(sources_[index]);
  source.file->release(source.offset, static_cast<std::size_t>(matrix.rows) * matrix.row_bytes());
  if (!result.ok()) return result.status().annotate(fmt::format("{}: tensor '{}'", path_, tensors_[index].name));
  return result;
}

Result<SparsityStatistics> ModelFile::statistics(std::size_t index, int threads) const {
  if (const auto* matrix = std::get_if<std::shared_ptr<const CsrMatrix>>(&sources_.at(index)))
    return compute_statistics(**matrix);
  const auto& source = std::get<DenseSource>(sources_[index]);
  const auto release = [&source](std::size_t offset, std::size_t size) {
    source.file->release(source.offset + offset, size);
  };
  Result<SparsityStatistics> result = compute_dense_statistics(dense(index), threads, release);
  if (!result.ok()) return result.status().annotate(fmt::format("{}: tensor '{}'", path_, tensors_[index].name));
  return result;
}

}  // namespace sparsmith
