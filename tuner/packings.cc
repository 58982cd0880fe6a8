#include "tuner/packings.h"

#include <utility>

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
