#include "base/json_text.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace sparsmith {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxDepth = 64;
// Estimates of what a value takes: in a list, which grows by doubling; in an object; a container of its own.
constexpr std::size_t kElementBytes = 48;
constexpr std::size_t kMemberBytes = 112;
constexpr std::size_t kContainerBytes = 64;

std::size_t default_memory(std::string_view text) { return 40'000'000 + 2 * text.size(); }

class TreeBuilder : public nlohmann::json_sax<json> {
 public:
  // `take`: gets each member of the root, which does not keep it. Empty: the root keeps all members.
  explicit TreeBuilder(std::size_t memory_bytes, TakeMember take = {})
      : budget_(memory_bytes), take_(std::move(take)) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string& /*text*/) override { return add(value); }
  bool string(std::string& text) override { return spend(sizeof(std::string) + text.size()) && add(std::move(text)); }
  bool binary(json::binary_t& /*value*/) override { return fail("there are bytes in it"); }

  bool start_object(std::size_t /*size*/) override { return open(json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*size*/) override { return open(json::array()); }
  bool end_array() override { return close(); }
  bool key(std::string& key) override {
    if (open_.back()->contains(key)) return fail(fmt::format("the key \"{:.100}\" comes twice in one object", key));
    key_ = std::move(key);
    return spend(kMemberBytes + key_.size());
  }
  bool parse_error(std::size_t /*at*/, const std::string& /*token*/, const json::exception& error) override {
    return fail(json_error(error));
  }

  const Status& status() const { return status_; }
  json take() { return std::move(root_); }

 private:
  bool fail(std::string error) {
    status_ = invalid_input(std::move(error));
    return false;
  }
  bool spend(std::size_t bytes) {
    bytes_ += bytes;
    return bytes_ <= budget_ || fail(fmt::format("its values take more than {} bytes of memory", budget_));
  }

  // Where the value went; null when it is too much.
  json* place(json value) {
    if (open_.empty()) {
      if (take_ && !value.is_object()) {
        fail("it is no JSON object");
        return nullptr;
      }
      root_ = std::move(value);
      return &root_;
    }
    json& parent = *open_.back();
    if (parent.is_object()) return &parent.emplace(std::move(key_), std::move(value)).first.value();
    if (!spend(kElementBytes)) return nullptr;
    return &parent.emplace_back(std::move(value));
  }
  bool add(json value) { return place(std::move(value)) != nullptr && finish_value(); }
  bool open(json value) {
    if (open_.size() == kMaxDepth) return fail(fmt::format("it is nested more than {} levels deep", kMaxDepth));
    if (!spend(kContainerBytes)) return false;
    json* const opened = place(std::move(value));
    if (opened == nullptr) return false;
    open_.push_back(opened);
    return true;
  }
  bool close() {
    open_.pop_back();
    return finish_value();
  }
  // Gives away a member of the root that is complete.
  bool finish_value() {
    if (!take_ || open_.size() != 1) return true;
    status_ = take_(root_.begin().key(), root_.begin().value());
    root_.clear();
    bytes_ = 0;
    return status_.ok();
  }

  std::size_t budget_;
  TakeMember take_;
  std::size_t bytes_ = 0;
  json root_;
  std::vector<json*> open_;  // the containers around the next value
  std::string key_;
  Status status_;
};

}  // namespace

Result<json> parse_json(std::string_view text) { return parse_json(text, default_memory(text)); }

Result<json> parse_json(std::string_view text, std::size_t memory_bytes) {
  TreeBuilder builder(memory_bytes);
  if (!json::sax_parse(text.begin(), text.end(), &builder)) return builder.status();
  return builder.take();
}

Status parse_json_members(std::string_view text, TakeMember take) {
  TreeBuilder builder(default_memory(text), std::move(take));
  (void)json::sax_parse(text.begin(), text.end(), &builder);
  return builder.status();
}

std::optional<std::int64_t> json_integer(const json& json, std::int64_t least, std::int64_t most) {
  if (!json.is_number_integer()) return std::nullopt;
  if (json.is_number_unsigned() && !std::in_range<std::int64_t>(json.get<std::uint64_t>())) return std::nullopt;
  const auto value = json.get<std::int64_t>();
  return value >= least && value <= most ? std::optional(value) : std::nullopt;
}

std::optional<std::uint64_t> json_unsigned(const json& json) {
  if (!json.is_number_integer() || (!json.is_number_unsigned() && json.get<std::int64_t>() < 0)) return std::nullopt;
  return json.get<std::uint64_t>();
}

Status check_json_version(const json& object) {
  if (!object.is_object() || !object.contains("schema_version")) return {};
  if (json_integer(object["schema_version"]) == kJsonVersion) return {};
  return invalid_input(
      fmt::format("it has schema version {}; this program reads version {}, so take the sparsmith that "
                  "wrote it, or write it again",
                  object["schema_version"].dump(-1, ' ', true, json::error_handler_t::replace), kJsonVersion));
}

std::string json_error(const json::exception& error) {
  const std::string text = error.what();  // "[json.exception.type_error.302] type must be string"
  const std::size_t end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

}  // namespace sparsmith
