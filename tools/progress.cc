#include "tools/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/printable.h"
#include "tools/commands/tune_table.h"

namespace sparsmith::tools {
namespace {

constexpr int kBarWidth = 24;
constexpr std::chrono::milliseconds kInterval{100};

// "3:05", "1:02:03".
std::string clock_text(double seconds) {
  const auto all = static_cast<std::int64_t>(seconds);
  return all < 3600 ? fmt::format("{}:{:02}", all / 60, all % 60)
                    : fmt::format("{}:{:02}:{:02}", all / 3600, all / 60 % 60, all % 60);
}

}  // namespace

ProgressDisplay::ProgressDisplay(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}
ProgressDisplay::~ProgressDisplay() { clear(); }

void ProgressDisplay::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

void ProgressDisplay::update(const TuneProgress& progress) {
  if (weights_ != progress.weights || progress.finished < most_finished_) {  // a command may tune several times
    share_ = 0;
    begin_ = std::chrono::steady_clock::now();
  }
  most_finished_ = progress.finished;
  weights_ = progress.weights;
  if (quiet_ || !terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < kInterval) return;
  last_ = now;
  const double inside =
      progress.total == 0 ? 0 : static_cast<double>(progress.done) / static_cast<double>(progress.total);
  const double share = std::min(
      1.0, (static_cast<double>(progress.finished) + inside) / std::max<double>(1, static_cast<double>(weights_)));
  share_ = std::max(share_, share);  // the stages of several weights overlap
  const double elapsed = std::chrono::duration<double>(now - begin_).count();
  const int filled = static_cast<int>(share_ * kBarWidth);
  fmt::print(stderr, "\r\033[K[{:#<{}}{:.<{}}] {}/{}  {}{}  {}: {} {}/{}", "", filled, "", kBarWidth - filled,
             progress.finished, weights_, clock_text(elapsed),
             share_ > 0.02 ? fmt::format(", about {} left", clock_text(elapsed * (1 / share_ - 1))) : "",
             printable(progress.name), progress.stage, progress.done, progress.total);
  std::fflush(stderr);
  shown_ = true;
}

void ProgressDisplay::weight_is_done(const WeightResult& weight) {
  finished_ = finished_ % std::max<std::size_t>(1, weights_) + 1;  // a command may tune several times
  if (quiet_ || terminal_) return;
  std::string choices;
  for (const BucketChoice& bucket : weight.buckets) {
    choices += fmt::format("{}{} N = {}: {} {:.2f} us{}", choices.empty() ? "" : ",", operator_note(weight, bucket),
                           bucket.tokens, bucket.candidate.packing, bucket.us(), bucket.cached ? " (cached)" : "");
  }
  fmt::print(stderr, "{}/{} {}:{}\n", finished_, weights_, printable(weight.name), choices);
}

}  // namespace sparsmith::tools
