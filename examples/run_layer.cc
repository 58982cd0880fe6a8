// Loads a tuned file, captures one of its layers, without epilogue, into a CUDA graph, and replays it for one token.
//
// usage: run_layer TUNED TENSOR
// Exit code 0: the graph wrote what a plain run writes. 1: it did not, or something failed. 2: wrong usage.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "sparsmith/tuned_model.h"

namespace {

using sparsmith::Result;
using sparsmith::Status;

Status checked(cudaError_t error) {
  return error == cudaSuccess ? Status() : sparsmith::device_error(cudaGetErrorString(error));
}

// Memory of host and device, freed with its last owner.
Result<std::shared_ptr<void>> managed_memory(std::size_t bytes) {
  void* memory = nullptr;
  SPARSMITH_RETURN_IF_ERROR(checked(cudaMallocManaged(&memory, bytes)));
  return std::shared_ptr<void>(memory, &cudaFree);
}

// Whether a graph of the layer writes what a plain run writes.
Result<bool> replays(const std::string& tuned, const std::string& tensor) {
  SPARSMITH_ASSIGN_OR_RETURN(const auto model, sparsmith::TunedModel::load(tuned));
  SPARSMITH_ASSIGN_OR_RETURN(const auto layer, model.op(tensor));
  const std::size_t x_bytes = layer.info().cols * size_of(layer.info().type);
  const std::size_t y_bytes = layer.info().rows * size_of(layer.info().type);
  SPARSMITH_ASSIGN_OR_RETURN(const std::size_t workspace_bytes, layer.workspace_bytes(1));
  SPARSMITH_ASSIGN_OR_RETURN(const auto x, managed_memory(x_bytes));
  SPARSMITH_ASSIGN_OR_RETURN(const auto plain, managed_memory(y_bytes));
  SPARSMITH_ASSIGN_OR_RETURN(const auto replayed, managed_memory(y_bytes));
  SPARSMITH_ASSIGN_OR_RETURN(const auto workspace, managed_memory(workspace_bytes + 1));
  SPARSMITH_RETURN_IF_ERROR(checked(cudaMemset(x.get(), 0x3C, x_bytes)));
  SPARSMITH_RETURN_IF_ERROR(checked(cudaMemset(replayed.get(), 0xFF, y_bytes)));  // NaN

  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  SPARSMITH_RETURN_IF_ERROR(checked(cudaStreamCreate(&stream)));
  const auto run = [&](void* y) {
    return layer.run({.operands = {{"x", {x.get()}}, {"y", {y}}}, .workspace = workspace.get()}, stream);
  };
  SPARSMITH_RETURN_IF_ERROR(run(plain.get()));
  SPARSMITH_RETURN_IF_ERROR(checked(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal)));
  const Status captured = run(replayed.get());
  SPARSMITH_RETURN_IF_ERROR(checked(cudaStreamEndCapture(stream, &graph)));
  SPARSMITH_RETURN_IF_ERROR(captured);
  SPARSMITH_RETURN_IF_ERROR(checked(cudaGraphInstantiate(&executable, graph, 0)));
  SPARSMITH_RETURN_IF_ERROR(checked(cudaGraphLaunch(executable, stream)));
  SPARSMITH_RETURN_IF_ERROR(checked(cudaStreamSynchronize(stream)));
  return std::memcmp(plain.get(), replayed.get(), y_bytes) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: run_layer TUNED TENSOR\n");
    return 2;
  }
  const Result<bool> same = replays(argv[1], argv[2]);
  if (!same.ok()) {
    std::fprintf(stderr, "error: %s\n", same.status().to_string().c_str());
    return 1;
  }
  std::printf("%s: the graph wrote %s\n", argv[2], *same ? "the same" : "something else");
  return *same ? 0 : 1;
}
