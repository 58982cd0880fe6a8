// The search for one weight: candidates, kernels, race, choice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <semaphore>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "matrix/csr_matrix.h"
#include "matrix/sparsity_statistics.h"
#include "search/budget.h"
#include "search/device_session.h"
#include "search/kernel_store.h"
#include "search/recorded_space.h"
#include "search/transfer.h"
#include "search/tune_options.h"
#include "search/tune_report.h"

namespace sparsmith {

// What the weights of a run share, all of it thread-safe, and what belongs to one of them. All pointers outlive the
// tuners; `cache`, `transfer` and `budget` may be null.
struct TuneContext {
  const TuneOptions* options = nullptr;
  KernelStore* kernels = nullptr;
  Cache* cache = nullptr;
  DeviceProperties device;  // that is tuned for: the session's, or, on the emulator, a typical one
  std::string program_version;
  std::function<Status(const RecordedSpace&)> record;  // takes each searched space; empty: not recorded
  TransferMemory* transfer = nullptr;                  // null: weights learn nothing from each other
  const Budget* budget = nullptr;
  // Of full searches no more are prepared at once than there are devices: several would be ready at the same time, and
  // late. Null: no limit.
  std::counting_semaphore<>* full_preparations = nullptr;
  bool predict = false;  // the session cannot time: rank by prediction, verify the best
  std::int64_t device_id = 0;
  std::int64_t environment_id = 0;
  // Launches kernels programmatically where the device knows that: the first one of a plan if the options ask for it.
  void launch(LaunchPlan& plan) const {
    if (device.compute_capability >= kProgrammaticFrom) launch_programmatically(plan, options->timing.programmatic);
  }
  std::function<bool()> interrupted;  // the user wants an end

  std::size_t index = 0;  // of the weight, for the budget
  std::function<void(const std::string& stage, std::size_t done, std::size_t total)> progress;
  DeviceSession* session = nullptr;   // that the weight is on; null while it is prepared
  std::function<bool()> out_of_time;  // the search at this N has had its time; asked often
};

// Tunes one weight for every N of the options, in two steps, so that one weight is prepared while a device is busy with
// another. Each step runs on one thread.
class WeightTuner {
 public:
  virtual ~WeightTuner() = default;

  enum class Need : std::uint8_t {
    kNothing,   // the cache has every choice
    kPatience,  // there will be more to learn when the search of a near weight is done: prepare() then
    kDevice,
  };
  // Does what needs no device: statistics, selection, packing, kernels. Error: no family knows the operator.
  virtual Result<Need> prepare() = 0;

  // Searches on `session`, or not at all where nothing was needed (`session` may be null then), and writes the choices
  // to the cache. Once.
  //   Error: kUnsupported when there is no choice for some N (no candidate passes and dense was not measured); what
  //   stops the run: kNoDevice, kDeviceError.
  virtual Result<WeightResult> finish(DeviceSession* session) = 0;

  // What was tried; also after an error.
  virtual const TuneCounts& counts() const = 0;
};

// Ok, or kOutOfMemory, with the bytes, when the inputs and outputs of N tokens, and what outputs are compared with,
// cannot fit the memory of the device or of this machine, whatever the candidate.
Status check_memory(const OperatorSpec& spec, std::int64_t tokens, const DeviceProperties& device);

// `statistics`: the matrix's, where they are known.
std::unique_ptr<WeightTuner> make_weight_tuner(TuneContext context, std::string name, CsrMatrix matrix,
                                               std::optional<SparsityStatistics> statistics);

}  // namespace sparsmith
