// Reads lines and fields of text formats without copies. Has the line number for messages.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sparsmith {

// Reads the lines of a text. "
// " and "\r
// " end a line. The last line may have no end.
class LineReader {
 public:
  explicit LineReader(std::string_view text) : rest_(text) {}

  bool next(std::string_view& line) {
    if (rest_.empty()) return false;
    const std::size_t end = rest_.find('\n');
    line = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    ++number_;
    return true;
  }
  // The number of the last line from next(); the first line is 1.
  std::int64_t number() const { return number_; }

 private:
  std::string_view rest_;
  std::int64_t number_ = 0;
};

// Reads the fields of a line.
class FieldReader {
 public:
  explicit FieldReader(std::string_view line, std::string_view separators = " \t")
      : rest_(line), separators_(separators) {}

  bool next(std::string_view& field) {
    std::size_t begin = 0;
    while (begin < rest_.size() && is_separator(rest_[begin])) ++begin;
    std::size_t end = begin;
    while (end < rest_.size() && !is_separator(rest_[end])) ++end;
    field = rest_.substr(begin, end - begin);
    rest_ = rest_.substr(end);
    return !field.empty();
  }
  // True when nothing but separators is left.
  bool at_end() const { return rest_.find_first_not_of(separators_) == std::string_view::npos; }

 private:
  bool is_separator(char c) const { return separators_.find(c) != std::string_view::npos; }

  std::string_view rest_;
  std::string_view separators_;
};

// The number in the whole field, in the C locale. A leading + is allowed. No value when the field is no number.
template <class T>
std::optional<T> parse_number(std::string_view field) {
  if (field.size() > 1 && field.front() == '+' && field[1] != '-') field.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size()) return std::nullopt;
  return value;
}

// At most `limit` characters of a field, for messages.
inline std::string_view excerpt(std::string_view field, std::size_t limit = 32) { return field.substr(0, limit); }

}  // namespace sparsmith
