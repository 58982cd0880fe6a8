#include <fmt/format.h>

#include <cmath>

#include "base/hash.h"
#include "cache/database.h"

namespace sparsmith {

namespace {

// In the order of kChoiceColumns.
template <class Choice>
auto fields_of(Choice& c) {
  return std::tuple_cat(fields_of_problem(c.key),
                        std::tie(c.compute_capability, c.sm_count, c.kind, c.config, c.packing, c.packer_version,
                                 c.closure_hash, c.nvrtc_version, c.evidence, c.reason, c.families, c.us, c.q1_us,
                                 c.q3_us, c.dense_us, c.complete, c.budget_s, c.chosen_at, c.goal));
}

}  // namespace

StoredChoice stored_choice(SQLite::Statement& row) {
  StoredChoice stored;
  read_columns(row, std::tuple_cat(fields_of(stored.choice), std::tie(stored.checksum)));
  return stored;
}

std::string StoredChoice::checksum_of(const ChoiceRecord& c) {
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

void write_choice(SQLite::Database& database, const ChoiceRecord& choice) {
  insert_row(database, fmt::format("INSERT OR REPLACE INTO choice ({})", kChoiceColumns),
             std::tuple_cat(fields_of(choice), std::tuple(StoredChoice::checksum_of(choice))));
}

std::optional<StoredChoice> holder_of(SQLite::Database& database, const ProblemKey& key) {
  std::vector<StoredChoice> rows =
      select_choices(database, fmt::format("choice WHERE {}", kOfProblem), fields_of_problem(key));
  return rows.empty() ? std::nullopt : std::optional(std::move(rows.front()));
}

Status Cache::put_choice(const ChoiceRecord& choice) {
  return state_->writing([&]() -> Status {
    ChoiceRecord challenger = choice;
    for (double* value :
         {&challenger.us, &challenger.q1_us, &challenger.q3_us, &challenger.dense_us, &challenger.budget_s}) {
      if (!std::isfinite(*value)) return invalid_argument("a choice's times must be finite numbers");
    }
    if (challenger.chosen_at.empty()) challenger.chosen_at = utc_now();
    WriteTransaction transaction(state_->database);
    const std::optional<StoredChoice> holder = holder_of(state_->database, choice.key);
    const bool damaged = holder && !holder->sound();
    if (damaged) ++state_->damaged;
    if (!holder || damaged || replaces(challenger, holder->choice)) write_choice(state_->database, challenger);
    transaction.commit();
    return {};
  });
}

Result<ChoiceMatch> Cache::find_choice(const ProblemKey& key, int compute_capability, int sm_count) {
  return state_->reading([&]() -> Result<ChoiceMatch> {
    std::optional<StoredChoice> holder = holder_of(state_->database, key);
    if (holder && holder->sound()) return ChoiceMatch{MatchQuality::kExact, std::move(holder->choice)};
    if (holder) {
      ++state_->damaged;
      if (state_->mode == Mode::kReadWrite)
        execute(state_->database, fmt::format("DELETE FROM choice WHERE {}", kOfProblem), fields_of_problem(key));
    }
    for (StoredChoice& near : select_choices(state_->database,
                                             "choice WHERE pattern_hash = ?1 AND operator = ?2 AND tokens = ?3 AND "
                                             "timing_policy = ?4 AND compute_capability = ?5 "
                                             "ORDER BY abs(sm_count - ?6)",
                                             key.pattern_hash, key.operator_name, key.tokens, key.timing_policy,
                                             compute_capability, sm_count)) {
      if (near.sound()) return ChoiceMatch{MatchQuality::kSameArchitecture, std::move(near.choice)};
    }
    return ChoiceMatch{};
  });
}

Result<std::vector<ChoiceRecord>> Cache::choices() {
  return state_->reading([&]() -> Result<std::vector<ChoiceRecord>> {
    std::vector<ChoiceRecord> found;
    for (StoredChoice& row : select_choices(state_->database, "choice ORDER BY pattern_hash, operator, tokens")) {
      if (row.sound()) found.push_back(std::move(row.choice));
    }
    return found;
  });
}

}  // namespace sparsmith
