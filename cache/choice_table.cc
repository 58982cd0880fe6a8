#include <fmt/format.h>

#include <cmath>

#include "base/hash.h"
#include "cache/database.h"

namespace sparsmith {

const char* const kChoiceColumns =
    "pattern_hash, operator, tokens, device_class, timing_policy, compute_capability, sm_count, kind, config, packing, "
    "packer_version, closure_hash, nvrtc_version, evidence, reason, families, us, q1_us, q3_us, dense_us, "
    "complete, budget_s, chosen_at, checksum, goal";

ChoiceRecord choice_of_row(SQLite::Statement& row) {
  int column = 0;
  const auto text = [&] { return row.getColumn(column++).getString(); };
  const auto integer = [&] { return row.getColumn(column++).getInt64(); };
  const auto real = [&] { return row.getColumn(column++).getDouble(); };
  ChoiceRecord c;
  c.key.pattern_hash = text();
  c.key.operator_name = text();
  c.key.tokens = integer();
  c.key.device_class = text();
  c.key.timing_policy = text();
  c.compute_capability = static_cast<int>(integer());
  c.sm_count = static_cast<int>(integer());
  c.kind = text();
  c.config = text();
  c.packing = text();
  c.packer_version = static_cast<int>(integer());
  c.closure_hash = text();
  c.nvrtc_version = text();
  c.evidence = text();
  c.reason = text();
  c.families = text();
  c.us = real();
  c.q1_us = real();
  c.q3_us = real();
  c.dense_us = real();
  c.complete = integer() != 0;
  c.budget_s = real();
  c.chosen_at = text();
  ++column;  // the checksum
  c.goal = text();
  return c;
}

std::string checksum_of(const ChoiceRecord& c) {
  std::string row = fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{:a}|{:a}|{:a}|{:a}|{}|{:a}|{}",
                                c.key.pattern_hash, c.key.operator_name, c.key.tokens, c.key.device_class,
                                c.key.timing_policy, c.compute_capability, c.sm_count, c.kind, c.config, c.packing,
                                c.packer_version, c.closure_hash, c.nvrtc_version, c.evidence, c.reason, c.families,
                                c.us, c.q1_us, c.q3_us, c.dense_us, c.complete, c.budget_s, c.chosen_at);
  if (!c.goal.empty()) row += "|" + c.goal;
  return hash_text(row);
}

bool replaces(const ChoiceRecord& challenger, const ChoiceRecord& holder) {
  const bool challenger_measured = challenger.evidence == "measured";
  const bool holder_measured = holder.evidence == "measured";
  if (challenger_measured != holder_measured) return challenger_measured;
  if (challenger.complete != holder.complete) return challenger.complete;
  if (challenger.complete) return challenger.chosen_at >= holder.chosen_at;
  if (challenger.budget_s != holder.budget_s) return challenger.budget_s > holder.budget_s;
  return challenger.us < holder.us;
}

void write_choice(SQLite::Database& database, const ChoiceRecord& c) {
  execute(database,
          fmt::format(
              "INSERT OR REPLACE INTO choice ({}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, "
              "?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25)",
              kChoiceColumns),
          c.key.pattern_hash, c.key.operator_name, c.key.tokens, c.key.device_class, c.key.timing_policy,
          c.compute_capability, c.sm_count, c.kind, c.config, c.packing, c.packer_version, c.closure_hash,
          c.nvrtc_version, c.evidence, c.reason, c.families, c.us, c.q1_us, c.q3_us, c.dense_us, c.complete, c.budget_s,
          c.chosen_at, checksum_of(c), c.goal);
}

namespace {

constexpr const char* kSameKey =
    "pattern_hash = ?1 AND operator = ?2 AND tokens = ?3 AND device_class = ?4 AND timing_policy = ?5";

// The choice under exactly this key; a damaged one counts as none, so that it is overwritten.
std::optional<ChoiceRecord> holder_of(SQLite::Database& database, const ProblemKey& key, bool* damaged) {
  SQLite::Statement query(database, fmt::format("SELECT {} FROM choice WHERE {}", kChoiceColumns, kSameKey));
  bind_all(query, key.pattern_hash, key.operator_name, key.tokens, key.device_class, key.timing_policy);
  if (!query.executeStep()) return std::nullopt;
  ChoiceRecord choice = choice_of_row(query);
  *damaged = checksum_of(choice) != query.getColumn(kChecksumColumn).getString();
  if (*damaged) return std::nullopt;
  return choice;
}

// The soundest choice of the same architecture, nearest in SM count.
std::optional<ChoiceRecord> nearest(SQLite::Database& database, const ProblemKey& key, int compute_capability,
                                    int sm_count) {
  SQLite::Statement query(
      database, fmt::format("SELECT {} FROM choice WHERE pattern_hash = ?1 AND operator = ?2 AND tokens = ?3 AND "
                            "timing_policy = ?4 AND compute_capability = ?5 ORDER BY abs(sm_count - ?6)",
                            kChoiceColumns));
  bind_all(query, key.pattern_hash, key.operator_name, key.tokens, key.timing_policy, compute_capability, sm_count);
  while (query.executeStep()) {
    ChoiceRecord choice = choice_of_row(query);
    if (checksum_of(choice) == query.getColumn(kChecksumColumn).getString()) return choice;
  }
  return std::nullopt;
}

}  // namespace

Status Cache::put_choice(const ChoiceRecord& choice) {
  const std::lock_guard lock(state_->mutex);
  return state_->writing([&]() -> Status {
    ChoiceRecord challenger = choice;
    for (double* value :
         {&challenger.us, &challenger.q1_us, &challenger.q3_us, &challenger.dense_us, &challenger.budget_s}) {
      if (!std::isfinite(*value)) return invalid_argument("a choice's times must be finite numbers");
    }
    if (challenger.chosen_at.empty()) challenger.chosen_at = utc_now();
    WriteTransaction transaction(state_->database);
    bool damaged = false;
    const std::optional<ChoiceRecord> holder = holder_of(state_->database, choice.key, &damaged);
    if (damaged) ++state_->damaged;
    if (!holder || replaces(challenger, *holder)) write_choice(state_->database, challenger);
    transaction.commit();
    return {};
  });
}

Result<ChoiceMatch> Cache::find_choice(const ProblemKey& key, int compute_capability, int sm_count) {
  const std::lock_guard lock(state_->mutex);
  return guarded(state_->path, [&]() -> Result<ChoiceMatch> {
    bool damaged = false;
    if (auto exact = holder_of(state_->database, key, &damaged))
      return ChoiceMatch{MatchQuality::kExact, std::move(*exact)};
    if (damaged) {
      ++state_->damaged;
      if (state_->mode == Mode::kReadWrite) {
        execute(state_->database, fmt::format("DELETE FROM choice WHERE {}", kSameKey), key.pattern_hash,
                key.operator_name, key.tokens, key.device_class, key.timing_policy);
      }
    }
    if (auto near = nearest(state_->database, key, compute_capability, sm_count)) {
      return ChoiceMatch{MatchQuality::kSameArchitecture, std::move(*near)};
    }
    return ChoiceMatch{};
  });
}

Result<std::vector<ChoiceRecord>> Cache::choices() {
  const std::lock_guard lock(state_->mutex);
  return guarded(state_->path, [&]() -> Result<std::vector<ChoiceRecord>> {
    SQLite::Statement query(
        state_->database, fmt::format("SELECT {} FROM choice ORDER BY pattern_hash, operator, tokens", kChoiceColumns));
    std::vector<ChoiceRecord> found;
    while (query.executeStep()) {
      ChoiceRecord choice = choice_of_row(query);
      if (checksum_of(choice) == query.getColumn(kChecksumColumn).getString()) found.push_back(std::move(choice));
    }
    return found;
  });
}

}  // namespace sparsmith
