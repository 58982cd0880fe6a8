// Times the layers of a tuned file with Google Benchmark, for `sparsmith perf record --google-benchmark`.
//
//   layer_benchmark TUNED --benchmark_out=round.json --benchmark_out_format=json
//
// check: reads and checks the file on the CPU. layer/NAME/N: runs a layer on the GPU for each N that was tuned, one
// call after the other, so that a small weight stays in L2. Without a GPU, only the check is timed.
#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sparsmith/tuned_model.h"

namespace {

using sparsmith::Operator;
using sparsmith::Result;
using sparsmith::Status;

Status checked(cudaError_t error) {
  return error == cudaSuccess ? Status() : sparsmith::device_error(cudaGetErrorString(error));
}

// Device memory of zeros, freed with its last owner.
Result<std::shared_ptr<void>> device_memory(std::size_t bytes) {
  void* memory = nullptr;
  SPARSMITH_RETURN_IF_ERROR(checked(cudaMalloc(&memory, bytes)));
  std::shared_ptr<void> owner(memory, &cudaFree);
  SPARSMITH_RETURN_IF_ERROR(checked(cudaMemset(memory, 0, bytes)));
  return owner;
}

// Arrays for every operand of a run with `tokens` tokens.
struct Arguments {
  sparsmith::RunArguments run;
  std::vector<std::shared_ptr<void>> owners;
};
Result<Arguments> arguments_of(const Operator& layer, std::int64_t tokens) {
  Arguments arguments;
  arguments.run.tokens = tokens;
  for (const sparsmith::Operand& operand : layer.info().operands) {
    if (!operand.present) continue;
    const auto elements = operand.elements(tokens, operand.length.of(tokens));
    SPARSMITH_ASSIGN_OR_RETURN(auto memory, device_memory(elements * size_of(operand.type)));
    arguments.run.operands.set(operand.name, {memory.get()});
    arguments.owners.push_back(std::move(memory));
  }
  SPARSMITH_ASSIGN_OR_RETURN(const std::size_t bytes, layer.workspace_bytes(tokens));
  SPARSMITH_ASSIGN_OR_RETURN(auto workspace, device_memory(bytes + 1));
  arguments.run.workspace = workspace.get();
  arguments.owners.push_back(std::move(workspace));
  return arguments;
}

constexpr int kCalls = 20;  // between two events, whose resolution is about 0.5 us

// Seconds of a call.
Result<double> time_calls(const Operator& layer, const Arguments& arguments, cudaEvent_t start, cudaEvent_t end) {
  SPARSMITH_RETURN_IF_ERROR(checked(cudaEventRecord(start)));
  for (int call = 0; call < kCalls; ++call) SPARSMITH_RETURN_IF_ERROR(layer.run(arguments.run, nullptr));
  SPARSMITH_RETURN_IF_ERROR(checked(cudaEventRecord(end)));
  SPARSMITH_RETURN_IF_ERROR(checked(cudaEventSynchronize(end)));
  float milliseconds = 0;
  SPARSMITH_RETURN_IF_ERROR(checked(cudaEventElapsedTime(&milliseconds, start, end)));
  return milliseconds / 1e3 / kCalls;
}

void time_layer(benchmark::State& state, const Operator& layer, std::int64_t tokens) {
  const Result<Arguments> arguments = arguments_of(layer, tokens);
  if (!arguments.ok()) return state.SkipWithError(arguments.status().to_string().c_str());
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  const Status events = checked(cudaEventCreate(&start));
  if (!events.ok() || cudaEventCreate(&end) != cudaSuccess) return state.SkipWithError("no CUDA event");
  for (auto iteration : state) {
    const Result<double> seconds = time_calls(layer, *arguments, start, end);
    if (!seconds.ok()) {
      state.SkipWithError(seconds.status().to_string().c_str());
      break;
    }
    state.SetIterationTime(*seconds);
  }
  cudaEventDestroy(start);
  cudaEventDestroy(end);
}

void register_layers(const sparsmith::TunedModel& model) {
  for (const std::string& name : model.names()) {
    const Result<Operator> layer = model.op(name);
    if (!layer.ok()) continue;  // tuned for training alone
    for (const sparsmith::ChoiceInfo& choice : layer->info().choices) {
      benchmark::RegisterBenchmark(("layer/" + name + "/" + std::to_string(choice.tokens)).c_str(), time_layer, *layer,
                                   choice.tokens)
          ->UseManualTime();
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: layer_benchmark TUNED [OPTION OF GOOGLE BENCHMARK]...\n");
    return 2;
  }
  const std::string tuned = argv[1];
  benchmark::RegisterBenchmark("check", [&tuned](benchmark::State& state) {
    for (auto iteration : state) {
      const Status status = sparsmith::TunedModel::validate(tuned);
      if (!status.ok()) return state.SkipWithError(status.to_string().c_str());
    }
  })->Unit(benchmark::kMicrosecond);
  const Result<sparsmith::TunedModel> model = sparsmith::TunedModel::load(tuned);
  if (model.ok()) {
    register_layers(*model);
  } else {
    std::fprintf(stderr, "the layers are not timed: %s\n", model.status().to_string().c_str());
    if (model.status().code() != sparsmith::StatusCode::kNoDevice) return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
}
