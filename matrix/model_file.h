// A file of weights in any known format: the list of its tensors, and each weight on demand.
//
// Formats, by extension or else by content: safetensors (.safetensors, and .json for the index of its shards), .smtx,
// Matrix Market (.mtx), scipy's sparse .npz, and dense .npy. A folder, as Hugging Face models have, stands for its
// model.safetensors.index.json, its model.safetensors, or else its only .safetensors file. Weights of safetensors are
// dense, or stand as compressed-tensors writes them (bitmask_matrix.h). Safetensors and .npy are mapped and read tensor
// by tensor, so a checkpoint may exceed the memory; the other formats hold one matrix, which open() reads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "matrix/bitmask_matrix.h"
#include "matrix/csr_matrix.h"
#include "matrix/dense_matrix.h"
#include "matrix/sparsity_statistics.h"

namespace sparsmith {

struct TensorInfo {
  std::string name;                 // for a file with one matrix: the file's name without directory and extension
  std::vector<std::int64_t> shape;  // the shape in the file
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
  std::uint64_t seed = 0;       // for drawing the values of a pattern file
  std::int64_t max_memory = 0;  // bytes that one matrix may take; 0: default_max_memory()
};

// The files that ModelFile::open(path) reads: `path`, the file that a folder stands for, and the shards of an index. A
// path that cannot be read stands for itself.
std::vector<std::string> files_of_model(const std::string& path);

// Copies share the mapped files. Reading from several threads is safe.
class ModelFile {
 public:
  // Errors: kNotFound and kIoError; kInvalidInput with file, tensor or line, and reason; kOutOfMemory, before the
  // allocation, for a matrix that takes more than max_memory.
  static Result<ModelFile> open(const std::string& path, const ModelFileOptions& options = {});

  const std::string& path() const { return path_; }
  // "safetensors", "smtx", "mtx", "npz" or "npy".
  const std::string& format() const { return format_; }
  // The weights, in the order of the file.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // Tensors that cannot be weights: other types, vectors, scalars, tensors of three or five dimensions.
  const std::vector<SkippedTensor>& skipped() const { return skipped_; }
  // True for a format that holds exactly one matrix. Opening the file selects that matrix.
  bool single_matrix() const { return format_ != "safetensors"; }
  // The index of the weight called `name`.
  std::optional<std::size_t> find(const std::string& name) const;

  // The weight. Errors: kInvalidInput with the tensor and the position of an element that is not finite; kOutOfMemory.
  Result<CsrMatrix> read(std::size_t index) const;

  // The result of compute_statistics(read(index)). For tensors of safetensors and .npy no matrix is built: one pass on
  // `threads` threads reads the mapped bytes and releases them to the system. Errors: as read().
  Result<SparsityStatistics> statistics(std::size_t index, int threads = 2) const;

 private:
  using Files = std::vector<std::shared_ptr<const MappedFile>>;

  // A matrix from open(), or the place of dense elements in a file, or of compressed ones in files.
  struct Source {
    std::shared_ptr<const CsrMatrix> matrix{};
    std::shared_ptr<const MappedFile> file{};
    std::size_t offset = 0;
    std::shared_ptr<const BitmaskMatrix> bitmask{};
    Files part_files{};  // that its parts lie in, each once

    // Releases bytes of a part of `bitmask`.
    void release_part(std::span<const std::byte> bytes) const;
  };

  Status open_safetensors(const std::shared_ptr<const MappedFile>& file);
  Status open_safetensors_index(const MappedFile& index);
  Status open_npy(std::shared_ptr<const MappedFile> file);
  Status add_matrix(Result<CsrMatrix> matrix);
  // Adds the tensors of safetensors files. `headers`: one for each file.
  Status add_tensors(const Files& files, const std::vector<SafetensorsHeader>& headers);
  // Adds a weight of several tensors.
  Status add_bitmask(const Files& files, std::string_view module, const BitmaskTensors& tensors);
  // Adds a weight, or a skipped tensor when there is a reason to skip it.
  void add_tensor(const SafetensorsEntry& entry, const std::optional<std::string>& reason_to_skip, Source source);
  DenseMatrix dense(std::size_t index) const;

  std::string path_;
  std::string format_;
  std::int64_t max_memory_ = 0;
  std::vector<TensorInfo> tensors_;
  std::vector<Source> sources_;  // one for each of tensors_
  std::vector<SkippedTensor> skipped_;
};

}  // namespace sparsmith
