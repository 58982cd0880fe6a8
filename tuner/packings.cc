#include "tuner/packings.h"

#include <cstring>
#include <utility>

#include "base/half.h"
#include "runtime/tuned_file.h"

namespace sparsmith {

Result<const PackedWeight*> Packings::get(const Config& config, const Problem& problem) {
  const Family* of = family(config.family);
  if (of == nullptr) return not_found("no kernel family is called " + config.family);
  if (const PackedWeight* made = find(of->packing(config, problem))) return made;
  SPARSMITH_ASSIGN_OR_RETURN(PackedWeight packed, of->pack(config, problem, matrix_));
  all_.push_back(std::make_unique<PackedWeight>(std::move(packed)));
  return all_.back().get();
}

const PackedWeight* Packings::find(const std::string& name) const {
  for (const auto& packed : all_) {
    if (packed->packing == name) return packed.get();
  }
  return nullptr;
}

PackedWeight pack_dense(const CsrMatrix& matrix, DataType type) {
  PackedWeight packed;
  packed.packing = kDensePacking;
  packed.rows = matrix.rows;
  packed.cols = matrix.cols;
  packed.nnz = matrix.nnz();
  packed.value_type = type;
  const std::size_t size = size_of(type);
  PackedArray array{std::string(kDenseArray), type, std::vector<std::byte>(matrix.rows * matrix.cols * size)};
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1]; ++i) {
      std::byte* to = array.bytes.data() + (row * matrix.cols + matrix.column_indices[i]) * size;
      const float value = matrix.values[i];
      const std::uint16_t half = type == DataType::kFloat16 ? fp16_from_float(value) : bf16_from_float(value);
      std::memcpy(to, type == DataType::kFloat32 ? static_cast<const void*>(&value) : &half, size);
    }
  }
  packed.arrays.push_back(std::move(array));
  return packed;
}

LoadedCandidate loaded_candidate(const Candidate& candidate) {
  LoadedCandidate loaded;
  loaded.plan = candidate.plan;
  loaded.packing = candidate.packing;
  for (const KernelSource& kernel : candidate.kernels) {
    loaded.kernels.push_back({kernel.name, kernel.source, {}, kernel.max_shared_bytes});
  }
  return loaded;
}

Status attach_binaries(const KernelStore& kernels, const DeviceProperties& device, Contender& contender) {
  for (std::size_t i = 0; i < contender.candidate.kernels.size(); ++i) {
    const KernelSource& source = contender.candidate.kernels[i];
    SPARSMITH_ASSIGN_OR_RETURN(const CompiledKernel* compiled, kernels.find(source));
    SPARSMITH_RETURN_IF_ERROR(check_resources(*compiled, source, device.registers_per_sm));
    contender.loaded.kernels[i].cubin = compiled->cubin;
  }
  return {};
}

}  // namespace sparsmith
