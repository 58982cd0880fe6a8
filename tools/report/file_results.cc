#include "tools/report/file_results.h"

#include <algorithm>
#include <thread>

#include "matrix/safetensors.h"
#include "matrix/weight_structure.h"
#include "tools/report/sections.h"
#include "tools/report/speedups.h"

namespace sparsmith::tools {
namespace {

// Bytes that a run moves at least: the weight as the choice has it, X and Y.
double bytes_moved(const TunedWeight& weight, const TunedChoice& choice) {
  const TunedPacking* const packing = weight.packing(choice.packing);
  const std::int64_t bytes = packing == nullptr ? weight.dense_bytes() : packing->bytes();
  const std::int64_t activations =
      choice.tokens * (weight.rows + weight.cols) * static_cast<std::int64_t>(size_of(weight.type));
  return static_cast<double>(bytes + activations);
}

ResultCase case_of(const TunedWeight& weight, const TunedOperator& op, const TunedChoice& choice) {
  const double elements = static_cast<double>(weight.rows) * static_cast<double>(weight.cols);
  ResultCase one;
  one.weight = weight.name;
  one.operator_name = op.spec.name();
  one.rows = weight.rows;
  one.cols = weight.cols;
  one.nnz = weight.nnz;
  one.sparsity = elements > 0 ? 1 - static_cast<double>(one.nnz) / elements : 0;
  one.tokens = choice.tokens;
  one.family = family_of(choice.config);
  one.measured = choice.evidence == TunedChoice::Evidence::kMeasured;
  one.us = choice.median_us;
  one.cublas_us = choice.dense_us;
  one.bytes_moved = bytes_moved(weight, choice);
  if (const TunedPacking* const packing = weight.packing(choice.packing))
    one.packed_bytes = static_cast<double>(packing->bytes());
  one.dense_bytes = static_cast<double>(weight.dense_bytes());
  one.gpu_bytes = static_cast<double>(weight.packed_bytes());
  one.reason = choice.reason;
  return one;
}

}  // namespace

Result<ModelAnalysis> analyzed(const ModelFile& file, const SelectionOptions& selection) {
  constexpr unsigned kMaxThreads = 8;  // more do not read faster
  return analyze_model(file, selection,
                       static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kMaxThreads)));
}

Result<LayerAnalysis> layer_analysis(const ModelFile& file, const ModelAnalysis& analysis) {
  LayerAnalysis result;
  result.source = file.path();
  for (const AnalyzedWeight& weight : analysis.weights) {
    AnalyzedLayer& layer = result.layers.emplace_back();
    layer.name = file.tensors()[weight.index].name;
    layer.statistics = weight.statistics;
    if (const auto structure = structure_of(weight.statistics)) layer.structure = structure->text();
    if (result.layers.size() > kDetailedLayers) continue;
    SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix, file.read(weight.index));
    layer.map = density_map(matrix, kMapCells);
  }
  for (const SkippedTensor& tensor : analysis.skipped)
    result.skipped.push_back({tensor.name, tensor.description, tensor.reason});
  return result;
}

bool says_tuned(std::span<const std::byte> file) {
  const Result<SafetensorsHeader> header = parse_safetensors_header(file);
  if (!header.ok()) return false;
  const auto format = header->metadata.find("format");
  return format != header->metadata.end() && format->second == "sparsmith";
}

TuningResults tuned_results(const TunedContents& contents, const std::string& source) {
  TuningResults results{.source = source, .device = contents.provenance.device_name};
  for (const TunedWeight& weight : contents.weights) {
    for (const TunedOperator& op : weight.operators)
      for (const TunedChoice& choice : op.choices) results.cases.push_back(case_of(weight, op, choice));
  }
  return results;
}

}  // namespace sparsmith::tools
