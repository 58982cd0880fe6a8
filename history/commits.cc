// The store's view of commits: their order, their names, and the marks on them.
#include <fmt/format.h>

#include "history/database.h"

namespace sparsmith {

Result<std::vector<PerfStore::Commit>> PerfStore::commits(const std::string& branch) {
  return guarded(state_->path, [&]() -> Result<std::vector<Commit>> {
    // A commit without a time of its own stands where it was first recorded.
    SQLite::Statement query(state_->database,
                            "SELECT commit_hash, max(branch), "
                            "coalesce(min(nullif(committed_at, '')), min(recorded_at)) AS at, count(*) "
                            "FROM run WHERE ?1 = '' OR branch = ?1 GROUP BY commit_hash ORDER BY at, min(id)");
    bind_all(query, branch);
    std::vector<Commit> commits;
    while (query.executeStep()) {
      commits.push_back({query.getColumn(0).getString(), query.getColumn(1).getString(), query.getColumn(2).getString(),
                         query.getColumn(3).getInt64()});
    }
    return commits;
  });
}

Result<std::string> PerfStore::resolve(const std::string& text) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<Commit> all, commits(""));
  std::vector<std::string> matches;
  for (const Commit& commit : all) {
    if (commit.hash == text) return text;
    if (text.size() >= 4 && commit.hash.starts_with(text)) matches.push_back(commit.hash);
  }
  if (matches.size() == 1) return matches.front();
  if (matches.size() > 1)
    return invalid_argument(fmt::format("{} abbreviates {} recorded commits ({}, {}); give more digits", text,
                                        matches.size(), matches[0], matches[1]));
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<Commit> of_branch, commits(text));
  if (!text.empty() && !of_branch.empty()) return of_branch.back().hash;
  return not_found(
      fmt::format("{}: nothing is recorded of a commit or branch '{}'; `sparsmith perf history` lists "
                  "what is",
                  state_->path, text));
}

Result<std::vector<std::string>> PerfStore::case_names() {
  return guarded(state_->path, [&]() -> Result<std::vector<std::string>> {
    SQLite::Statement query(state_->database, "SELECT DISTINCT name FROM bench_case ORDER BY name");
    std::vector<std::string> names;
    while (query.executeStep()) names.push_back(query.getColumn(0).getString());
    return names;
  });
}

Status PerfStore::mark(PerfMark mark) {
  if (mark.commit.empty()) return invalid_argument("a mark needs a commit");
  if (mark.reason.empty()) return invalid_argument("a mark needs a reason: who reads it later was not there");
  return guarded(state_->path, [&]() -> Status {
    WriteTransaction transaction(state_->database);
    execute(state_->database, "INSERT OR REPLACE INTO mark VALUES (?1, ?2, ?3, ?4, ?5)", mark.commit, mark.case_name,
            mark.reason, mark.author, mark.marked_at.empty() ? utc_now() : mark.marked_at);
    transaction.commit();
    return {};
  });
}

Result<std::vector<PerfMark>> PerfStore::marks() {
  return guarded(state_->path, [&]() -> Result<std::vector<PerfMark>> {
    SQLite::Statement query(state_->database,
                            "SELECT commit_hash, case_name, reason, author, marked_at FROM mark ORDER BY marked_at");
    std::vector<PerfMark> marks;
    while (query.executeStep()) {
      const auto text = [&](int column) { return query.getColumn(column).getString(); };
      marks.push_back({text(0), text(1), text(2), text(3), text(4)});
    }
    return marks;
  });
}

}  // namespace sparsmith
