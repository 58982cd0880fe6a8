#include "cache/cache.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/enum_names.h"
#include "base/log.h"
#include "cache/database.h"

namespace sparsmith {
namespace {

namespace fs = std::filesystem;

// "<path>.<n>.bad" with the smallest free n; SQLite's side files go along, since a journal applied to the wrong
// database would damage it.
Result<std::string> move_aside(const std::string& path) {
  std::error_code error;
  for (int number = 1;; ++number) {
    const std::string target = fmt::format("{}.{}.bad", path, number);
    if (fs::exists(target, error)) continue;
    fs::rename(path, target, error);
    if (error) return io_error(fmt::format("{}: cannot be moved to {}: {}", path, target, error.message()));
    for (const char* suffix : {"-wal", "-shm", "-journal"}) fs::rename(path + suffix, target + suffix, error);
    return target;
  }
}

}  // namespace

const char* match_quality_name(MatchQuality quality) {
  constexpr std::string_view kNames[] = {"none", "same architecture", "exact"};
  return name_in(kNames, quality).data();
}

Result<std::string> Cache::default_path() {
  const char* cache_home = std::getenv("XDG_CACHE_HOME");
  if (cache_home != nullptr && cache_home[0] == '/') return fmt::format("{}/sparsmith/cache.db", cache_home);
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] != 0) return fmt::format("{}/.cache/sparsmith/cache.db", home);
  return not_found("no place for the cache: neither XDG_CACHE_HOME nor HOME is set; give --cache PATH");
}

Result<Cache> Cache::open(const std::string& path, Mode mode) {
  if (mode == Mode::kReadWrite) SPARSMITH_RETURN_IF_ERROR(make_parent_folder(path, kCacheNoun));
  std::error_code error;
  if (mode == Mode::kReadOnly && !fs::exists(path, error)) return not_found(fmt::format("{}: no cache there", path));
  if (fs::is_directory(path, error)) return io_error(fmt::format("{}: a folder, not a cache file", path));
  return guard_sqlite(path, kCacheNoun, [&]() -> Result<Cache> {
    const int flags = mode == Mode::kReadOnly ? SQLite::OPEN_READONLY : SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE;
    std::unique_ptr<State> state(new State{path, mode, SQLite::Database(path, flags, kBusyTimeoutMilliseconds)});
    SQLite::Database& database = state->database;
    distrust(database);
    // Nothing is written to a file before it is known to be a cache, or empty.
    SPARSMITH_RETURN_IF_ERROR(prepare_schema(database, path, mode));
    if (mode == Mode::kReadWrite) {
      set_journal_mode(database, path);
      mark_abandoned(database, state->process);
    }
    return Cache(std::move(state));
  });
}

Result<Cache> Cache::open_or_rebuild(const std::string& path, std::string* notice) {
  Result<Cache> first = open(path, Mode::kReadWrite);
  if (first.ok() || first.status().code() != StatusCode::kInvalidInput) return first;
  SPARSMITH_ASSIGN_OR_RETURN(const std::string target, move_aside(path));
  if (notice != nullptr)
    *notice = fmt::format("{}; moved to {}, a new cache is made", first.status().message(), target);
  return open(path, Mode::kReadWrite);
}

Cache::Cache(std::unique_ptr<State> state) : state_(std::move(state)) {}
Cache::Cache(Cache&&) noexcept = default;
Cache& Cache::operator=(Cache&&) noexcept = default;
Cache::~Cache() = default;

const std::string& Cache::path() const { return state_->path; }

void Cache::State::note_write_failure(const Status& error) {
  if (++write_failures.count > 1) return;
  write_failures.reason = error.message();
  log_warning("the cache is not written: {}; what it would have kept is found out again by the next run",
              error.message());
}

Cache::WriteFailures Cache::write_failures() const {
  const std::lock_guard lock(state_->mutex);
  return state_->write_failures;
}

std::int64_t Cache::damaged() const {
  const std::lock_guard lock(state_->mutex);
  return state_->damaged;
}

Result<Cache::Counts> Cache::counts() {
  return state_->reading([&]() -> Result<Counts> {
    SQLite::Statement query(state_->database,
                            "SELECT (SELECT count(*) FROM device), (SELECT count(*) FROM environment), "
                            "(SELECT count(*) FROM weight), (SELECT count(*) FROM kernel), count(*), "
                            "coalesce(sum(length(cubin)), 0), (SELECT count(*) FROM measurement), "
                            "(SELECT count(*) FROM measurement WHERE status = 'running'), "
                            "(SELECT count(*) FROM measurement WHERE status = 'crashed'), "
                            "(SELECT count(*) FROM choice) FROM binary");
    query.executeStep();
    Counts c;
    read_columns(query, std::tie(c.devices, c.environments, c.weights, c.kernels, c.binaries, c.binary_bytes,
                                 c.measurements, c.running, c.crashed, c.choices));
    return c;
  });
}

}  // namespace sparsmith
