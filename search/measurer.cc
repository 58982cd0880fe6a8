#include "search/measurer.h"

#include <utility>

namespace sparsmith {
namespace {

class WorkerMeasurer : public Measurer {
 public:
  explicit WorkerMeasurer(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {}

  const DeviceProperties& properties() const override { return worker_->properties(); }
  Result<DeviceSpeeds> measure_speeds() override { return worker_->measure_speeds(); }
  Status check_known_good() override { return worker_->check_known_good(); }
  Status set_weight(const CsrMatrix& matrix, const OperatorSpec& spec) override {
    return worker_->set_weight(matrix, spec);
  }
  Status send_packing(const PackedWeight& packed) override { return worker_->send_packing(packed); }
  Status place_packing(const std::string& name) override { return worker_->place_packing(name); }
  Status drop_packing(const std::string& name) override { return worker_->drop_packing(name); }
  Status set_tokens(std::int64_t tokens, std::uint64_t seed) override { return worker_->set_tokens(tokens, seed); }
  void limit_candidates(std::chrono::milliseconds limit) override { worker_->limit_candidates(limit); }
  Result<Verification> verify(const LoadedCandidate& candidate) override { return worker_->verify(candidate); }
  Result<Timing> time(const LoadedCandidate& candidate, const TimingPolicy& policy) override {
    return worker_->time(candidate, policy);
  }
  Result<std::vector<Timing>> time_interleaved(const std::vector<LoadedCandidate>& candidates,
                                               const std::vector<std::string>& vendors,
                                               const TimingPolicy& policy) override {
    return worker_->time_interleaved(candidates, vendors, policy);
  }
  Result<std::vector<Timing>> time_unverified(const std::vector<LoadedCandidate>& candidates,
                                              const TimingPolicy& policy) override {
    return worker_->time_unverified(candidates, policy);
  }
  Result<VendorTiming> vendor(const std::string& name, const TimingPolicy& policy) override {
    return worker_->vendor(name, policy);
  }

 private:
  std::unique_ptr<Worker> worker_;
};

}  // namespace

MeasurerFactory worker_measurers(const Worker::Options& options) {
  return [options]() -> Result<std::unique_ptr<Measurer>> {
    SPARSMITH_ASSIGN_OR_RETURN(auto worker, Worker::start(options));
    return std::unique_ptr<Measurer>(std::make_unique<WorkerMeasurer>(std::move(worker)));
  };
}

}  // namespace sparsmith
