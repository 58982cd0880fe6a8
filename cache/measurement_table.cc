#include <fmt/format.h>

#include <array>
#include <cmath>
#include <random>

#include "cache/database.h"

namespace sparsmith {
namespace {

MeasurementStatus status_of_name(const std::string& name) {
  constexpr std::array kAll = {MeasurementStatus::kRunning, MeasurementStatus::kOk,      MeasurementStatus::kWrong,
                               MeasurementStatus::kFailed,  MeasurementStatus::kCrashed, MeasurementStatus::kTimeout,
                               MeasurementStatus::kTooSlow};
  for (const MeasurementStatus status : kAll) {
    if (name == measurement_status_name(status)) return status;
  }
  return MeasurementStatus::kFailed;  // a damaged word: such a row must not count as a success
}

std::string random_uid() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

// SQLite takes NaN for NULL, and nothing here is read back well from an infinity.
double finite(double value) { return std::isfinite(value) ? value : -1; }

}  // namespace

void mark_abandoned(SQLite::Database& database, const ProcessIdentity& process) {
  // A process of another machine cannot be asked for; no candidate runs for an hour.
  constexpr const char* kFind =
      "SELECT id, host, pid, start_time, began_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 hour') "
      "FROM measurement WHERE status = 'running'";
  std::vector<std::int64_t> abandoned;
  {
    SQLite::Statement query(database, kFind);
    while (query.executeStep()) {
      const ProcessIdentity owner{query.getColumn(1).getString(), query.getColumn(2).getInt64(),
                                  query.getColumn(3).getInt64()};
      const bool dead = owner.host == process.host ? !owner.alive() : query.getColumn(4).getInt() != 0;
      if (dead) abandoned.push_back(query.getColumn(0).getInt64());
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
  const std::lock_guard lock(state_->mutex);
  return state_->writing([&]() -> Result<std::int64_t> {
    mark_abandoned(state_->database, state_->process);
    SQLite::Statement insert(state_->database,
                             "INSERT INTO measurement (uid, pattern_hash, value_hash, operator, tokens, device_class, "
                             "timing_policy, config, "
                             "packing, packer_version, closure_hash, predicted_us, device_id, environment_id, host, "
                             "pid, start_time, began_at, "
                             "status) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, nullif(?13, 0), "
                             "nullif(?14, 0), ?15, ?16, ?17, "
                             "?18, 'running')");
    const MeasurementRecord& m = measurement;
    bind_all(insert, random_uid(), m.key.pattern_hash, m.value_hash, m.key.operator_name, m.key.tokens,
             m.key.device_class, m.key.timing_policy, m.config, m.packing, m.packer_version, m.closure_hash,
             finite(m.predicted_us), m.device_id, m.environment_id, state_->process.host, state_->process.pid,
             state_->process.start_time, utc_now());
    insert.exec();
    return state_->database.getLastInsertRowid();
  });
}

Status Cache::finish(std::int64_t id, const MeasurementRecord& outcome) {
  const std::lock_guard lock(state_->mutex);
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
  const std::lock_guard lock(state_->mutex);
  return guarded(state_->path, [&]() -> Result<std::vector<MeasurementRecord>> {
    SQLite::Statement query(
        state_->database,
        "SELECT value_hash, config, packing, packer_version, closure_hash, predicted_us, coalesce(device_id, 0), "
        "coalesce(environment_id, 0), status, abandoned, reason, median_us, q1_us, q3_us, samples, copies, warm, "
        "max_error_over_bound, began_at FROM measurement WHERE pattern_hash = ?1 AND operator = ?2 AND tokens = ?3 AND "
        "device_class = ?4 AND timing_policy = ?5 AND status <> 'running' ORDER BY id");
    bind_all(query, key.pattern_hash, key.operator_name, key.tokens, key.device_class, key.timing_policy);
    std::vector<MeasurementRecord> found;
    while (query.executeStep()) {
      MeasurementRecord& m = found.emplace_back();
      int column = 0;
      const auto text = [&] { return query.getColumn(column++).getString(); };
      const auto integer = [&] { return query.getColumn(column++).getInt64(); };
      const auto real = [&] { return query.getColumn(column++).getDouble(); };
      m.key = key;
      m.value_hash = text();
      m.config = text();
      m.packing = text();
      m.packer_version = static_cast<int>(integer());
      m.closure_hash = text();
      m.predicted_us = real();
      m.device_id = integer();
      m.environment_id = integer();
      m.status = status_of_name(text());
      m.abandoned = integer() != 0;
      m.reason = text();
      m.median_us = real();
      m.q1_us = real();
      m.q3_us = real();
      m.samples = static_cast<int>(integer());
      m.copies = static_cast<int>(integer());
      m.warm = integer() != 0;
      m.max_error_over_bound = real();
      m.began_at = text();
    }
    return found;
  });
}

}  // namespace sparsmith
