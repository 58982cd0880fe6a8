#include "search/weight_input.h"

#include <utility>

namespace sparsmith {
namespace {

Result<CsrMatrix> read_matrix(const WeightInput& input, const TuneOptions& options) {
  auto loaded = input.load();
  if (!loaded.ok()) return loaded.status().annotate(input.name);
  CsrMatrix matrix = options.transpose ? transposed(*loaded) : std::move(*loaded);
  if (options.type && *options.type != matrix.data_type) matrix = converted(matrix, *options.type);
  return matrix;
}

}  // namespace

Result<CsrMatrix> read_weight(const WeightInput& input, const TuneOptions& options, std::vector<GroupMember>& members) {
  if (input.members.empty()) return read_matrix(input, options);
  CsrMatrix group;
  for (const WeightInput& member : input.members) {
    SPARSMITH_ASSIGN_OR_RETURN(CsrMatrix matrix, read_matrix(member, options));
    members.push_back({member.name, group.rows, matrix.rows});
    if (members.size() == 1) {
      group = std::move(matrix);
      continue;
    }
    const Status appended = append_rows(group, matrix);
    if (!appended.ok()) return appended.annotate(input.name + ": member " + member.name);
  }
  return group;
}

}  // namespace sparsmith
