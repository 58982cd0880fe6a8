#include "history/store.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/json_reader.h"
#include "base/json_text.h"
#include "base/sqlite_database.h"
#include "history/connection.h"

namespace sparsmith {
namespace {

using nlohmann::json;

Status check(const PerfRun& run, std::span<const PerfMeasurement> measurements) {
  if (run.commit.empty()) return invalid_argument("a run without a commit cannot be found again: give --commit");
  for (const PerfMeasurement& measurement : measurements) {
    if (measurement.key.name.empty()) return invalid_argument("a measured case has no name");
    if (measurement.samples_us.empty())
      return invalid_argument(fmt::format("case {}: no samples", measurement.key.name));
    for (const float sample : measurement.samples_us) {
      if (!std::isfinite(sample) || sample <= 0)
        return invalid_argument(fmt::format("case {}: a sample is {} us", measurement.key.name, sample));
    }
  }
  return {};
}

Result<std::int64_t> put_run(HistoryConnection& connection, const PerfRun& run) {
  const PerfEnvironment& e = run.environment;
  SPARSMITH_ASSIGN_OR_RETURN(
      const std::int64_t environment,
      connection.integer_of(
          "INSERT INTO environment (device, driver, nvrtc, clocks) VALUES ($1, $2, $3, $4) "
          "ON CONFLICT (device, driver, nvrtc, clocks) DO UPDATE SET device = excluded.device RETURNING id",
          {e.device, e.driver, e.nvrtc, e.clocks}));
  return connection.integer_of(
      "INSERT INTO run (commit_hash, parents, committed_at, branch, session, again, search_s, program_version, "
      "recorded_at, environment_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING id",
      {run.commit, run.parents, run.committed_at, run.branch, run.session, std::int64_t{run.again}, run.search_s,
       run.program_version, run.recorded_at.empty() ? utc_now() : run.recorded_at, environment});
}

constexpr std::size_t kMeasurementColumns = 4;
constexpr std::size_t kRowsOfInsert = 100;  // at most: a statement for each would wait for the server each time

// The statement that stores `rows` measurements.
std::string measurement_insert(std::size_t rows) {
  std::string sql = "INSERT INTO measurement (run_id, case_id, implementation_id, samples) VALUES ";
  for (std::size_t first = 1; first <= rows * kMeasurementColumns; first += kMeasurementColumns) {
    sql += fmt::format("{}(${}, ${}, ${}, ${})", first == 1 ? "" : ", ", first, first + 1, first + 2, first + 3);
  }
  return sql;
}

// The samples of a row. Error: kInvalidInput when they are damaged.
Status read_samples(const std::string& bytes, const std::string& place, std::vector<float>& samples) {
  samples.resize(bytes.size() / sizeof(float));
  std::memcpy(samples.data(), bytes.data(), samples.size() * sizeof(float));
  const bool whole = !samples.empty() && bytes.size() % sizeof(float) == 0;
  if (whole && std::ranges::all_of(samples, [](float us) { return std::isfinite(us) && us > 0; })) return {};
  return invalid_input(fmt::format("{} are damaged", place));
}

// Kernels as the column `kernels` holds them: a JSON array.
std::string kernels_to_json(const std::vector<PerfKernel>& kernels) {
  json array = json::array();
  for (const PerfKernel& kernel : kernels) {
    json snippets = json::array();
    for (const PerfKernel::Snippet& snippet : kernel.snippets) snippets.push_back({snippet.header, snippet.hash});
    array.push_back({{"name", kernel.name},
                     {"cubin", kernel.cubin_hash},
                     {"registers", kernel.registers},
                     {"spills", kernel.spill_bytes},
                     {"snippets", snippets}});
  }
  return array.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<std::vector<PerfKernel>> kernels_from_json(const std::string& text) {
  try {
    std::vector<PerfKernel> kernels;
    for (const json& object : json::parse(text)) {
      JsonReader fields(object, "the kernels of an implementation");
      PerfKernel& kernel = kernels.emplace_back();
      kernel.name = fields.text("name");
      kernel.cubin_hash = fields.text("cubin");
      kernel.registers = static_cast<int>(fields.integer("registers", 0, std::numeric_limits<int>::max()));
      kernel.spill_bytes = fields.integer("spills", 0, std::numeric_limits<std::int64_t>::max());
      for (const json& snippet : fields.array("snippets"))
        kernel.snippets.push_back({snippet.at(0).get<std::string>(), snippet.at(1).get<std::string>()});
      if (!fields.status().ok()) return fields.status();
    }
    return kernels;
  } catch (const json::exception& error) {
    return invalid_input(std::string("the kernels of an implementation cannot be read: ") + json_error(error));
  }
}

}  // namespace

PerfStore::PerfStore(std::unique_ptr<HistoryConnection> connection) : connection_(std::move(connection)) {}
PerfStore::PerfStore(PerfStore&&) noexcept = default;
PerfStore& PerfStore::operator=(PerfStore&&) noexcept = default;
PerfStore::~PerfStore() = default;

const std::string& PerfStore::path() const { return connection_->name(); }

Result<PerfStore> PerfStore::open(const std::string& address, Mode mode) {
  SPARSMITH_ASSIGN_OR_RETURN(std::unique_ptr<HistoryConnection> connection, connect_history(address, mode));
  // Only a history or an empty database is written to.
  SPARSMITH_RETURN_IF_ERROR(prepare_schema(*connection, mode));
  if (mode == Mode::kReadWrite) SPARSMITH_RETURN_IF_ERROR(connection->prepare_to_write());
  return PerfStore(std::move(connection));
}

Result<std::int64_t> PerfStore::case_id(const PerfMeasurement& measurement) {
  const CaseKey& key = measurement.key;
  KnownCase& known = cases_[key];
  if (known.id != 0 && known.command == measurement.command) return known.id;
  SPARSMITH_ASSIGN_OR_RETURN(
      known.id,
      connection_->integer_of(
          "INSERT INTO bench_case (name, operator, weight, device_class, cache_policy, command) "
          "VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (name, operator, weight, device_class, cache_policy) "
          "DO UPDATE SET command = excluded.command RETURNING id",
          {key.name, key.operator_name, key.weight, key.device_class, key.cache_policy, measurement.command}));
  known.command = measurement.command;
  return known.id;
}

Result<std::int64_t> PerfStore::implementation_id(const Implementation& i) {
  const std::string kernels = kernels_to_json(i.kernels);
  const std::string hash = hash_text(fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", i.choice, i.config, i.packing,
                                                 i.packing_hash, i.packed_bytes, i.plan_hash, kernels));
  const auto known = implementation_ids_.find(hash);
  if (known != implementation_ids_.end()) return known->second;
  SPARSMITH_ASSIGN_OR_RETURN(
      const std::int64_t id,
      connection_->integer_of(
          "INSERT INTO implementation (hash, choice, config, packing, packing_hash, packed_bytes, plan_hash, kernels) "
          "VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (hash) DO UPDATE SET hash = excluded.hash RETURNING id",
          {hash, i.choice, i.config, i.packing, i.packing_hash, i.packed_bytes, i.plan_hash, kernels}));
  return implementation_ids_[hash] = id;
}

Status PerfStore::record(PerfRun run, std::span<const PerfMeasurement> measurements) {
  SPARSMITH_RETURN_IF_ERROR(check(run, measurements));
  if (!run.committed_at.empty()) {
    SPARSMITH_ASSIGN_OR_RETURN(run.committed_at, utc_of(run.committed_at));
  }
  Status stored = connection_->in_transaction([&]() -> Status {
    SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t run_id, put_run(*connection_, run));
    SqlValues values;
    for (const PerfMeasurement& measurement : measurements) {
      SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t case_row, case_id(measurement));
      SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t implementation, implementation_id(measurement.implementation));
      for (const std::int64_t id : {run_id, case_row, implementation}) values.emplace_back(id);
      values.emplace_back(std::as_bytes(std::span(measurement.samples_us)));
      if (values.size() == kRowsOfInsert * kMeasurementColumns || &measurement == &measurements.back()) {
        SPARSMITH_RETURN_IF_ERROR(
            connection_->execute(measurement_insert(values.size() / kMeasurementColumns), values, nullptr));
        values.clear();
      }
    }
    return {};
  });
  if (!stored.ok()) {  // the rows that were added are gone
    cases_.clear();
    implementation_ids_.clear();
  }
  return stored;
}

Result<std::vector<PerfStore::Round>> PerfStore::rounds(const RoundFilter& filter) {
  std::vector<Round> rounds;
  const auto add = [&](SqlRow& row) {
    Round& round = rounds.emplace_back();
    round.key = {row[0], row[1], row[2], row[3], row[4]};
    round.command = row[5];
    round.environment = {row[6], row[7], row[8], row[9]};
    round.session = row[10];
    round.again = sql_integer(row[11]) != 0;
    round.implementation = sql_integer(row[12]);
    round.commit = row[14];
    if (const std::size_t at = round.command.find(kCommitOfCommand); at != std::string::npos)
      round.command.replace(at, kCommitOfCommand.size(), round.commit);
    round.order = sql_integer(row[15]);
    return read_samples(row[13], fmt::format("{}: the samples of case {}", path(), round.key.name), round.samples_us);
  };
  SPARSMITH_RETURN_IF_ERROR(connection_->execute(
      "SELECT c.name, c.operator, c.weight, c.device_class, c.cache_policy, c.command, e.device, e.driver, "
      "e.nvrtc, e.clocks, r.session, r.again, m.implementation_id, m.samples, r.commit_hash, m.id FROM run r "
      "JOIN measurement m ON m.run_id = r.id JOIN bench_case c ON c.id = m.case_id "
      "JOIN environment e ON e.id = r.environment_id WHERE " +
          std::string(filter.commit.empty() ? "$1 = ''" : "r.commit_hash = $1") +
          " AND ($2 = '' OR r.branch = $2) AND ($3 = '' OR r.session = $3) AND ($4 = '' OR c.name = $4) "
          "ORDER BY c.name, c.id, m.id",
      {filter.commit, filter.branch, filter.session, filter.case_name}, add));
  return rounds;
}

Result<Implementation> PerfStore::implementation(std::int64_t id) {
  const auto known = implementations_.find(id);
  if (known != implementations_.end()) return known->second;
  SPARSMITH_ASSIGN_OR_RETURN(
      std::vector<SqlRow> rows,
      connection_->all("SELECT choice, config, packing, packing_hash, packed_bytes, plan_hash, kernels "
                       "FROM implementation WHERE id = $1",
                       {id}, [](const SqlRow& row) { return row; }));
  if (rows.empty()) return not_found(fmt::format("{}: no implementation {}", path(), id));
  const SqlRow& row = rows.front();
  Implementation result{row[0], row[1], row[2], row[3], sql_integer(row[4]), row[5], {}};
  SPARSMITH_ASSIGN_OR_RETURN(result.kernels, kernels_from_json(row[6]));
  return implementations_[id] = result;
}

Result<std::vector<PerfStore::Commit>> PerfStore::commits(const std::string& branch) {
  // A commit without a time of its own stands where it was first recorded.
  return connection_->all(
      "SELECT commit_hash, max(branch), coalesce(min(nullif(committed_at, '')), min(recorded_at)) AS made_at, count(*) "
      "FROM run WHERE $1 = '' OR branch = $1 GROUP BY commit_hash ORDER BY made_at, min(id)",
      {branch}, [](const SqlRow& row) { return Commit{row[0], row[1], row[2], sql_integer(row[3])}; });
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
  return not_found(fmt::format(
      "{}: nothing is recorded of a commit or branch '{}'; `sparsmith perf history` lists what is", path(), text));
}

Status PerfStore::mark(PerfMark mark) {
  if (mark.commit.empty()) return invalid_argument("a mark needs a commit");
  if (mark.reason.empty()) return invalid_argument("a mark needs a reason: who reads it later was not there");
  return connection_->in_transaction([&] {
    return connection_->execute(
        "INSERT INTO mark (commit_hash, case_name, reason, author, marked_at) VALUES ($1, $2, $3, $4, $5) "
        "ON CONFLICT (commit_hash, case_name) DO UPDATE SET reason = excluded.reason, author = excluded.author, "
        "marked_at = excluded.marked_at",
        {mark.commit, mark.case_name, mark.reason, mark.author, mark.marked_at.empty() ? utc_now() : mark.marked_at},
        nullptr);
  });
}

Result<std::vector<PerfMark>> PerfStore::marks() {
  return connection_->all("SELECT commit_hash, case_name, reason, author, marked_at FROM mark ORDER BY marked_at", {},
                          [](const SqlRow& row) { return PerfMark{row[0], row[1], row[2], row[3], row[4]}; });
}

Result<std::string> utc_of(std::string_view text) {
  std::string wanted(text);
  if (wanted.size() > 10 && wanted[10] == ' ') wanted[10] = 'T';
  std::tm time{};
  const char* const end = strptime(wanted.c_str(), "%Y-%m-%dT%H:%M:%S%z", &time);
  const std::chrono::year_month_day date(std::chrono::year(time.tm_year + 1900),
                                         std::chrono::month(static_cast<unsigned>(time.tm_mon + 1)),
                                         std::chrono::day(static_cast<unsigned>(time.tm_mday)));
  // strptime() also takes fewer digits, blanks, and days that a month does not have.
  if (end != wanted.data() + wanted.size() || !date.ok() ||
      !wanted.starts_with(fmt::format("{:%Y-%m-%dT%H:%M:%S}", time)))
    return invalid_argument(fmt::format("'{}' is no time of a commit, as 2026-01-02T03:04:05+02:00 is", text));
  const std::int64_t offset = time.tm_gmtoff;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}Z", fmt::gmtime(timegm(&time) - offset));
}

}  // namespace sparsmith
