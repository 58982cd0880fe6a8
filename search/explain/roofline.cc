#include "search/explain/roofline.h"

namespace sparsmith {

std::optional<RooflineBound> roofline_bound(const WeightResult& weight, const BucketChoice& bucket,
                                            const DeviceProperties& device) {
  if (device.memory_bandwidth <= 0) return std::nullopt;
  RooflineBound memory{"memory", weight.bytes_moved(bucket) / device.memory_bandwidth * 1e6};
  const double peak = device.tensor_operations_per_second();
  const Family* const of = family(bucket.candidate.config.family);
  const double share = of == nullptr ? 0 : of->multiplied_share;
  if (share <= 0 || size_of(bucket.spec.type) != 2 || peak <= 0) return memory;
  const double operations = share * 2 * static_cast<double>(bucket.spec.rows) * static_cast<double>(bucket.spec.cols) *
                            static_cast<double>(bucket.tokens);
  RooflineBound tensor{"tensor cores", operations / peak * 1e6};
  return tensor.us > memory.us ? tensor : memory;
}

}  // namespace sparsmith
