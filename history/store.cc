#include "history/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>

#include "base/hash.h"
#include "base/sqlite_database.h"
#include "history/commit_time.h"
#include "history/database.h"

namespace sparsmith {
namespace {

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

// The id of the row that `insert` has made, or that `select`, with the first `keys` of the values, finds already there.
Result<std::int64_t> put(HistoryConnection& connection, const std::string& insert, const std::string& select,
                         std::span<const SqlValue> values, std::size_t keys) {
  SPARSMITH_RETURN_IF_ERROR(connection.execute(insert, values));
  SPARSMITH_ASSIGN_OR_RETURN(const std::unique_ptr<SqlRows> rows, connection.query(select, values.first(keys)));
  SPARSMITH_ASSIGN_OR_RETURN(const bool found, rows->next());
  if (!found) return internal_error(connection.name() + ": a row that was stored is not there");
  return rows->integer(0);
}

Result<std::int64_t> put_environment(HistoryConnection& connection, const PerfEnvironment& e) {
  const std::array<SqlValue, 4> values = {e.device, e.driver, e.nvrtc, e.clocks};
  return put(connection,
             "INSERT INTO environment (device, driver, nvrtc, clocks) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
             "SELECT id FROM environment WHERE device = $1 AND driver = $2 AND nvrtc = $3 AND clocks = $4", values, 4);
}

Result<std::int64_t> put_case(HistoryConnection& connection, const CaseKey& key, const std::string& command) {
  const std::array<SqlValue, 6> values = {key.name,         key.operator_name, key.weight,
                                          key.device_class, key.cache_policy,  command};
  return put(connection,
             "INSERT INTO bench_case (name, operator, weight, device_class, cache_policy, command) "
             "VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (name, operator, weight, device_class, cache_policy) "
             "DO UPDATE SET command = excluded.command",
             "SELECT id FROM bench_case WHERE name = $1 AND operator = $2 AND weight = $3 AND device_class = $4 AND "
             "cache_policy = $5",
             values, 5);
}

Result<std::int64_t> put_implementation(HistoryConnection& connection, const Implementation& i) {
  const std::string kernels = kernels_to_json(i.kernels);
  const std::string hash = hash_text(fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", i.choice, i.config, i.packing,
                                                 i.packing_hash, i.packed_bytes, i.plan_hash, kernels));
  const std::array<SqlValue, 8> values = {hash,           i.choice,       i.config,    i.packing,
                                          i.packing_hash, i.packed_bytes, i.plan_hash, kernels};
  return put(connection,
             "INSERT INTO implementation (hash, choice, config, packing, packing_hash, packed_bytes, plan_hash, "
             "kernels) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
             "SELECT id FROM implementation WHERE hash = $1", values, 1);
}

Result<std::int64_t> put_run(HistoryConnection& connection, const PerfRun& run) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t environment, put_environment(connection, run.environment));
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

// Finds the rows that measurements refer to, most of them without asking the database: rounds of a case share them.
class KnownRows {
 public:
  KnownRows(HistoryConnection& connection, const std::map<CaseKey, KnownCase>& committed)
      : connection_(connection), committed_(committed) {}

  Result<const KnownCase*> of(const PerfMeasurement& m) {
    const auto added = added_.find(m.key);
    if (added != added_.end()) {
      if (same(added->second, m)) return &added->second;
    } else {
      const auto before = committed_.find(m.key);
      if (before != committed_.end() && same(before->second, m)) return &before->second;
    }
    KnownCase known{0, m.command, 0, m.implementation};
    SPARSMITH_ASSIGN_OR_RETURN(known.case_id, put_case(connection_, m.key, m.command));
    SPARSMITH_ASSIGN_OR_RETURN(known.implementation_id, put_implementation(connection_, m.implementation));
    return &(added_[m.key] = std::move(known));
  }
  std::map<CaseKey, KnownCase> take_added() { return std::move(added_); }

 private:
  static bool same(const KnownCase& known, const PerfMeasurement& m) {
    return known.command == m.command && known.implementation == m.implementation;
  }

  HistoryConnection& connection_;
  const std::map<CaseKey, KnownCase>& committed_;
  std::map<CaseKey, KnownCase> added_;
};

// The samples of a row. Error: kInvalidInput when they are damaged.
Status read_samples(const std::string& bytes, const std::string& place, std::vector<float>& samples) {
  samples.resize(bytes.size() / sizeof(float));
  std::memcpy(samples.data(), bytes.data(), samples.size() * sizeof(float));
  const bool whole = !samples.empty() && bytes.size() % sizeof(float) == 0;
  if (whole && std::ranges::all_of(samples, [](float us) { return std::isfinite(us) && us > 0; })) return {};
  return invalid_input(fmt::format("{} are damaged", place));
}

}  // namespace

PerfStore::PerfStore(std::unique_ptr<State> state) : state_(std::move(state)) {}
PerfStore::PerfStore(PerfStore&&) noexcept = default;
PerfStore& PerfStore::operator=(PerfStore&&) noexcept = default;
PerfStore::~PerfStore() = default;

const std::string& PerfStore::path() const { return state_->connection->name(); }

Result<PerfStore> PerfStore::open(const std::string& address, Mode mode) {
  auto state = std::make_unique<State>();
  SPARSMITH_ASSIGN_OR_RETURN(state->connection, connect_history(address, mode));
  // Nothing is written to what is not known to be a history, or empty.
  SPARSMITH_RETURN_IF_ERROR(prepare_schema(*state->connection, mode));
  if (mode == Mode::kReadWrite) SPARSMITH_RETURN_IF_ERROR(state->connection->prepare_to_write());
  return PerfStore(std::move(state));
}

Status PerfStore::record(PerfRun run, std::span<const PerfMeasurement> measurements) {
  SPARSMITH_RETURN_IF_ERROR(check(run, measurements));
  if (!run.committed_at.empty()) {
    SPARSMITH_ASSIGN_OR_RETURN(run.committed_at, utc_of(run.committed_at));
  }
  HistoryConnection& connection = *state_->connection;
  SPARSMITH_ASSIGN_OR_RETURN(HistoryTransaction transaction, HistoryTransaction::begin(connection));
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t run_id, put_run(connection, run));
  KnownRows rows(connection, state_->known);
  std::vector<SqlValue> values;
  for (const PerfMeasurement& measurement : measurements) {
    SPARSMITH_ASSIGN_OR_RETURN(const KnownCase* known, rows.of(measurement));
    for (const std::int64_t id : {run_id, known->case_id, known->implementation_id}) values.emplace_back(id);
    values.emplace_back(std::as_bytes(std::span(measurement.samples_us)));
    if (values.size() == kRowsOfInsert * kMeasurementColumns || &measurement == &measurements.back()) {
      SPARSMITH_RETURN_IF_ERROR(connection.execute(measurement_insert(values.size() / kMeasurementColumns), values));
      values.clear();
    }
  }
  SPARSMITH_RETURN_IF_ERROR(transaction.commit());
  for (auto& [key, known] : rows.take_added()) state_->known[key] = std::move(known);
  return {};
}

Result<std::vector<PerfStore::Round>> PerfStore::rounds(const RoundFilter& filter) {
  SPARSMITH_ASSIGN_OR_RETURN(
      const std::unique_ptr<SqlRows> rows,
      state_->connection->query_with(
          "SELECT c.name, c.operator, c.weight, c.device_class, c.cache_policy, c.command, e.device, e.driver, "
          "e.nvrtc, e.clocks, r.session, r.again, m.implementation_id, m.samples, r.commit_hash, m.id FROM run r "
          "JOIN measurement m ON m.run_id = r.id JOIN bench_case c ON c.id = m.case_id "
          "JOIN environment e ON e.id = r.environment_id WHERE " +
              std::string(filter.commit.empty() ? "$1 = ''" : "r.commit_hash = $1") +
              " AND ($2 = '' OR r.branch = $2) AND ($3 = '' OR r.session = $3) AND ($4 = '' OR c.name = $4) "
              "ORDER BY c.name, c.id, m.id",
          {filter.commit, filter.branch, filter.session, filter.case_name}));
  std::vector<Round> rounds;
  for (;;) {
    SPARSMITH_ASSIGN_OR_RETURN(const bool more, rows->next());
    if (!more) return rounds;
    Round& round = rounds.emplace_back();
    round.key = {rows->text(0), rows->text(1), rows->text(2), rows->text(3), rows->text(4)};
    round.command = rows->text(5);
    round.environment = {rows->text(6), rows->text(7), rows->text(8), rows->text(9)};
    round.session = rows->text(10);
    round.again = rows->integer(11) != 0;
    round.implementation = rows->integer(12);
    round.commit = rows->text(14);
    if (const std::size_t at = round.command.find(kCommitOfCommand); at != std::string::npos)
      round.command.replace(at, kCommitOfCommand.size(), round.commit);
    round.order = rows->integer(15);
    SPARSMITH_RETURN_IF_ERROR(read_samples(
        rows->bytes(13), fmt::format("{}: the samples of case {}", path(), round.key.name), round.samples_us));
  }
}

Result<Implementation> PerfStore::implementation(std::int64_t id) {
  const auto known = state_->implementations.find(id);
  if (known != state_->implementations.end()) return known->second;
  SPARSMITH_ASSIGN_OR_RETURN(
      const std::unique_ptr<SqlRows> rows,
      state_->connection->query_with("SELECT choice, config, packing, packing_hash, packed_bytes, plan_hash, kernels "
                                     "FROM implementation WHERE id = $1",
                                     {id}));
  SPARSMITH_ASSIGN_OR_RETURN(const bool found, rows->next());
  if (!found) return not_found(fmt::format("{}: no implementation {}", path(), id));
  Implementation result{
      rows->text(0), rows->text(1), rows->text(2), rows->text(3), rows->integer(4), rows->text(5), {}};
  SPARSMITH_ASSIGN_OR_RETURN(result.kernels, kernels_from_json(rows->text(6)));
  return state_->implementations[id] = result;
}

Result<PerfStore::Counts> PerfStore::counts() {
  HistoryConnection& connection = *state_->connection;
  Counts counts;
  for (const auto& [what, count] :
       {std::pair("count(*) FROM run", &counts.runs), std::pair("count(*) FROM bench_case", &counts.cases),
        std::pair("count(*) FROM implementation", &counts.implementations),
        std::pair("count(*) FROM measurement", &counts.measurements),
        std::pair("coalesce(sum(length(samples)), 0) / 4 FROM measurement", &counts.samples)}) {
    SPARSMITH_ASSIGN_OR_RETURN(*count, connection.integer_of(std::string("SELECT ") + what, {}));
  }
  SPARSMITH_ASSIGN_OR_RETURN(counts.file_bytes, connection.size_bytes());
  return counts;
}

}  // namespace sparsmith
