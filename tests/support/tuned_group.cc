#include "tests/support/tuned_group.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "matrix/model_file.h"
#include "matrix/safetensors.h"
#include "matrix/synthesis.h"
#include "matrix/weight_groups.h"
#include "runtime/tuned_file.h"
#include "search/record/tuned_output.h"
#include "tuner/verify/error_bound.h"

namespace sparsmith::test {
namespace {

constexpr std::uint64_t kSeed = 41;
constexpr std::int64_t kCols = 192;
constexpr std::int64_t kPadding = 8;  // of leading dimensions
constexpr std::int64_t kRows[] = {160, 48, 56};
constexpr const char* kNames[] = {"q", "k", "v"};

Status write_model(const std::string& path, DataType type) {
  std::vector<std::string> bytes;
  std::vector<SafetensorsPart> parts;
  bytes.reserve(std::size(kNames));  // parts point into it
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    SynthesisSpec spec{.rows = kRows[i], .cols = kCols, .sparsity = 0.9, .data_type = type, .seed = kSeed + i};
    SPARSMITH_ASSIGN_OR_RETURN(spec.pattern, parse_synthesis_pattern("lognormal:0.5"));
    SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix, synthesize(spec));
    bytes.push_back(dense_bytes(matrix));
    parts.push_back({fmt::format("layers.3.attention.{}.weight", kNames[i]),
                     std::string(safetensors_name(type)),
                     {matrix.rows, matrix.cols},
                     std::as_bytes(std::span(bytes.back()))});
  }
  return write_safetensors(path, parts, {});
}

OperatorSpec spec_of(const GroupCase& group_case, std::int64_t rows) {
  return {rows, kCols, group_case.type, group_case.layout, Epilogue::parse("bias+relu+residual").value()};
}

}  // namespace

std::string text_of(const GroupCase& group_case) {
  return fmt::format("{}_{}_{}", short_name(group_case.type), layout_name(group_case.layout), group_case.tokens);
}

Result<std::unique_ptr<TunedGroup>> TunedGroup::make(const GroupCase& group_case, const TuneResources& resources) {
  auto made = std::make_unique<TunedGroup>();
  made->case_ = group_case;
  const std::string model_path = made->directory_.file("model.safetensors");
  SPARSMITH_RETURN_IF_ERROR(write_model(model_path, group_case.type));
  SPARSMITH_ASSIGN_OR_RETURN(const ModelFile model, ModelFile::open(model_path));
  GroupSearch search;
  SPARSMITH_ASSIGN_OR_RETURN(search.patterns.emplace_back(),
                             parse_group_pattern("qkv:*.q.weight,*.k.weight,*.v.weight"));
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<WeightGroup> groups, find_groups(model, search));

  WeightInput input{.name = groups.at(0).name, .load = nullptr};
  for (const std::size_t index : groups.at(0).members) {
    input.members.push_back({model.tensors()[index].name, [&model, index] { return model.read(index); }});
    made->members_.push_back(input.members.back().name);
  }
  const OperatorSpec spec = spec_of(group_case, 0);
  TuneOptions options;
  options.tokens = {group_case.tokens};
  options.layout = spec.layout;
  options.epilogue = spec.epilogue;
  options.selection.candidates = 6;
  SPARSMITH_ASSIGN_OR_RETURN(const TuneReport report, tune(std::span(&input, 1), options, resources));
  TunedProvenance provenance;
  provenance.device_class = report.device.device_class();
  SPARSMITH_RETURN_IF_ERROR(write_tuned_file(made->path(), tuned_contents(report, provenance)));
  SPARSMITH_ASSIGN_OR_RETURN(const TunedFile file, TunedFile::open(made->path()));
  SPARSMITH_RETURN_IF_ERROR(file.contents().find_weight(kName).status());
  return made;
}

std::int64_t TunedGroup::output_index(const MemberView& view, std::int64_t row, std::int64_t token) const {
  return view.offset + (case_.layout == Layout::kTokenMajor ? token * view.ld + row : row * view.ld + token);
}

Result<std::vector<TunedGroup::Member>> TunedGroup::problems(const MemberOf& member, std::int64_t tokens,
                                                             float factor) const {
  SPARSMITH_ASSIGN_OR_RETURN(const ModelFile model, ModelFile::open(directory_.file("model.safetensors")));
  const std::int64_t all_rows = kRows[0] + kRows[1] + kRows[2];
  const std::int64_t ldy = (case_.layout == Layout::kTokenMajor ? all_rows : tokens) + kPadding;
  std::vector<Member> members;
  for (const std::string& name : members_) {
    Member& each = members.emplace_back();
    SPARSMITH_ASSIGN_OR_RETURN(each.matrix, model.read(*model.find(name)));
    for (float& value : each.matrix.values) value *= factor;
    SPARSMITH_ASSIGN_OR_RETURN(each.view, member(name, tokens, ldy));
    if (each.view.rows != each.matrix.rows) {
      return internal_error(fmt::format("{} has {} rows, not {}", name, each.view.rows, each.matrix.rows));
    }
  }
  for (Member& each : members) {  // which stay where they are from here on
    each.problem =
        std::make_unique<ReferenceProblem>(each.matrix, spec_of(case_, each.matrix.rows),
                                           ProblemOptions{.tokens = tokens, .seed = kSeed, .padding = kPadding});
    each.problem->set_sums(each.problem->compute_sums());
  }
  return members;
}

GroupInputs TunedGroup::inputs(const std::vector<Member>& members) const {
  GroupInputs inputs;
  const ReferenceProblem& first = *members.front().problem;
  inputs.tokens = first.tokens();
  inputs.alpha = first.alpha();
  inputs.x = first.x();
  inputs.ldx = first.operand("x").stride;
  inputs.ldy = members.front().view.ld;
  std::int64_t rows = 0;
  for (const Member& member : members) rows += member.matrix.rows;
  inputs.bias = ElementBuffer(case_.type, rows);
  inputs.y = ElementBuffer(case_.type, inputs.ldy * (case_.layout == Layout::kTokenMajor ? inputs.tokens : rows));
  for (std::int64_t i = 0; i < inputs.y.size(); ++i) inputs.y.set(i, std::numeric_limits<float>::quiet_NaN());
  inputs.residual = inputs.y;
  for (const Member& member : members) {
    const ReferenceProblem& problem = *member.problem;
    for (std::int64_t row = 0; row < member.matrix.rows; ++row) {
      inputs.bias.set(member.view.first_row + row, problem.operand("bias").contents.get(row));
      for (std::int64_t token = 0; token < inputs.tokens; ++token) {
        inputs.residual.set(output_index(member.view, row, token),
                            problem.operand("residual").contents.get(problem.output_index(row, token)));
      }
    }
  }
  return inputs;
}

Result<std::vector<float>> TunedGroup::values(float factor) const {
  SPARSMITH_ASSIGN_OR_RETURN(const ModelFile model, ModelFile::open(directory_.file("model.safetensors")));
  std::vector<float> values;
  for (const std::string& name : members_) {
    SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix, model.read(*model.find(name)));
    for (const float value : matrix.values) values.push_back(factor * value);
  }
  return values;
}

Status TunedGroup::check(const MemberOf& member, const Run& run, float factor) const {
  const std::int64_t tokens = std::max<std::int64_t>(1, case_.tokens - 1);
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<Member> members, problems(member, tokens, factor));
  GroupInputs run_inputs = inputs(members);
  SPARSMITH_RETURN_IF_ERROR(run(run_inputs));
  for (std::size_t i = 0; i < members.size(); ++i) {
    for (std::int64_t row = 0; row < members[i].matrix.rows; ++row) {
      for (std::int64_t token = 0; token < tokens; ++token) {
        const float y = run_inputs.y.get(output_index(members[i].view, row, token));
        const BoundedOutput expected = members[i].problem->expected(row, token);
        if (within_bound(case_.type, expected, y)) continue;
        return internal_error(fmt::format("{}: row {} of token {} is {}, not {} +- {}", members_[i], row, token, y,
                                          expected.value, expected.bound));
      }
    }
  }
  return {};
}

}  // namespace sparsmith::test
