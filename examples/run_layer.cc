// Loads a tuned file, captures one of its layers, without epilogue, into a CUDA graph, and replays it for one token.
//
// usage: run_layer TUNED TENSOR        Exit code 0: the graph wrote what a plain run writes. 1: not. 2: wrong usage.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

#include "sparsmith/tuned_model.h"

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: run_layer TUNED TENSOR\n"), 2;
  const auto model = sparsmith::TunedModel::load(argv[1]).value();
  const auto layer = model.op(argv[2]).value();
  const std::size_t x_bytes = layer.info().cols * size_of(layer.info().type);
  const std::size_t y_bytes = layer.info().rows * size_of(layer.info().type);
  void *x = nullptr, *plain = nullptr, *replayed = nullptr, *workspace = nullptr;
  cudaMallocManaged(&x, x_bytes);
  cudaMallocManaged(&plain, y_bytes);
  cudaMallocManaged(&replayed, y_bytes);
  cudaMallocManaged(&workspace, layer.workspace_bytes(1).value() + 1);
  cudaMemset(x, 0x3C, x_bytes);
  cudaMemset(replayed, 0xFF, y_bytes);  // NaN

  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaStreamCreate(&stream);
  const auto first = layer.run({.operands = {{"x", {x}}, {"y", {plain}}}, .workspace = workspace}, stream);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  const auto captured = layer.run({.operands = {{"x", {x}}, {"y", {replayed}}}, .workspace = workspace}, stream);
  cudaStreamEndCapture(stream, &graph);
  cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphLaunch(executable, stream);
  cudaStreamSynchronize(stream);

  const bool same = first.ok() && captured.ok() && std::memcmp(plain, replayed, y_bytes) == 0;
  std::printf("%s: %s, %s; the graph wrote %s\n", argv[2], first.to_string().c_str(), captured.to_string().c_str(),
              same ? "the same" : "something else");
  return same && cudaGetLastError() == cudaSuccess ? 0 : 1;
}
