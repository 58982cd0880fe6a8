// The store's view of commits: their order, their names, and the marks on them.
#include <fmt/format.h>

#include "base/sqlite_database.h"
#include "history/database.h"

namespace sparsmith {

Result<std::vector<PerfStore::Commit>> PerfStore::commits(const std::string& branch) {
  // A commit without a time of its own stands where it was first recorded.
  SPARSMITH_ASSIGN_OR_RETURN(
      const std::unique_ptr<SqlRows> rows,
      state_->connection->query_with("SELECT commit_hash, max(branch), "
                                     "coalesce(min(nullif(committed_at, '')), min(recorded_at)) AS made_at, count(*) "
                                     "FROM run WHERE $1 = '' OR branch = $1 GROUP BY commit_hash "
                                     "ORDER BY made_at, min(id)",
                                     {branch}));
  std::vector<Commit> commits;
  for (;;) {
    SPARSMITH_ASSIGN_OR_RETURN(const bool more, rows->next());
    if (!more) return commits;
    commits.push_back({rows->text(0), rows->text(1), rows->text(2), rows->integer(3)});
  }
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
                  path(), text));
}

Result<std::vector<std::string>> PerfStore::case_names() {
  SPARSMITH_ASSIGN_OR_RETURN(const std::unique_ptr<SqlRows> rows,
                             state_->connection->query("SELECT DISTINCT name FROM bench_case ORDER BY name", {}));
  std::vector<std::string> names;
  for (;;) {
    SPARSMITH_ASSIGN_OR_RETURN(const bool more, rows->next());
    if (!more) return names;
    names.push_back(rows->text(0));
  }
}

Status PerfStore::mark(PerfMark mark) {
  if (mark.commit.empty()) return invalid_argument("a mark needs a commit");
  if (mark.reason.empty()) return invalid_argument("a mark needs a reason: who reads it later was not there");
  HistoryConnection& connection = *state_->connection;
  SPARSMITH_ASSIGN_OR_RETURN(HistoryTransaction transaction, HistoryTransaction::begin(connection));
  SPARSMITH_RETURN_IF_ERROR(connection.execute_with(
      "INSERT INTO mark (commit_hash, case_name, reason, author, marked_at) VALUES ($1, $2, $3, $4, $5) "
      "ON CONFLICT (commit_hash, case_name) DO UPDATE SET reason = excluded.reason, author = excluded.author, "
      "marked_at = excluded.marked_at",
      {mark.commit, mark.case_name, mark.reason, mark.author, mark.marked_at.empty() ? utc_now() : mark.marked_at}));
  return transaction.commit();
}

Result<std::vector<PerfMark>> PerfStore::marks() {
  SPARSMITH_ASSIGN_OR_RETURN(
      const std::unique_ptr<SqlRows> rows,
      state_->connection->query("SELECT commit_hash, case_name, reason, author, marked_at FROM mark ORDER BY marked_at",
                                {}));
  std::vector<PerfMark> marks;
  for (;;) {
    SPARSMITH_ASSIGN_OR_RETURN(const bool more, rows->next());
    if (!more) return marks;
    marks.push_back({rows->text(0), rows->text(1), rows->text(2), rows->text(3), rows->text(4)});
  }
}

}  // namespace sparsmith
