// The performance history as its tables see it. Internal to history/.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "history/connection.h"
#include "history/store.h"

namespace sparsmith {

// The rows that the last measurement of a case refers to. Rows are never removed, so ids stay good.
struct KnownCase {
  std::int64_t case_id = 0;
  std::string command;
  std::int64_t implementation_id = 0;
  Implementation implementation;
};

struct PerfStore::State {
  std::unique_ptr<HistoryConnection> connection;
  std::map<CaseKey, KnownCase> known{};                      // that were committed
  std::map<std::int64_t, Implementation> implementations{};  // read so far
};

// Makes the tables where there are none, and brings older ones up to date.
//   Error: kInvalidInput when the database holds something else, or tables of a newer program; kNotFound when it holds
//   nothing and is opened for reading alone.
Status prepare_schema(HistoryConnection& connection, PerfStore::Mode mode);

// Kernels as the column `kernels` holds them: a JSON array. Error: kInvalidInput when it is none.
std::string kernels_to_json(const std::vector<PerfKernel>& kernels);
Result<std::vector<PerfKernel>> kernels_from_json(const std::string& text);

}  // namespace sparsmith
