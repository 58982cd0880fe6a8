#include "tools/report/tuned_results.h"

#include "matrix/safetensors.h"

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
  ResultCase one;
  one.weight = weight.name;
  one.operator_name = op.spec.name();
  one.rows = weight.rows;
  one.cols = weight.cols;
  one.nnz = weight.nnz;
  const double elements = static_cast<double>(one.rows) * static_cast<double>(one.cols);
  one.sparsity = elements > 0 ? 1 - static_cast<double>(one.nnz) / elements : 0;
  one.tokens = choice.tokens;
  one.config = choice.config;
  one.family = choice.config.substr(0, choice.config.find(' '));
  one.measured = choice.evidence == TunedChoice::Evidence::kMeasured;
  one.us = one.q1_us = one.q3_us = choice.median_us;
  one.cublas_us = choice.dense_us;
  if (const TunedPacking* const packing = weight.packing(choice.packing))
    one.packed_bytes = static_cast<double>(packing->bytes());
  one.bytes_moved = bytes_moved(weight, choice);
  return one;
}

}  // namespace

bool says_tuned(std::span<const std::byte> file) {
  const Result<SafetensorsHeader> header = parse_safetensors_header(file);
  if (!header.ok()) return false;
  const auto format = header->metadata.find("format");
  return format != header->metadata.end() && format->second == "sparsmith";
}

TuningResults tuned_results(const TunedContents& contents, const std::string& source) {
  TuningResults results;
  results.source = source;
  results.device = contents.provenance.device_name;
  for (const TunedWeight& weight : contents.weights) {
    for (const TunedOperator& op : weight.operators)
      for (const TunedChoice& choice : op.choices) results.cases.push_back(case_of(weight, op, choice));
    if (weight.dense_bytes() == 0) continue;
    results.bytes.push_back({weight.name, results.cases.back().sparsity, static_cast<double>(weight.dense_bytes()),
                             static_cast<double>(weight.packed_bytes())});
  }
  return results;
}

}  // namespace sparsmith::tools
