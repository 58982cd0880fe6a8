#include "generator/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "formats/packed_format.h"
#include "generator/families/bitmap/bitmap_family.h"
#include "generator/families/bsr/bsr_family.h"
#include "generator/families/bsr_strips/bsr_strips_family.h"
#include "generator/families/bsr_wgmma/bsr_wgmma_family.h"
#include "generator/families/cooperative/cooperative_family.h"
#include "generator/families/dense/dense_family.h"
#include "generator/families/gather/gather_family.h"
#include "generator/families/hybrids/hybrids.h"
#include "generator/families/panel/panel_family.h"
#include "generator/families/rows/rows_family.h"
#include "generator/families/sampled/sampled_family.h"
#include "generator/families/sampled_regions/sampled_regions_family.h"
#include "generator/families/sampled_wgmma/sampled_wgmma_family.h"
#include "generator/families/scatter/scatter_family.h"
#include "generator/families/slots/slots_family.h"
#include "generator/families/specialized/specialized_family.h"
#include "generator/families/two_four/two_four_family.h"
#include "generator/families/two_four_wgmma/two_four_wgmma_family.h"
#include "generator/families/unpack_bitmap/unpack_bitmap_family.h"
#include "generator/families/unpack_scatter/unpack_scatter_family.h"
#include "generator/families/wgmma/wgmma_family.h"

namespace sparsmith {

Status Family::check(const Config& config, const Problem& problem, const SparsityStatistics& statistics) const {
  if (!serves(problem.spec))
    return invalid_argument(fmt::format("{} does not compute {}", name, operator_kind_name(problem.spec.kind)));
  Config complete = config;
  for (const Parameter& parameter : parameters) {
    if (parameter.later) complete.values.emplace(parameter.name, 0);
    const auto found = complete.values.find(parameter.name);
    if (found == complete.values.end())
      return invalid_argument(fmt::format("{}: config has no {}", name, parameter.name));
    if (std::find(parameter.values.begin(), parameter.values.end(), found->second) == parameter.values.end())
      return invalid_argument(fmt::format("{}: {} = {} is none of its values", name, parameter.name, found->second));
  }
  const RuleInput input{complete, problem, statistics};
  for (const Rule& rule : rules) {
    if (rule.kind == Rule::Kind::kLegal && !rule.holds(input))
      return invalid_argument(fmt::format("{}: {}", name, rule.reason));
  }
  return {};
}

std::string Family::packing(const Config& config, const Problem& problem) const {
  std::string packing = packing_of_rows(config, problem);
  const bool transposed = packs_transposed && problem.spec.kind == OperatorKind::kSpmmTransposed;
  return transposed ? transposed_packing(packing) : packing;
}

Result<PackedWeight> Family::pack(const Config& config, const Problem& problem, const CsrMatrix& matrix) const {
  return sparsmith::pack(packing(config, problem), matrix, problem.spec.type);
}

Result<PlannedKernels> Family::plan(const Config& config, const Problem& problem, const PackedWeight& packed) const {
  if (without_coding(without_transposed(packed.packing)) != packing_of_rows(config, problem))
    return internal_error(fmt::format("{}: config reads another packing than {}", name, packed.packing));
  // Behind a library's product, sums are read in fp32; the other families leave V as an output.
  const bool gates = problem.spec.epilogue.gated && !by_library;
  Problem computed = problem;
  if (gates) computed.spec.epilogue = {.bias = problem.spec.epilogue.bias};
  SPARSMITH_ASSIGN_OR_RETURN(PlannedKernels planned, kernels(config, computed, packed));
  if (gates) gate_output(problem.spec, planned);
  std::ranges::stable_partition(planned.texts,
                                [&](const KernelText& text) { return text.name.starts_with(name + "_"); });
  return planned;
}

Result<Candidate> Family::generate(const Config& config, const Problem& problem, const PackedWeight& packed) const {
  SPARSMITH_ASSIGN_OR_RETURN(PlannedKernels planned, plan(config, problem, packed));
  return make_candidate(config, problem, packed, std::move(planned));
}

std::span<const Family* const> families() {
  static const Family* const all[] = {&rows_family(),
                                      &panel_family(),
                                      &slots_family(),
                                      &bitmap_family(),
                                      &scatter_family(),
                                      &gather_family(),
                                      &bsr_family(),
                                      &bsr_strips_family(),
                                      &bsr_wgmma_family(),
                                      &wgmma_family(),
                                      &specialized_family(),
                                      &cooperative_family(),
                                      &bsr_wgmma_rest_family(),
                                      &bsr_strips_rest_family(),
                                      &two_four_wgmma_rest_family(),
                                      &two_four_family(),
                                      &two_four_wgmma_family(),
                                      &unpack_bitmap_family(),
                                      &unpack_scatter_family(),
                                      &sampled_family(),
                                      &sampled_wgmma_family(),
                                      &sampled_regions_family(),
                                      &dense_family()};
  return all;
}

const Family* family(std::string_view name) {
  const auto found = std::ranges::find(families(), name, &Family::name);
  return found == families().end() ? nullptr : *found;
}

bool is_baseline(const Config& config) {
  const Family* const of = family(config.family);
  return of != nullptr && of->is_baseline;
}

}  // namespace sparsmith
