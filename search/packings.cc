#include "search/packings.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/half.h"
#include "base/parallel_for.h"
#include "base/stopwatch.h"
#include "runtime/tuned_file.h"

namespace sparsmith {

struct Packings::Made {
  Result<PackedWeight> packed;
  double seconds = 0;
};

Result<const PackedWeight*> Packings::get(const Config& config, const Problem& problem) {
  const Family* of = family(config.family);
  if (of == nullptr) return not_found("no kernel family is called " + config.family);
  if (const PackedWeight* made = find(of->packing(config, problem))) return made;
  double seconds = 0;
  auto packed = [&] {
    const Stopwatch stopwatch(seconds);
    return of->pack(config, problem, matrix_);
  }();
  if (!packed.ok()) return packed.status();
  keep({std::move(packed), seconds});
  return all_.back().get();
}

void Packings::make(std::span<const Config* const> configs, const Problem& problem) {
  std::map<std::string, const Config*> missing;
  for (const Config* config : configs) {
    const Family* of = family(config->family);
    if (of == nullptr) continue;
    const std::string name = of->packing(*config, problem);
    if (find(name) == nullptr) missing.emplace(name, config);
  }
  std::vector<const Config*> queue;
  for (const auto& [name, config] : missing) queue.push_back(config);
  std::vector<std::optional<Made>> made(queue.size());
  parallel_for(static_cast<std::int64_t>(queue.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      double seconds = 0;
      auto packed = [&] {
        const Stopwatch stopwatch(seconds);
        return family(queue[i]->family)->pack(*queue[i], problem, matrix_);
      }();
      made[i].emplace(std::move(packed), seconds);
    }
  });
  for (std::optional<Made>& each : made) {
    if (each->packed.ok()) keep(std::move(*each));
  }
}

void Packings::keep(Made made) {
  auto packed = std::make_unique<PackedWeight>(std::move(*made.packed));
  sizes_[packed->packing] = packed->bytes();
  seconds_.emplace(packed->packing, made.seconds);
  all_.push_back(std::move(packed));
}

const PackedWeight* Packings::find(const std::string& name) const {
  for (const auto& packed : all_) {
    if (packed->packing == name) return packed.get();
  }
  return nullptr;
}

std::int64_t Packings::bytes() const {
  std::int64_t sum = 0;
  for (const auto& packed : all_) sum += packed->bytes();
  return sum;
}

void Packings::drop(const std::string& name) {
  std::erase_if(all_, [&](const auto& packed) { return packed->packing == name; });
}

PackedWeight Packings::take(const std::string& name) {
  const auto found =
      std::ranges::find(all_, name, [](const auto& packed) -> const std::string& { return packed->packing; });
  PackedWeight packed = std::move(**found);
  all_.erase(found);
  return packed;
}

double Packings::seconds(const std::string& name) const {
  const auto found = seconds_.find(name);
  return found == seconds_.end() ? 0 : found->second;
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
  parallel_for(matrix.rows, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = matrix.row_offsets[begin], row = begin; i < matrix.row_offsets[end]; ++i) {
      while (i >= matrix.row_offsets[row + 1]) ++row;
      std::byte* to = array.bytes.data() + (row * matrix.cols + matrix.column_indices[i]) * size;
      const float value = matrix.values[i];
      const std::uint16_t half = type == DataType::kFloat16 ? fp16_from_float(value) : bf16_from_float(value);
      std::memcpy(to, type == DataType::kFloat32 ? static_cast<const void*>(&value) : &half, size);
    }
  });
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
