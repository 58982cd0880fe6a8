// Configs as bytes choose them, values that no family has among them: what passes the rules is predicted and, for one
// input in 32, packed and generated, for several operators and numbers of tokens.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "base/hash.h"
#include "generator/family.h"
#include "matrix/synthesis.h"

namespace sparsmith {
namespace {

struct Weight {
  CsrMatrix matrix;
  SparsityStatistics statistics;
};

std::vector<Weight> draw_weights() {
  std::vector<Weight> weights;
  for (const auto& [rows, cols, sparsity, pattern] :
       {std::tuple(40, 72, 0.7, "lognormal:1"), std::tuple(64, 128, 0.5, "2:4"), std::tuple(1, 3, 0.4, "uniform"),
        std::tuple(33, 300, 1.0, "uniform")}) {
    SynthesisSpec spec{.rows = rows, .cols = cols, .sparsity = sparsity, .data_type = DataType::kFloat16, .seed = 1};
    spec.pattern = parse_synthesis_pattern(pattern).value();
    Weight weight{synthesize(spec).value(), {}};
    weight.statistics = compute_statistics(weight.matrix);
    weights.push_back(std::move(weight));
  }
  return weights;
}

// Bytes one by one; 0 where there are none left.
struct Bytes {
  std::span<const std::uint8_t> left;
  std::uint8_t next() {
    if (left.empty()) return 0;
    const std::uint8_t byte = left.front();
    left = left.subspan(1);
    return byte;
  }
  std::int64_t number() {
    std::uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits = bits << 8 | next();
    return static_cast<std::int64_t>(bits);
  }
};

Problem problem_of(Bytes& bytes, const Weight& weight) {
  const std::uint8_t bits = bytes.next();
  Problem problem;
  problem.spec.rows = weight.matrix.rows;
  problem.spec.cols = weight.matrix.cols;
  problem.spec.type = (bits & 1) != 0 ? DataType::kFloat16 : (bits & 2) != 0 ? DataType::kBFloat16 : DataType::kFloat32;
  problem.spec.layout = (bits & 4) != 0 ? Layout::kTokenMajor : Layout::kFeatureMajor;
  problem.spec.epilogue.bias = (bits & 8) != 0;
  problem.spec.epilogue.beta = (bits & 16) != 0;
  problem.spec.epilogue.residual = (bits & 32) != 0;
  problem.spec.epilogue.gated = (bits & 50) == 2 && problem.spec.rows % 2 == 0;
  if ((bits & 65) == 65) problem.spec.accumulation = Accumulation::kFp16Chains;
  problem.tokens = 1 + bytes.next();
  problem.device = typical_device((bits & 128) != 0 ? 80 : 90);
  return problem;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<Weight> weights = draw_weights();
  Bytes bytes{{data, size}};
  const Family& tested = *families()[bytes.next() % families().size()];
  const Weight& weight = weights[bytes.next() % weights.size()];
  // Generating takes a hundred times as long. By a hash: inputs that a fuzzer makes of one that generates rarely do.
  const bool generates = hash64({reinterpret_cast<const char*>(data), size}) % 32 == 0;
  Problem problem = problem_of(bytes, weight);
  if (!tested.serves(problem.spec)) {
    OperatorSpec& spec = problem.spec;
    spec = {.type = spec.type,
            .layout = spec.layout,
            .epilogue = {.beta = spec.epilogue.beta},
            .kind = OperatorKind::kSddmm};
    spec.set_weight(weight.matrix.rows, weight.matrix.cols, weight.matrix.nnz());
  }
  Config config{tested.name, {}};
  for (const Parameter& parameter : tested.parameters) {
    const std::uint8_t choice = bytes.next();
    config.values[parameter.name] =
        choice == 0xFF ? bytes.number() : parameter.values[choice % parameter.values.size()];
  }
  const auto again = Config::parse(config.text());
  if (!again.ok() || *again != config) std::abort();
  if (!tested.check(config, problem, weight.statistics).ok()) return 0;
  const double predicted = tested.predict(config, problem, weight.statistics);
  if (!std::isfinite(predicted) || predicted <= 0) std::abort();
  if (!generates) return 0;
  const auto packed = tested.pack(config, problem, weight.matrix);
  if (!packed.ok()) return 0;
  if (packed->packing != tested.packing(config, problem)) std::abort();
  const auto candidate = tested.generate(config, problem, *packed);
  if (candidate.ok() && candidate->plan.steps.empty()) std::abort();
  return 0;
}

}  // namespace sparsmith
