#include "search/choice/kernel_images.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/log.h"
#include "generator/two_four_pruner.h"
#include "generator/value_writer.h"
#include "tuner/process/environment_fault.h"

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

// The kernels that write new values into the packings, or prune a dense weight into them, as a candidate has its
// kernels.
Candidate writers_of(std::span<const WeightResult> weights) {
  std::set<std::pair<std::string, DataType>> seen;
  Candidate writers;
  for (const WeightResult& weight : weights) {
    for (const PackedWeight& packed : weight.packings) {
      if (!seen.emplace(packed.packing, weight.type).second) continue;
      for (ValueWriter& writer : value_writers(packed.packing, weight.type))
        std::ranges::move(writer.kernels, std::back_inserter(writers.kernels));
    }
    for (ValueWriter& pruner : two_four_pruners(weight.rows, weight.cols, weight.type, weight.packings))
      std::ranges::move(pruner.kernels, std::back_inserter(writers.kernels));
  }
  return writers;
}

}  // namespace

std::vector<KernelImages> images_of(std::span<const WeightResult> weights, KernelStore& kernels,
                                    const TuneOptions& options, const KernelCompiler* compiler, Cache* cache,
                                    Status& fault) {
  std::vector<const Candidate*> chosen;
  std::map<std::string, KernelImages> images;
  const Candidate writers = writers_of(weights);
  const auto add = [&](const Candidate& candidate) {
    if (candidate.kernels.empty()) return;
    chosen.push_back(&candidate);
    for (const KernelSource& kernel : candidate.kernels) {
      // Weights that share a kernel need not ask for equally much shared memory.
      KernelSource& kept = images[kernel.name].kernel;
      const std::int64_t shared_bytes = std::max(kept.max_shared_bytes, kernel.max_shared_bytes);
      kept = kernel;
      kept.max_shared_bytes = shared_bytes;
    }
  };
  for (const WeightResult& weight : weights)
    for (const BucketChoice& bucket : weight.buckets) add(bucket.candidate);
  add(writers);
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
