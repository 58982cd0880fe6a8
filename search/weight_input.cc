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

Result<CsrMatrix> read_whole(const WeightInput& input, const TuneOptions& options, std::vector<GroupMember>& members) {
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

}  // namespace

Result<CsrMatrix> read_weight(const WeightInput& input, const TuneOptions& options, std::vector<GroupMember>& members) {
  SPARSMITH_ASSIGN_OR_RETURN(CsrMatrix matrix, read_whole(input, options, members));
  for (const OperatorSpec& spec : options.specs_of(matrix.rows, matrix.cols, matrix.nnz(), matrix.data_type,
                                                   input.epilogue.value_or(options.epilogue)))
    SPARSMITH_RETURN_IF_ERROR(spec.check().annotate(input.name));
  return matrix;
}

}  // namespace sparsmith
