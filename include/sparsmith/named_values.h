// A few values by name: the arguments of a run.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace sparsmith {

// Neither set() nor find() allocates. Names outlive the object.
template <class Value>
class NamedValues {
 public:
  using Entry = std::pair<std::string_view, Value>;
  static constexpr std::size_t kMost = 8;

  NamedValues() = default;
  NamedValues(std::initializer_list<Entry> entries) {
    for (const Entry& entry : entries) set(entry.first, entry.second);
  }

  // Replaces the value of that name. False: there are kMost others.
  bool set(std::string_view name, Value value) {
    for (std::size_t i = 0; i < size_; ++i) {
      if (entries_[i].first == name) {
        entries_[i].second = value;
        return true;
      }
    }
    if (size_ == kMost) return false;
    entries_[size_++] = {name, value};
    return true;
  }

  // Null: no value has that name.
  const Value* find(std::string_view name) const {
    for (const Entry& entry : *this) {
      if (entry.first == name) return &entry.second;
    }
    return nullptr;
  }
  Value value_or(std::string_view name, Value otherwise) const {
    const Value* found = find(name);
    return found == nullptr ? otherwise : *found;
  }

  const Entry* begin() const { return entries_.data(); }
  const Entry* end() const { return entries_.data() + size_; }

 private:
  std::array<Entry, kMost> entries_{};
  std::size_t size_ = 0;
};

}  // namespace sparsmith
