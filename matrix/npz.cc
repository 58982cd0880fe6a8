#include "matrix/npz.h"

#include <fmt/format.h>

#include <string>
#include <tuple>
#include <vector>

#include "matrix/csr_memory.h"
#include "matrix/npy.h"
#include "matrix/triplets.h"
#include "matrix/zip_archive.h"

namespace sparsmith {
namespace {

constexpr std::uint64_t kSmallMember = 4096;  // for a word, or two numbers

// An array with the bytes it views.
struct Array {
  std::vector<std::byte> bytes;
  NpyArray view;
};

class Reader {
 public:
  Reader(const ZipArchive& archive, std::int64_t max_bytes) : archive_(archive), max_bytes_(max_bytes) {}

  Result<CsrMatrix> read() {
    if (!archive_.contains("format.npy")) {
      return unsupported(
          "it holds no matrix of scipy.sparse.save_npz ('format.npy' is missing); save dense arrays as .npy");
    }
    for (const char* small : {"format", "shape"}) {
      if (archive_.size_of(std::string(small) + ".npy") > kSmallMember)
        return invalid_input(fmt::format("'{}' has more than {} bytes", small, kSmallMember));
    }
    SPARSMITH_ASSIGN_OR_RETURN(const Array format, load("format"));
    const bool is_text = format.view.kind == 'S' || format.view.kind == 'U';
    const std::string name = is_text ? format.view.text() : "";
    SPARSMITH_RETURN_IF_ERROR(read_shape());
    SPARSMITH_RETURN_IF_ERROR(check_archive());
    SPARSMITH_ASSIGN_OR_RETURN(data_, load("data"));
    if (data_.view.kind == 'S' || data_.view.kind == 'U') return unsupported("'data' holds text, not numbers");
    if (name != "csr" && name != "csc" && name != "coo" && name != "bsr") {
      return unsupported(
          fmt::format("scipy format '{}' is not supported; convert it with .tocsr()", name.substr(0, 16)));
    }
    const std::size_t dimensions = data_.view.shape.size();
    if (dimensions != (name == "bsr" ? 3 : 1))
      return invalid_input(fmt::format("'data' of format {} has {} dimensions", name, dimensions));
    SPARSMITH_RETURN_IF_ERROR(name == "coo" ? read_coordinates() : read_blocks(/*by_row=*/name != "csc"));
    return csr_from_triplets(triplets_, data_.view.data_type());
  }

 private:
  Result<Array> load(const std::string& name) const {
    Array array;
    SPARSMITH_ASSIGN_OR_RETURN(array.bytes, archive_.read(name + ".npy"));
    Result<NpyArray> view = parse_npy(array.bytes);
    if (!view.ok()) return view.status().annotate(fmt::format("'{}'", name));
    array.view = std::move(*view);
    return array;
  }

  // A vector of integers, each in [0, limit].
  Result<std::vector<std::int64_t>> load_indices(const std::string& name, std::int64_t limit) const {
    SPARSMITH_ASSIGN_OR_RETURN(const Array array, load(name));
    if (array.view.shape.size() != 1 || (array.view.kind != 'i' && array.view.kind != 'u')) {
      return invalid_input(fmt::format("'{}' must be a vector of integers", name));
    }
    std::vector<std::int64_t> result(array.view.elements());
    for (std::size_t i = 0; i < result.size(); ++i) {
      const auto value = array.view.integer(static_cast<std::int64_t>(i));
      if (!value || *value < 0 || *value > limit) {
        return invalid_input(fmt::format("'{}': element {} lies outside of [0, {}]", name, i, limit));
      }
      result[i] = *value;
    }
    return result;
  }

  Status read_shape() {
    SPARSMITH_ASSIGN_OR_RETURN(const auto shape, load_indices("shape", kMaxMatrixDimension));
    if (shape.size() != 2)
      return invalid_input(fmt::format("'shape' has {} elements; a weight has 2 dimensions", shape.size()));
    triplets_.rows = shape[0];
    triplets_.cols = shape[1];
    return {};
  }

  // Offsets of `count` rows into `entries` elements.
  Result<std::vector<std::int64_t>> load_offsets(std::int64_t count, std::int64_t entries) const {
    SPARSMITH_ASSIGN_OR_RETURN(auto offsets, load_indices("indptr", entries));
    if (offsets.size() != static_cast<std::size_t>(count) + 1) {
      return invalid_input(fmt::format("'indptr' has {} elements; the shape asks for {}", offsets.size(), count + 1));
    }
    if (offsets.front() != 0) return invalid_input("'indptr' does not start at 0");
    for (std::int64_t i = 0; i < count; ++i) {
      if (offsets[i] > offsets[i + 1]) return invalid_input(fmt::format("'indptr' decreases at element {}", i + 1));
    }
    return offsets;
  }

  Status read_coordinates() {
    SPARSMITH_ASSIGN_OR_RETURN(const auto rows, load_indices("row", triplets_.rows - 1));
    SPARSMITH_ASSIGN_OR_RETURN(const auto columns, load_indices("col", triplets_.cols - 1));
    if (rows.size() != columns.size() || data_.view.elements() != static_cast<std::int64_t>(rows.size())) {
      return invalid_input("'data', 'row' and 'col' differ in length");
    }
    SPARSMITH_RETURN_IF_ERROR(reserve(data_.view.elements()));
    for (std::size_t i = 0; i < rows.size(); ++i)
      triplets_.add(rows[i], columns[i], data_.view.real(static_cast<std::int64_t>(i)));
    return {};
  }

  // `data` is [blocks, height, width], or [elements], which are blocks of 1 x 1. Blocks of a row lie side by side, or
  // those of a column.
  Status read_blocks(bool by_row) {
    std::vector<std::int64_t> shape = data_.view.shape;
    shape.resize(3, 1);
    const auto [blocks, height, width] = std::tie(shape[0], shape[1], shape[2]);
    if (height < 1 || width < 1 || triplets_.rows % height != 0 || triplets_.cols % width != 0) {
      return invalid_input(
          fmt::format("blocks of {} x {} do not divide {} x {}", height, width, triplets_.rows, triplets_.cols));
    }
    const std::int64_t major = by_row ? triplets_.rows / height : triplets_.cols;
    const std::int64_t minor = by_row ? triplets_.cols / width : triplets_.rows;
    SPARSMITH_ASSIGN_OR_RETURN(const auto indices, load_indices("indices", minor - 1));
    if (std::ssize(indices) != blocks) return invalid_input("'data' and 'indices' differ in length");
    SPARSMITH_ASSIGN_OR_RETURN(const auto offsets, load_offsets(major, blocks));
    SPARSMITH_RETURN_IF_ERROR(reserve(data_.view.elements()));
    for (std::int64_t i = 0; i < major; ++i) {
      for (std::int64_t block = offsets[i]; block < offsets[i + 1]; ++block) {
        add_block(by_row ? i : indices[block], by_row ? indices[block] : i, block, shape);
      }
    }
    return {};
  }
  void add_block(std::int64_t block_row, std::int64_t block_column, std::int64_t block,
                 const std::vector<std::int64_t>& shape) {
    const auto [blocks, height, width] = std::tie(shape[0], shape[1], shape[2]);
    for (std::int64_t i = 0; i < height; ++i) {
      for (std::int64_t j = 0; j < width; ++j) {
        const std::int64_t at =
            data_.view.fortran_order ? block + blocks * (i + height * j) : (block * height + i) * width + j;
        triplets_.add(block_row * height + i, block_column * width + j, data_.view.real(at));
      }
    }
  }
  // What the archive says of its members, before any large one is inflated.
  Status check_archive() const {
    double bytes = 8.0 * static_cast<double>(triplets_.rows + 1);
    for (const char* name : {"data", "indices", "indptr", "row", "col"})
      bytes += static_cast<double>(archive_.size_of(std::string(name) + ".npy"));
    return check_memory("the matrix with its inflated arrays", bytes, max_bytes_);
  }

  // Room for `entries` elements, all at once.
  Status reserve(std::int64_t entries) {
    SPARSMITH_RETURN_IF_ERROR(check_csr_memory(triplets_.rows, entries, max_bytes_));
    triplets_.reserve(entries);
    return {};
  }

  const ZipArchive& archive_;
  std::int64_t max_bytes_;
  Array data_;
  Triplets triplets_;
};

}  // namespace

Result<CsrMatrix> parse_npz(std::span<const std::byte> file, std::int64_t max_bytes) {
  SPARSMITH_ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::open(file));
  return Reader(archive, max_bytes).read();
}

}  // namespace sparsmith
