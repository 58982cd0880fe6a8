#include "generator/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "formats/packed_format.h"
#include "generator/bitmap_family.h"
#include "generator/bsr_family.h"
#include "generator/dense_family.h"
#include "generator/gather_family.h"
#include "generator/panel_family.h"
#include "generator/rows_family.h"
#include "generator/sampled_family.h"
#include "generator/scatter_family.h"
#include "generator/slots_family.h"
#include "generator/specialized_family.h"
#include "generator/two_four_family.h"
#include "generator/wgmma_family.h"

namespace sparsmith {

Status Family::check(const Config& config, const Problem& problem, const SparsityStatistics& statistics) const {
  if (!serves(problem.spec))
    return invalid_argument(fmt::format("{} does not compute {}", name(), operator_kind_name(problem.spec.kind)));
  Config complete = config;
  for (const Parameter& parameter : parameters()) {
    if (parameter.later) complete.values.emplace(parameter.name, 0);
    const auto found = complete.values.find(parameter.name);
    if (found == complete.values.end())
      return invalid_argument(fmt::format("{}: config has no {}", name(), parameter.name));
    if (std::find(parameter.values.begin(), parameter.values.end(), found->second) == parameter.values.end())
      return invalid_argument(fmt::format("{}: {} = {} is none of its values", name(), parameter.name, found->second));
  }
  const RuleInput input{complete, problem, statistics};
  for (const Rule& rule : rules()) {
    if (rule.kind == Rule::Kind::kLegal && !rule.holds(input))
      return invalid_argument(fmt::format("{}: {}", name(), rule.reason));
  }
  return {};
}

std::string Family::packing(const Config& config, const Problem& problem) const {
  std::string packing = packing_of_rows(config, problem);
  return problem.spec.kind == OperatorKind::kSpmmTransposed ? transposed_packing(packing) : packing;
}

Result<PackedWeight> Family::pack(const Config& config, const Problem& problem, const CsrMatrix& matrix) const {
  return sparsmith::pack(packing(config, problem), matrix, problem.spec.type);
}

std::vector<Ablation> Family::ablations(const Config& /*config*/) const { return {}; }

Result<Candidate> Family::generate_without(Ablation part, const Config& /*config*/, const Problem& /*problem*/,
                                           const PackedWeight& /*packed*/) const {
  return unsupported(fmt::format("{}: there is no build for \"{}\"", name(), ablation_name(part)));
}

namespace {

template <class... Each>
std::array<std::unique_ptr<Family>, sizeof...(Each)> one_of_each() {
  return {std::make_unique<Each>()...};
}

}  // namespace

std::span<const std::unique_ptr<Family>> families() {
  static const auto all =
      one_of_each<RowsFamily, PanelFamily, SlotsFamily, BitmapFamily, ScatterFamily, GatherFamily, BsrFamily,
                  WgmmaFamily, SpecializedFamily, TwoFourFamily, SampledFamily, DenseFamily>();
  return all;
}

const Family* family(std::string_view name) {
  for (const auto& each : families())
    if (each->name() == name) return each.get();
  return nullptr;
}

bool is_baseline(const Config& config) {
  const Family* const of = family(config.family);
  return of != nullptr && of->is_baseline();
}

}  // namespace sparsmith
