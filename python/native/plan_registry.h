// The plans of tuned weights, by content hash.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "python/native/plan.h"
#include "runtime/loaded_model.h"

namespace sparsmith::torch {

// All plans of the process. They stay until it ends, as do loaded kernels: graphs of any age may launch them.
class PlanRegistry {
 public:
  static PlanRegistry& instance();

  struct Added {
    std::shared_ptr<Plan> plan;
    std::vector<WriterArrays> written;  // of each packing; empty for a constant weight
    std::shared_ptr<Plan> pruned;       // Plan::Values::kPruned; null: the weight has no such plan
  };
  // Adds the plans of a file's weights, in the order of the file. `updatable`: for new values; `block`: and, unless 0,
  // for other patterns of blocks of this side. Errors: kUnsupported for a weight without spmm, in another layout than
  // token_major, or, if updatable, without writers; and for a packing that takes no other patterns.
  Result<std::vector<Added>> add(const TunedContents& contents, const std::string& file, bool updatable = false,
                                 std::int64_t block = 0);
  // Null: no file with this plan was loaded.
  std::shared_ptr<Plan> find(std::int64_t hash) const;

  Result<std::shared_ptr<const CudaContext>> context(int device);
  // The kernel on a device, loaded once for each binary.
  Result<std::shared_ptr<const KernelModule>> kernel(const std::shared_ptr<const CudaContext>& context,
                                                     const PlanKernel& kernel);

 private:
  mutable std::shared_mutex mutex_;  // of plans_
  std::unordered_map<std::int64_t, std::shared_ptr<Plan>> plans_;
  std::mutex loading_;  // of the members below
  std::map<int, std::shared_ptr<const CudaContext>> contexts_;
  std::map<std::pair<int, std::string>, std::shared_ptr<const KernelModule>> modules_;
};

}  // namespace sparsmith::torch
