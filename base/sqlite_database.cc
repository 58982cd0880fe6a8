#include "base/sqlite_database.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

namespace sparsmith {
namespace {

constexpr int kLongestValue = 1 << 28;  // bytes: a damaged length must not take all memory

// File systems on which the shared memory of WAL does not work between machines (statfs magic numbers).
bool on_network(const std::string& path) {
  constexpr std::array<std::uint32_t, 12> kNetworkMagic = {
      0x6969,      // NFS
      0x517B,      // SMB
      0xFF534D42,  // CIFS
      0xFE534D42,  // SMB2
      0x65735546,  // FUSE: sshfs and the like
      0x5346414F,  // AFS
      0x01021997,  // 9P
      0x0BD00BD0,  // Lustre
      0x47504653,  // GPFS
      0x19830326,  // BeeGFS
      0x00C36400,  // Ceph
      0x6B414653,  // kAFS
  };
  struct statfs info{};
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (statfs(folder.empty() ? "." : folder.c_str(), &info) != 0) return true;  // the careful choice
  return std::ranges::find(kNetworkMagic, static_cast<std::uint32_t>(info.f_type)) != kNetworkMagic.end();
}

}  // namespace

Status sqlite_error(const SQLite::Exception& error, const std::string& path, const DatabaseNoun& noun) {
  const std::string text = fmt::format("{}: {}", path, error.what());
  const auto damaged = [&] {
    return invalid_input(fmt::format("{}: the {} is damaged ({})", path, noun.name, error.what()));
  };
  switch (error.getErrorCode()) {
    case SQLITE_NOTADB:
      return invalid_input(
          fmt::format("{}: not a {}: the file is no SQLite database; {}", path, noun.name, noun.not_a_database));
    case SQLITE_CORRUPT:
      return invalid_input(
          fmt::format("{}: the {} is damaged ({}); {}", path, noun.name, error.what(), noun.when_damaged));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return io_error(fmt::format("{}: another process held the {} locked for over {} s", path, noun.name,
                                  kBusyTimeoutMilliseconds / 1000));
    case SQLITE_READONLY:
      // A file that may be written says of itself that it may not: its header is damaged.
      return access(path.c_str(), W_OK) == 0 ? damaged() : io_error(text);
    case SQLITE_NOMEM: return out_of_memory(text);
    case SQLITE_TOOBIG:
    case SQLITE_MISMATCH: return damaged();
    case SQLITE_ERROR:  // a damaged schema shows as a malformed statement
    case SQLITE_CONSTRAINT: return invalid_input(text);
    default: return io_error(text);
  }
}

void set_journal_mode(SQLite::Database& database, const std::string& path) {
  const bool network = on_network(path);
  const std::string sql = network ? "PRAGMA journal_mode = DELETE" : "PRAGMA journal_mode = WAL";
  // The change of mode needs the file for itself for a moment, and SQLite does not always wait for that.
  for (int attempt = 0;; ++attempt) {
    try {
      database.execAndGet(sql);
      break;
    } catch (const SQLite::Exception& error) {
      if (error.getErrorCode() != SQLITE_BUSY || attempt >= 100) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  database.exec(network ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
}

void distrust(SQLite::Database& database) {
  sqlite3_limit(database.getHandle(), SQLITE_LIMIT_LENGTH, kLongestValue);
  database.exec("PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON");
}

bool is_empty(SQLite::Database& database) {
  return database.execAndGet("SELECT count(*) FROM sqlite_master").getInt64() == 0;
}

Status make_parent_folder(const std::string& path, const DatabaseNoun& noun) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return io_error(
        fmt::format("{}: cannot make the folder of the {}: {}", folder.string(), noun.name, error.message()));
  return {};
}

std::string utc_now() {
  const auto now = std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto seconds = std::chrono::time_point_cast<std::chrono::seconds>(now);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)),
                     (now - seconds).count());
}

}  // namespace sparsmith
