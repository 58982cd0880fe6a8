// The search for one weight: selects, packs and generates candidates, tries them at every N of every operator, and
// chooses. In two steps, so that one weight is prepared while a device is busy with another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "matrix/csr_matrix.h"
#include "matrix/sparsity_statistics.h"
#include "search/bucket_search.h"
#include "search/choice/bucket.h"
#include "search/choice/cached_choices.h"
#include "search/choice/transfer.h"
#include "search/choice/tune_report.h"
#include "search/choice/tune_run.h"
#include "search/trial/device_session.h"
#include "search/trial/packings.h"
#include "search/weight_input.h"

namespace sparsmith {

// Each step runs on one thread.
class WeightSearch {
 public:
  using Progress = std::function<void(const std::string& stage, std::size_t done, std::size_t total)>;

  // `run` outlives the search; `index`: of the weight, for the budget. `matrix`: what read_weight() makes of `input`.
  WeightSearch(const TuneRun& run, std::size_t index, const WeightInput& input, CsrMatrix matrix, Progress progress);
  WeightSearch(const WeightSearch&) = delete;
  WeightSearch& operator=(const WeightSearch&) = delete;
  ~WeightSearch();

  enum class Need : std::uint8_t {
    kNothing,   // the cache has every choice
    kPatience,  // a near weight is being searched: prepare() again when that search is done
    kDevice,
  };
  // Statistics, selection, packing, kernels: all work without a device. Error: no family serves the operator.
  Result<Need> prepare();

  // Searches on `session` and writes the choices to the cache. Null after Need::kNothing; null, too, in a run without
  // devices, whose choices are neither verified nor written. Once.
  //   Errors: kUnsupported when some N has no choice (no candidate passes, and dense was not measured); kNoDevice and
  //   kDeviceError, which end the run.
  Result<WeightResult> finish(DeviceSession* session);

  // Also valid after an error.
  const TuneCounts& counts() const { return counts_; }

 private:
  // An operator of the weight.
  struct SearchedOperator {
    OperatorSpec spec;
    SparsityStatistics statistics;  // of the matrix that is multiplied
    WeightProfile profile;
    ProblemKey key;                      // of no N
    std::optional<Transfer::Hint> hint;  // from near weights
    std::optional<CachedChoices> cached;
    // Families that the cached choices were not compared with, if nothing else is missing.
    std::vector<std::string> new_families;

    bool near() const { return hint && hint->near; }  // so the selection is short
  };

  // Preparing.
  void remember_weight();
  SelectionLimits limits(const SearchedOperator& op) const;
  Status make_buckets(const SearchedOperator& op);
  Bucket make_bucket(const SearchedOperator& op, std::size_t index, const CandidateSelection& selection);
  void prepare_searches();
  void make_predicted();
  MeasurementLog log_for(const Bucket& bucket) const;
  // Whether the weight learns from others, and teaches them.
  bool learns() const;
  // Whether configs far slower than dense are left out: not of a recorded space.
  bool dense_matters() const { return !run_.record; }
  // The weight, or its transpose, as the operator multiplies it by X.
  const CsrMatrix& multiplied_matrix(const OperatorSpec& spec) const;
  const SearchedOperator& operator_of(const Bucket& bucket) const;

  // Searching.
  Status search();
  void bucket_begins(std::size_t index);
  Status set_weight(const Bucket& bucket);
  Status measure();
  BucketSearch* first_prepared(const std::vector<BucketSearch*>& open);
  Status close(const BucketSearch* search);
  void end_search(Bucket& bucket);
  void remember(const Bucket& bucket, const BucketChoice& choice) const;

  // Choosing, in weight_choices.cc.
  void adopt();
  Status predict();
  void request_choices();
  Trial* unverified_choice(Bucket& bucket);
  Status place(const Bucket& bucket, Trial& trial);
  std::vector<std::string> kept_packings(const std::vector<BucketTimes>& times, bool keep);
  Status leave_unjudged_open();
  Status choose();
  Status keep_packing(const BucketChoice& bucket);

  const TuneRun& run_;
  const std::size_t index_;
  const Progress progress_;
  const CsrMatrix matrix_;               // the weight
  std::optional<CsrMatrix> transposed_;  // where an operator multiplies that
  DeviceSession* session_ = nullptr;     // null while the weight is prepared
  bool predict_;                         // nothing is timed: the device cannot, or the run's time is over
  bool hurried_ = false;                 // the run's time is over
  TuneCounts counts_;
  Packings packings_;
  WeightResult weight_;
  std::vector<SearchedOperator> operators_;  // as the options have them; finish() gives `weight_` away
  std::string goal_;                         // of the choices, for the cache
  std::vector<Bucket> buckets_;              // operator by operator, each N of it; empty: nothing is searched
  std::optional<OperatorKind> on_device_;    // that the session has the weight for
  bool known_ = false;                       // the cache has every choice
  bool too_large_ = false;                   // no choice is within the memory that the options allow
  Budget::Clock::time_point weight_end_ = Budget::Clock::time_point::max();
  Budget::Clock::time_point bucket_end_ = Budget::Clock::time_point::max();
  PreparedSignal prepared_;
  std::vector<std::unique_ptr<BucketSearch>> searches_;  // of the buckets. Last: they end before what they read
};

// Ok, or kOutOfMemory, with the bytes, when the inputs and outputs of N tokens, and what outputs are compared with,
// cannot fit the memory of the device or of this machine, whatever the candidate.
Status check_memory(const OperatorSpec& spec, std::int64_t tokens, const DeviceProperties& device);

}  // namespace sparsmith
