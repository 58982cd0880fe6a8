// Loads a tuned file, captures one of its layers into a CUDA graph and replays it.
//
// usage: run_layer TUNED TENSOR [TOKENS]
// Exit code 0: the graph wrote every output, and the same ones as the plain run. 1: failed. 2: wrong usage.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "sparsmith/tuned_model.h"

namespace {

void require(const sparsmith::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "error: %s\n", status.to_string().c_str());
  std::exit(1);
}
template <class T>
T require(sparsmith::Result<T> result) {
  if (!result.ok()) require(result.status());
  return std::move(result).value();
}
void require(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "error: CUDA: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

// Device memory whose every byte is `byte`.
void* device_memory(std::size_t bytes, int byte) {
  void* memory = nullptr;
  require(cudaMalloc(&memory, bytes));
  require(cudaMemset(memory, byte, bytes));
  return memory;
}
std::vector<unsigned char> to_host(const void* from, std::size_t bytes) {
  std::vector<unsigned char> host(bytes);
  require(cudaMemcpy(host.data(), from, bytes, cudaMemcpyDeviceToHost));
  return host;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: run_layer TUNED TENSOR [TOKENS]\n"), 2;
  const long tokens = argc > 3 ? std::atol(argv[3]) : 1;

  const auto model = require(sparsmith::TunedModel::load(argv[1], require(sparsmith::Device::open(0))));
  const auto layer = require(model.op(argv[2]));
  const auto info = layer.info();
  const std::size_t element = sparsmith::size_of(info.type);
  const std::size_t y_bytes = tokens * info.rows * element;
  sparsmith::RunArguments arguments{.x = device_memory(tokens * info.cols * element, 0x3C), .tokens = tokens};
  if (info.epilogue.find("bias") != std::string::npos) arguments.bias = device_memory(info.rows * element, 0x3C);
  if (info.epilogue.find("residual") != std::string::npos) arguments.residual = device_memory(y_bytes, 0x3C);
  arguments.workspace = device_memory(require(layer.workspace_bytes(tokens)) + 1, 0xFF);

  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  require(cudaStreamCreate(&stream));
  void* plain = arguments.y = device_memory(y_bytes, 0xFF);
  require(layer.run(arguments, stream));
  void* replayed = arguments.y = device_memory(y_bytes, 0xFF);  // 0xFF...: a NaN that no kernel writes
  require(cudaDeviceSynchronize());
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  require(layer.run(arguments, stream));
  require(cudaStreamEndCapture(stream, &graph));
  require(cudaGraphInstantiate(&executable, graph, 0));
  require(cudaGraphLaunch(executable, stream));
  require(cudaStreamSynchronize(stream));

  const auto expected = to_host(plain, y_bytes);
  const auto got = to_host(replayed, y_bytes);
  const std::vector<unsigned char> poison(element, 0xFF);
  std::size_t unwritten = 0;
  std::size_t different = 0;
  for (std::size_t at = 0; at < y_bytes; at += element) {
    unwritten += std::memcmp(&got[at], poison.data(), element) == 0 ? 1 : 0;
    different += std::memcmp(&got[at], &expected[at], element) == 0 ? 0 : 1;
  }
  std::printf(
      "%s: %lld x %lld %s, %lld nonzeros, %ld tokens: %zu outputs from a CUDA graph, %zu not written, %zu unlike the "
      "plain run\n",
      layer.name().c_str(), static_cast<long long>(info.rows), static_cast<long long>(info.cols),
      std::string(sparsmith::short_name(info.type)).c_str(), static_cast<long long>(info.nnz), tokens,
      y_bytes / element, unwritten, different);
  return unwritten == 0 && different == 0 ? 0 : 1;
}
