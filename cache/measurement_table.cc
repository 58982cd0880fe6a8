#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>

#include "base/enum_names.h"
#include "cache/database.h"

namespace sparsmith {
namespace {

constexpr std::string_view kStatusNames[] = {"running", "ok", "wrong", "failed", "crashed", "timeout", "too slow"};

// 0 when there is no such process.
std::int64_t start_time_of(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  // The command name in parentheses may hold blanks and parentheses; field 3 follows the last one.
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream fields(text.substr(end + 1));
  std::string field;
  constexpr int kStartTime = 22;
  for (int number = 3; number < kStartTime; ++number) fields >> field;
  std::int64_t start_time = 0;
  fields >> start_time;
  return start_time;
}

std::string host_identity() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 64> name_space{};
  if (readlink("/proc/self/ns/pid", name_space.data(), name_space.size() - 1) < 0) name_space[0] = 0;
  return fmt::format("{} {} {}", name.data(), boot, name_space.data());
}

std::string random_uid() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

// SQLite takes NaN for NULL, and nothing here is read back well from an infinity.
double finite(double value) { return std::isfinite(value) ? value : -1; }

}  // namespace

const char* measurement_status_name(MeasurementStatus status) { return name_in(kStatusNames, status).data(); }

ProcessIdentity ProcessIdentity::current() { return {host_identity(), getpid(), start_time_of(getpid())}; }

bool ProcessIdentity::alive() const {
  const std::int64_t now = start_time_of(pid);
  return now != 0 && now == start_time;
}

void mark_abandoned(SQLite::Database& database, const ProcessIdentity& process) {
  // A process of another machine cannot be asked for; no candidate runs for an hour.
  constexpr const char* kFind =
      "SELECT id, host, pid, start_time, began_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 hour') "
      "FROM measurement WHERE status = 'running'";
  std::vector<std::int64_t> abandoned;
  {
    SQLite::Statement query(database, kFind);
    while (query.executeStep()) {
      std::int64_t id = 0;
      bool old = false;
      ProcessIdentity owner;
      read_columns(query, std::tie(id, owner.host, owner.pid, owner.start_time, old));
      if (owner.host == process.host ? !owner.alive() : old) abandoned.push_back(id);
    }
  }
  for (const std::int64_t id : abandoned) {
    execute(database,
            "UPDATE measurement SET status = 'crashed', abandoned = 1, ended_at = ?2, "
            "reason = 'the process that measured it died' WHERE id = ?1 AND status = 'running'",
            id, utc_now());
  }
}

Result<std::int64_t> Cache::begin(const MeasurementRecord& measurement) {
  return state_->writing([&]() -> Result<std::int64_t> {
    mark_abandoned(state_->database, state_->process);
    const MeasurementRecord& m = measurement;
    const ProcessIdentity& process = state_->process;
    execute(state_->database,
            "INSERT INTO measurement (pattern_hash, operator, tokens, device_class, timing_policy, uid, value_hash, "
            "config, packing, packer_version, closure_hash, predicted_us, device_id, environment_id, host, pid, "
            "start_time, began_at, status) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, nullif(?13, 0), "
            "nullif(?14, 0), ?15, ?16, ?17, ?18, 'running')",
            fields_of_problem(m.key), random_uid(), m.value_hash, m.config, m.packing, m.packer_version, m.closure_hash,
            finite(m.predicted_us), m.device_id, m.environment_id, process.host, process.pid, process.start_time,
            utc_now());
    return state_->database.getLastInsertRowid();
  });
}

Status Cache::finish(std::int64_t id, const MeasurementRecord& outcome) {
  return state_->writing([&]() -> Status {
    const MeasurementRecord& m = outcome;
    const int changed = execute(
        state_->database,
        "UPDATE measurement SET status = ?2, reason = ?3, median_us = ?4, q1_us = ?5, q3_us = ?6, samples = ?7, "
        "copies = ?8, warm = ?9, max_error_over_bound = ?10, abandoned = ?11, ended_at = ?12 WHERE id = ?1 AND status "
        "= "
        "'running'",
        id, std::string(measurement_status_name(m.status)), m.reason, finite(m.median_us), finite(m.q1_us),
        finite(m.q3_us), m.samples, m.copies, m.warm, finite(m.max_error_over_bound), m.abandoned, utc_now());
    if (changed == 0) return not_found(fmt::format("{}: no running measurement {}", state_->path, id));
    return {};
  });
}

Result<std::vector<MeasurementRecord>> Cache::measurements(const ProblemKey& key) {
  return state_->reading([&]() -> Result<std::vector<MeasurementRecord>> {
    SQLite::Statement query(
        state_->database,
        fmt::format("SELECT value_hash, config, packing, packer_version, closure_hash, predicted_us, "
                    "coalesce(device_id, 0), coalesce(environment_id, 0), status, abandoned, reason, median_us, q1_us, "
                    "q3_us, samples, copies, warm, max_error_over_bound, began_at FROM measurement "
                    "WHERE {} AND status <> 'running' ORDER BY id",
                    kOfProblem));
    bind_all(query, fields_of_problem(key));
    std::vector<MeasurementRecord> found;
    while (query.executeStep()) {
      MeasurementRecord& m = found.emplace_back();
      m.key = key;
      std::string status;
      read_columns(query, std::tie(m.value_hash, m.config, m.packing, m.packer_version, m.closure_hash, m.predicted_us,
                                   m.device_id, m.environment_id, status, m.abandoned, m.reason, m.median_us, m.q1_us,
                                   m.q3_us, m.samples, m.copies, m.warm, m.max_error_over_bound, m.began_at));
      // A damaged word must not count as a success.
      m.status = value_in<MeasurementStatus>(kStatusNames, status).value_or(MeasurementStatus::kFailed);
    }
    return found;
  });
}

}  // namespace sparsmith
