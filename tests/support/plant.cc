#include "tests/support/plant.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace sparsmith {
namespace {

std::optional<Plant> chosen() {
  const char* const text = std::getenv("SPARSMITH_PLANT");
  const std::string_view name = text == nullptr ? "" : text;
  if (name.empty()) return std::nullopt;
  if (name == "slow_snippet") return Plant::kSlowSnippet;
  if (name == "bank_schedule") return Plant::kBankSchedule;
  if (name == "cost_model") return Plant::kCostModel;
  if (name == "candidate_faults") return Plant::kCandidateFaults;
  fmt::print(stderr, "SPARSMITH_PLANT={}: one of slow_snippet, bank_schedule, cost_model, candidate_faults\n", name);
  std::exit(2);
}

}  // namespace

bool is_planted(Plant plant) { return chosen() == plant; }

}  // namespace sparsmith
