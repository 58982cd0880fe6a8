#include "search/kernel_images.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/log.h"
#include "tuner/environment_fault.h"

namespace sparsmith {
namespace {

void add_binaries(KernelStore& kernels, const std::vector<const Candidate*>& chosen,
                  std::map<std::string, KernelImages>& images, Status& fault) {
  kernels.ensure(chosen, KernelStore::Urgency::kNow);
  for (auto& [name, image] : images) {
    const auto compiled = kernels.find(image.kernel);
    if (compiled.ok()) {
      image.binaries.push_back({kernels.architecture_of(image.kernel), (*compiled)->cubin, (*compiled)->figures});
    } else {
      if (fault.ok() && is_environment_fault(compiled.status())) fault = compiled.status().annotate(name);
      log_warning("no binary of {} for {}: {}", name, kernels.architecture(), compiled.status().message());
    }
  }
}

}  // namespace

std::vector<KernelImages> images_of(std::span<const WeightResult> weights, KernelStore& kernels,
                                    const TuneOptions& options, const KernelCompiler* compiler, Cache* cache,
                                    Status& fault) {
  std::vector<const Candidate*> chosen;
  std::map<std::string, KernelImages> images;
  for (const WeightResult& weight : weights) {
    for (const BucketChoice& bucket : weight.buckets) {
      if (bucket.candidate.kernels.empty()) continue;
      chosen.push_back(&bucket.candidate);
      for (const KernelSource& kernel : bucket.candidate.kernels) {
        // Weights that share a kernel need not ask for equally much shared memory.
        KernelSource& kept = images[kernel.name].kernel;
        const std::int64_t shared_bytes = std::max(kept.max_shared_bytes, kernel.max_shared_bytes);
        kept = kernel;
        kept.max_shared_bytes = shared_bytes;
      }
    }
  }
  add_binaries(kernels, chosen, images, fault);
  for (const std::string& architecture : options.architectures) {
    if (architecture == kernels.architecture()) continue;
    KernelStore more(compiler, cache, architecture, options.compile_threads);
    add_binaries(more, chosen, images, fault);
  }
  if (compiler == nullptr) fault = {};  // then binaries are done without
  std::vector<KernelImages> all;
  for (auto& [name, image] : images) all.push_back(std::move(image));
  return all;
}

}  // namespace sparsmith
