#include "history/commit_time.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <ctime>

namespace sparsmith {
namespace {

// Reads numbers of fixed width, and the marks between them, from the front of a text.
class Fields {
 public:
  explicit Fields(std::string_view text) : rest_(text) {}

  int number(std::size_t digits) {
    int value = 0;
    const std::string_view text = rest_.substr(0, digits);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.size() != digits || error != std::errc() || end != text.data() + digits || text.front() == '-')
      good_ = false;
    rest_.remove_prefix(text.size());
    return value;
  }
  // The next character, which is one of `marks`.
  char mark(std::string_view marks) {
    const char next = rest_.empty() ? '\0' : rest_.front();
    if (next == '\0' || marks.find(next) == std::string_view::npos) good_ = false;
    if (!rest_.empty()) rest_.remove_prefix(1);
    return next;
  }
  void skip_if(char wanted) {
    if (!rest_.empty() && rest_.front() == wanted) rest_.remove_prefix(1);
  }
  bool good() const { return good_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool good_ = true;
};

}  // namespace

Result<std::string> utc_of(std::string_view text) {
  using std::chrono::hours;
  using std::chrono::minutes;
  Fields fields(text);
  const int year = fields.number(4);
  fields.mark("-");
  const int month = fields.number(2);
  fields.mark("-");
  const int day = fields.number(2);
  fields.mark("T ");
  const int hour = fields.number(2);
  fields.mark(":");
  const int minute = fields.number(2);
  fields.mark(":");
  const int second = fields.number(2);
  const char sign = fields.mark("Z+-");
  minutes offset{0};
  if (sign != 'Z') {
    offset = hours(fields.number(2));
    fields.skip_if(':');
    offset += minutes(fields.number(2));
  }
  const std::chrono::year_month_day date(std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day)));
  if (!fields.good() || !date.ok() || hour > 23 || minute > 59 || second > 60 || offset > hours(24))
    return invalid_argument(fmt::format("'{}' is no time of a commit, as 2026-01-02T03:04:05+02:00 is", text));
  const auto local = std::chrono::sys_days(date) + hours(hour) + minutes(minute) + std::chrono::seconds(second);
  const auto utc = sign == '-' ? local + offset : local - offset;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}Z", fmt::gmtime(std::time_t{utc.time_since_epoch().count()}));
}

}  // namespace sparsmith
