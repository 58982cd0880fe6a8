#include "history/store.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>

#include "base/hash.h"
#include "history/commit_time.h"
#include "history/database.h"

namespace sparsmith {
namespace {

namespace fs = std::filesystem;

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

// The one id that `sql` (a SELECT) finds.
template <class... Arguments>
std::int64_t id_of(SQLite::Database& database, const std::string& sql, const Arguments&... arguments) {
  SQLite::Statement query(database, sql);
  bind_all(query, arguments...);
  return query.executeStep() ? query.getColumn(0).getInt64() : 0;
}

std::int64_t put_environment(SQLite::Database& database, const PerfEnvironment& e) {
  execute(database,
          "INSERT INTO environment (device, driver, nvrtc, clocks) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
          e.device, e.driver, e.nvrtc, e.clocks);
  return id_of(database, "SELECT id FROM environment WHERE device = ?1 AND driver = ?2 AND nvrtc = ?3 AND clocks = ?4",
               e.device, e.driver, e.nvrtc, e.clocks);
}

std::int64_t put_case(SQLite::Database& database, const CaseKey& key, const std::string& command) {
  execute(database,
          "INSERT INTO bench_case (name, operator, weight, device_class, cache_policy, command) "
          "VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET command = excluded.command",
          key.name, key.operator_name, key.weight, key.device_class, key.cache_policy, command);
  return id_of(database,
               "SELECT id FROM bench_case WHERE name = ?1 AND operator = ?2 AND weight = ?3 AND device_class = ?4 AND "
               "cache_policy = ?5",
               key.name, key.operator_name, key.weight, key.device_class, key.cache_policy);
}

std::int64_t put_implementation(SQLite::Database& database, const Implementation& i) {
  const std::string kernels = kernels_to_json(i.kernels);
  const std::string hash = hash_text(fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", i.choice, i.config, i.packing,
                                                 i.packing_hash, i.packed_bytes, i.plan_hash, kernels));
  execute(database,
          "INSERT INTO implementation (hash, choice, config, packing, packing_hash, packed_bytes, plan_hash, kernels) "
          "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING",
          hash, i.choice, i.config, i.packing, i.packing_hash, i.packed_bytes, i.plan_hash, kernels);
  return id_of(database, "SELECT id FROM implementation WHERE hash = ?1", hash);
}

std::int64_t put_run(SQLite::Database& database, const PerfRun& run) {
  const std::int64_t environment = put_environment(database, run.environment);
  execute(database,
          "INSERT INTO run (commit_hash, parents, committed_at, branch, session, again, search_s, program_version, "
          "recorded_at, environment_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
          run.commit, run.parents, run.committed_at, run.branch, run.session, run.again, run.search_s,
          run.program_version, run.recorded_at.empty() ? utc_now() : run.recorded_at, environment);
  return database.getLastInsertRowid();
}

// Finds the rows that measurements refer to, most of them without asking the database: rounds of a case share them.
class KnownRows {
 public:
  KnownRows(SQLite::Database& database, const std::map<CaseKey, KnownCase>& committed)
      : database_(database), committed_(committed) {}

  const KnownCase& of(const PerfMeasurement& m) {
    auto found = added_.find(m.key);
    if (found == added_.end()) {
      const auto before = committed_.find(m.key);
      if (before != committed_.end() && same(before->second, m)) return before->second;
      found = added_.try_emplace(m.key).first;
    } else if (same(found->second, m)) {
      return found->second;
    }
    found->second = {put_case(database_, m.key, m.command), m.command, put_implementation(database_, m.implementation),
                     m.implementation};
    return found->second;
  }
  std::map<CaseKey, KnownCase> take_added() { return std::move(added_); }

 private:
  static bool same(const KnownCase& known, const PerfMeasurement& m) {
    return known.command == m.command && known.implementation == m.implementation;
  }

  SQLite::Database& database_;
  const std::map<CaseKey, KnownCase>& committed_;
  std::map<CaseKey, KnownCase> added_;
};

}  // namespace

PerfStore::PerfStore(std::unique_ptr<State> state) : state_(std::move(state)) {}
PerfStore::PerfStore(PerfStore&&) noexcept = default;
PerfStore& PerfStore::operator=(PerfStore&&) noexcept = default;
PerfStore::~PerfStore() = default;

const std::string& PerfStore::path() const { return state_->path; }

Result<PerfStore> PerfStore::open(const std::string& path, Mode mode) {
  if (mode == Mode::kReadWrite) SPARSMITH_RETURN_IF_ERROR(make_parent_folder(path, kHistoryNoun));
  std::error_code error;
  if (mode == Mode::kReadOnly && !fs::exists(path, error))
    return not_found(fmt::format("{}: no performance history there; `sparsmith perf record` makes one", path));
  if (fs::is_directory(path, error)) return io_error(fmt::format("{}: a folder, not a performance history", path));
  return guarded(path, [&]() -> Result<PerfStore> {
    const int flags = mode == Mode::kReadOnly ? SQLite::OPEN_READONLY : SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE;
    auto state = std::make_unique<State>(State{path, mode, SQLite::Database(path, flags, kBusyTimeoutMilliseconds)});
    distrust(state->database);
    // Nothing is written to a file before it is known to be a history, or empty.
    SPARSMITH_RETURN_IF_ERROR(prepare_schema(state->database, path, mode));
    if (mode == Mode::kReadWrite) set_journal_mode(state->database, path);
    return PerfStore(std::move(state));
  });
}

Status PerfStore::record(PerfRun run, std::span<const PerfMeasurement> measurements) {
  SPARSMITH_RETURN_IF_ERROR(check(run, measurements));
  if (!run.committed_at.empty()) {
    SPARSMITH_ASSIGN_OR_RETURN(run.committed_at, utc_of(run.committed_at));
  }
  return guarded(state_->path, [&]() -> Status {
    SQLite::Database& database = state_->database;
    WriteTransaction transaction(database);
    const std::int64_t run_id = put_run(database, run);
    KnownRows rows(database, state_->known);
    SQLite::Statement insert(
        database, "INSERT INTO measurement (run_id, case_id, implementation_id, samples) VALUES (?1, ?2, ?3, ?4)");
    for (const PerfMeasurement& measurement : measurements) {
      const KnownCase& known = rows.of(measurement);
      bind_all(insert, run_id, known.case_id, known.implementation_id,
               std::as_bytes(std::span(measurement.samples_us)));
      insert.exec();
      insert.reset();
    }
    transaction.commit();
    for (auto& [key, known] : rows.take_added()) state_->known[key] = std::move(known);
    return {};
  });
}

Result<std::vector<PerfStore::Round>> PerfStore::rounds(const RoundFilter& filter) {
  return guarded(state_->path, [&]() -> Result<std::vector<Round>> {
    SQLite::Statement query(
        state_->database,
        "SELECT c.name, c.operator, c.weight, c.device_class, c.cache_policy, c.command, e.device, e.driver, e.nvrtc, "
        "e.clocks, r.session, r.again, m.implementation_id, m.samples, r.commit_hash FROM run r "
        "JOIN measurement m ON m.run_id = r.id JOIN bench_case c ON c.id = m.case_id "
        "JOIN environment e ON e.id = r.environment_id "
        "WHERE " +
            std::string(filter.commit.empty() ? "?1 = ''" : "r.commit_hash = ?1") +
            " AND (?2 = '' OR r.branch = ?2) AND (?3 = '' OR r.session = ?3) AND (?4 = '' OR c.name = ?4) "
            "ORDER BY c.name, c.id, m.id");
    bind_all(query, filter.commit, filter.branch, filter.session, filter.case_name);
    std::vector<Round> rounds;
    while (query.executeStep()) {
      const auto text = [&](int column) { return query.getColumn(column).getString(); };
      Round& round = rounds.emplace_back();
      round.key = {text(0), text(1), text(2), text(3), text(4)};
      round.command = text(5);
      round.environment = {text(6), text(7), text(8), text(9)};
      round.session = text(10);
      round.again = query.getColumn(11).getInt() != 0;
      round.implementation = query.getColumn(12).getInt64();
      const SQLite::Column samples = query.getColumn(13);
      round.commit = text(14);
      round.samples_us.resize(samples.getBytes() / sizeof(float));
      if (round.samples_us.empty() || samples.getBytes() % sizeof(float) != 0)
        return invalid_input(fmt::format("{}: the samples of case {} are damaged", state_->path, round.key.name));
      std::memcpy(round.samples_us.data(), samples.getBlob(), samples.getBytes());
      for (const float sample : round.samples_us) {
        if (!std::isfinite(sample) || sample <= 0)
          return invalid_input(fmt::format("{}: the samples of case {} are damaged", state_->path, round.key.name));
      }
    }
    return rounds;
  });
}

Result<Implementation> PerfStore::implementation(std::int64_t id) {
  const auto known = state_->implementations.find(id);
  if (known != state_->implementations.end()) return known->second;
  return guarded(state_->path, [&]() -> Result<Implementation> {
    SQLite::Statement query(state_->database,
                            "SELECT choice, config, packing, packing_hash, packed_bytes, plan_hash, kernels FROM "
                            "implementation WHERE id = ?1");
    bind_all(query, id);
    if (!query.executeStep()) return not_found(fmt::format("{}: no implementation {}", state_->path, id));
    const auto text = [&](int column) { return query.getColumn(column).getString(); };
    Implementation result{text(0), text(1), text(2), text(3), query.getColumn(4).getInt64(), text(5), {}};
    SPARSMITH_ASSIGN_OR_RETURN(result.kernels, kernels_from_json(text(6)));
    return state_->implementations[id] = result;
  });
}

Result<PerfStore::Counts> PerfStore::counts() {
  return guarded(state_->path, [&]() -> Result<Counts> {
    const auto count = [&](const std::string& what) {
      return state_->database.execAndGet("SELECT " + what).getInt64();
    };
    Counts counts;
    counts.runs = count("count(*) FROM run");
    counts.cases = count("count(*) FROM bench_case");
    counts.implementations = count("count(*) FROM implementation");
    counts.measurements = count("count(*) FROM measurement");
    counts.samples = count("coalesce(sum(length(samples)), 0) / 4 FROM measurement");
    counts.file_bytes = count("page_count * page_size FROM pragma_page_count(), pragma_page_size()");
    return counts;
  });
}

}  // namespace sparsmith
