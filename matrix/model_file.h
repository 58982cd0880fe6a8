// A file of weights, whatever its format: what it holds, and each weight on demand.
//
// Formats, by extension or else by content: safetensors (.safetensors, and .json for the index of its shards), .smtx,
// Matrix Market (.mtx), scipy's sparse .npz, and dense .npy. Safetensors and .npy are mapped and read tensor by
// tensor, so a checkpoint may exceed the memory; the other formats hold one matrix, which open() reads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/file.h"
#include "matrix/csr_matrix.h"
#include "matrix/dense_matrix.h"
#include "matrix/sparsity_statistics.h"

namespace sparsmith {

struct TensorInfo {
  std::string name;                 // of a file of one matrix: the file's name without directory and extension
  std::vector<std::int64_t> shape;  // as in the file
  std::int64_t rows = 0;            // M and K of the weight; a convolution [out, in, kh, kw] is [out, in * kh * kw]
  std::int64_t cols = 0;
  DataType data_type = DataType::kFloat32;
};

struct SkippedTensor {
  std::string name;
  std::string description;  // dtype and shape
  std::string reason;
};

struct ModelFileOptions {
  std::uint64_t seed = 0;       // of the values of patterns that have none
  std::int64_t max_memory = 0;  // bytes that one matrix may take; 0: default_max_memory()
};

// The files that ModelFile::open(path) reads: `path`, and the shards where it is their index. A path that is no such
// index, or cannot be read, stands for itself.
std::vector<std::string> files_of_model(const std::string& path);

// Copies share the mapped files. Reading from several threads is safe.
class ModelFile {
 public:
  // Errors: kNotFound and kIoError; kInvalidInput with file, tensor or line, and reason; kOutOfMemory for a matrix of
  // more than max_memory, before it is allocated.
  static Result<ModelFile> open(const std::string& path, const ModelFileOptions& options = {});

  const std::string& path() const { return path_; }
  // "safetensors", "smtx", "mtx", "npz" or "npy".
  const std::string& format() const { return format_; }
  // The weights, in the order of the file.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // What can be no weight: other types, vectors, scalars, tensors of three or five dimensions.
  const std::vector<SkippedTensor>& skipped() const { return skipped_; }
  // True for a format that holds exactly one matrix: asking for the file is asking for that matrix.
  bool single_matrix() const { return format_ != "safetensors"; }
  // The index of the weight called `name`.
  std::optional<std::size_t> find(const std::string& name) const;

  // The weight. Errors: kInvalidInput with the tensor and the position of an element that is not finite; kOutOfMemory.
  Result<CsrMatrix> read(std::size_t index) const;

  // compute_statistics(read(index)), for dense tensors without building the matrix: in one pass on `threads` threads
  // over the mapped bytes, which are given back to the system on the way. Errors: as read().
  Result<SparsityStatistics> statistics(std::size_t index, int threads = 2) const;

 private:
  struct DenseSource {
    std::shared_ptr<const MappedFile> file;
    std::size_t offset = 0;
  };
  using Source = std::variant<DenseSource, std::shared_ptr<const CsrMatrix>>;

  Status open_safetensors(const std::shared_ptr<const MappedFile>& file);
  Status open_safetensors_index(const MappedFile& index);
  Status open_npy(std::shared_ptr<const MappedFile> file);
  Status add_matrix(Result<CsrMatrix> matrix);
  void add_dense(TensorInfo info, DenseSource source);
  DenseMatrix dense(std::size_t index) const;

  std::string path_;
  std::string format_;
  std::int64_t max_memory_ = 0;
  std::vector<TensorInfo> tensors_;
  std::vector<Source> sources_;  // as many
  std::vector<SkippedTensor> skipped_;
};

}  // namespace sparsmith
