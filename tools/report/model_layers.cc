#include "tools/report/model_layers.h"

#include "tools/report/analysis_figures.h"

namespace sparsmith::tools {

Result<LayerAnalysis> layer_analysis(const ModelFile& file, const ModelAnalysis& analysis) {
  LayerAnalysis result;
  result.source = file.path();
  for (const AnalyzedWeight& weight : analysis.weights) {
    AnalyzedLayer& layer = result.layers.emplace_back();
    layer.name = file.tensors()[weight.index].name;
    layer.statistics = weight.statistics;
    if (result.layers.size() > kDetailedLayers) continue;
    SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix, file.read(weight.index));
    layer.map = density_map(matrix, kMapCells);
  }
  for (const SkippedTensor& tensor : analysis.skipped)
    result.skipped.push_back({tensor.name, tensor.description, tensor.reason});
  return result;
}

}  // namespace sparsmith::tools
