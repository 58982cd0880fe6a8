// A cache whose rows were altered: values of any type in any column, rows removed and doubled, the schema kept. The
// cache gives sound rows or none, and what reads the others holds.
//
// The input is a list of changes: table, row, column, type, length and bytes of the new value.
#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "base/file.h"
#include "tests/fuzz/cache_sample.h"

namespace sparsmith {
namespace {

class Changes {
 public:
  explicit Changes(std::span<const std::uint8_t> bytes) : left_(bytes) {}
  bool more() const { return left_.size() >= 5; }
  std::span<const std::uint8_t> take(std::size_t count) {
    const auto bytes = left_.first(std::min(count, left_.size()));
    left_ = left_.subspan(bytes.size());
    return bytes;
  }
  std::uint8_t byte() { return more() ? take(1).front() : 0; }

 private:
  std::span<const std::uint8_t> left_;
};

struct Table {
  const char* name;
  std::vector<const char*> columns;
};

const std::vector<Table>& tables() {
  static const std::vector<Table> all = {
      {"meta", {"key", "value"}},
      {"device", {"id", "device_class", "name", "compute_capability", "sm_count", "memory_bytes", "memory_bandwidth"}},
      {"environment", {"id", "driver_version", "nvrtc_version", "program_version"}},
      {"weight", {"pattern_hash", "value_hash", "rows", "cols", "nnz", "histogram"}},
      {"kernel", {"name", "closure_hash", "config"}},
      {"binary",
       {"name", "closure_hash", "architecture", "nvrtc_version", "cubin", "hash", "registers", "spill_store_bytes",
        "stack_bytes", "static_shared_bytes", "used_at"}},
      {"measurement",
       {"uid",       "pattern_hash", "operator",  "tokens", "device_class",   "timing_policy", "config",
        "packing",   "closure_hash", "device_id", "status", "environment_id", "abandoned",     "reason",
        "median_us", "q1_us",        "samples",   "copies", "warm",           "began_at",      "ended_at"}},
      {"choice", {"pattern_hash", "operator", "tokens", "device_class", "timing_policy", "compute_capability",
                  "sm_count",     "kind",     "config", "packing",      "closure_hash",  "nvrtc_version",
                  "evidence",     "families", "us",     "q1_us",        "complete",      "budget_s",
                  "chosen_at",    "checksum"}},
  };
  return all;
}

void bind_value(SQLite::Statement& statement, int type, std::span<const std::uint8_t> bytes) {
  std::int64_t bits = 0;
  std::memcpy(&bits, bytes.data(), std::min(bytes.size(), sizeof(bits)));
  double number = 0;
  std::memcpy(&number, &bits, sizeof(number));
  switch (type) {
    case 0: statement.bind(1, bits); break;
    case 1: statement.bind(1, number); break;
    case 2: statement.bind(1, static_cast<const void*>(bytes.data()), static_cast<int>(bytes.size())); break;
    default: statement.bind(1, std::string(bytes.begin(), bytes.end())); break;
  }
}

void change(SQLite::Database& database, Changes& changes) {
  const Table& table = tables()[changes.byte() % tables().size()];
  const int row = changes.byte() % 16;
  const char* const column = table.columns[changes.byte() % table.columns.size()];
  const int kind = changes.byte() % 6;
  const auto bytes = changes.take(changes.byte());
  const std::string key = table.columns.front();
  const std::string place = fmt::format("{} = (SELECT {} FROM {} LIMIT 1 OFFSET {})", key, key, table.name, row);
  const std::string sql = kind == 5 ? fmt::format("DELETE FROM {} WHERE {}", table.name, place)
                                    : fmt::format("UPDATE OR REPLACE {} SET {} = {} WHERE {}", table.name, column,
                                                  kind == 4 ? "'9e999'" : "?1", place);
  SQLite::Statement statement(database, sql);
  if (kind < 4) bind_value(statement, kind, bytes);
  statement.exec();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string path = fuzz::file_in_memory("rows");
  fuzz::remove_database(path);
  if (!write_file_atomically(path, fuzz::cache_sample()).ok()) std::abort();
  try {
    SQLite::Database database(path, SQLite::OPEN_READWRITE);
    database.exec("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF");
    Changes changes({data, size});
    for (int i = 0; i < 8 && changes.more(); ++i) {
      try {
        change(database, changes);
      } catch (const SQLite::Exception&) {  // a constraint of the schema
      }
    }
  } catch (const SQLite::Exception&) {
    return 0;
  }
  if (auto cache = Cache::open(path, Cache::Mode::kReadOnly); cache.ok()) {
    fuzz::read_all(*cache);
    (void)cache->verify();
  }
  fuzz::remove_database(path);
  return 0;
}

}  // namespace sparsmith
