// What the weights of a tuning run share.
#pragma once

#include <cstdint>
#include <functional>
#include <semaphore>
#include <string>

#include "cache/cache.h"
#include "runtime/device_properties.h"
#include "search/choice/budget.h"
#include "search/choice/transfer.h"
#include "search/choice/tune_options.h"
#include "search/trial/kernel_store.h"

namespace sparsmith {

struct RecordedSpace;

// Constant while weights are tuned. What it points to is thread-safe and outlives the weights.
struct TuneRun {
  TuneOptions options;
  DeviceProperties device;  // the target: the sessions' device, or, on the emulator, a typical one
  bool predict = false;     // no device can time: rank by prediction, verify the best where anything runs
  std::string program_version;
  KernelStore* kernels = nullptr;
  Budget* budget = nullptr;
  Cache* cache = nullptr;  // null: nothing is remembered
  std::int64_t device_id = 0;
  std::int64_t environment_id = 0;
  Transfer* transfer = nullptr;  // null: weights learn nothing from each other
  // Admits as many full searches to preparation as there are devices. More would all be ready late.
  std::counting_semaphore<>* full_preparations = nullptr;
  std::function<Status(const RecordedSpace&)> record;  // takes each searched space; empty: not recorded
  std::function<bool()> interrupted;                   // the user wants an end
};

}  // namespace sparsmith
