#include "search/bucket_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/stopwatch.h"

namespace sparsmith {
namespace {

DeviceSearchOptions search_options(const TuneContext& context, std::vector<const StopCondition*> stop,
                                   std::function<void(std::size_t)> progress) {
  DeviceSearchOptions options;
  options.policy = context.options->timing;
  options.recall = !context.record;
  options.limit = !context.record;
  options.vendors = context.options->vendors;
  options.stop = std::move(stop);
  options.progress = std::move(progress);
  return options;
}

std::vector<const StopCondition*> conditions(const TuneContext& context, const OutOfTime& out_of_time,
                                             const CandidateLimit& enough) {
  if (context.options->strategy == StrategyKind::kRace) return {&out_of_time};
  return {&out_of_time, &enough};
}

}  // namespace

BucketSearch::BucketSearch(const TuneContext& context, Bucket& bucket, MeasurementLog log, PreparedSignal& signal)
    : context_(context),
      bucket_(bucket),
      contenders_(*bucket.search),
      log_(std::move(log)),
      signal_(signal),
      strategy_(make_strategy(context.options->strategy, contenders_.points(), context.options->seed)),
      out_of_time_([&context] { return context.interrupted() || context.out_of_time(); }),
      enough_(context.options->most_candidates()),
      search_(log_, contenders_, *strategy_,
              search_options(context, conditions(context, out_of_time_, enough_),
                             [this](std::size_t tried) { tell(tried); })) {}

// Nobody knows how many a race will try beyond those that were selected.
void BucketSearch::tell(std::size_t tried) const {
  if (!context_.progress) return;
  const SearchPoints& points = contenders_.points();
  const std::size_t most = context_.options->most_candidates();
  const std::size_t total = races() ? std::max(tried, points.selected.size()) : std::min(points.points.size(), most);
  context_.progress(fmt::format("N = {}", bucket_.tokens), std::min(tried, total), total);
}

void BucketSearch::prepare_first() {
  if (search_.propose()) {
    // The race asks for all that was selected, in two batches.
    contenders_.make(races() ? contenders_.points().selected : search_.proposed());
    contenders_.add_candidates(first_);
    context_.kernels->request(first_);
  }
  compile(KernelStore::Urgency::kSoon);
}

void BucketSearch::compile(KernelStore::Urgency urgency) {
  prepared_ = false;
  preparation_ = std::async(std::launch::async, [this, urgency] {
    const Status status = prepare(urgency);
    prepared_ = true;  // in any case: a device waits for it
    signal_.raise();
    return status;
  });
}

Status BucketSearch::prepare(KernelStore::Urgency urgency) {
  try {
    const std::vector<std::size_t> points = search_.proposed();
    contenders_.make(points);
    contenders_.compile(points, urgency);
    return context_.kernels->health();
  } catch (const std::exception& error) {
    return io_error(fmt::format("candidates for N = {} cannot be prepared: {}", bucket_.tokens, error.what()));
  }
}

void BucketSearch::hurry() {
  context_.kernels->hurry(first_);
  first_.clear();
}

Result<bool> BucketSearch::advance() {
  SPARSMITH_RETURN_IF_ERROR(preparation_.get());
  double seconds = 0;
  {
    const Stopwatch stopwatch(seconds);
    SPARSMITH_RETURN_IF_ERROR(context_.session->set_tokens(bucket_.tokens, context_.options->seed));
    SPARSMITH_RETURN_IF_ERROR(search_.attempt(*context_.session));
  }
  log_debug("weight {}, N = {}: {} candidates tried in {:.2f} s", context_.index, bucket_.tokens,
            search_.proposed().size(), seconds);
  if (search_.propose()) {
    compile(KernelStore::Urgency::kNow);
    return false;
  }
  SPARSMITH_ASSIGN_OR_RETURN(bucket_.complete, search_.final(*context_.session, bucket_.vendors));
  return true;
}

}  // namespace sparsmith
