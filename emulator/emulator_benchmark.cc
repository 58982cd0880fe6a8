// What the emulator costs: a compilation, a switch between threads, an instrumented access. Run it after changes to
// the access callback or the scheduler; docs/internals/emulator.md states the figures.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>

#include "tests/support/kernel_bench.h"

namespace sparsmith {
namespace {

// CPU time of this process: does not depend on what else the machine does.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The best of some runs, in seconds, of `body` with `rounds` as its second argument.
double best_run(const std::string& body, std::int64_t blocks, std::int64_t rounds) {
  double best = 1e9;
  for (int attempt = 0; attempt < 5; ++attempt) {
    KernelBench bench;
    bench.add(std::vector<float>(static_cast<std::size_t>(blocks) * 256 * 8, 1.0F));
    bench.add_int(0);
    const Status compiled = bench.run(body, 1, 256, 4096);
    if (!compiled.ok()) fmt::print(stderr, "{}\n", compiled.to_string());
    bench.arguments().back().value = rounds;
    const double start = cpu_seconds();
    const Status status = bench.run(body, blocks, 256, 4096);
    best = std::min(best, cpu_seconds() - start);
    if (!status.ok()) fmt::print(stderr, "{}\n", status.to_string());
  }
  return best;
}

void print_cost(const char* what, const std::string& statements, double per_round) {
  const std::string body =
      "extern \"C\" __global__ void __launch_bounds__(256) test(float* a, int rounds) {\n"
      "  float* shared = reinterpret_cast<float*>(shared_memory());\n"
      "  const int t = thread_index();\n  float* own = a + (block_index_x() * 256 + t) * 8;\n  float sum = 0;\n"
      "  shared[t] = 0;\n" +
      statements + "  own[0] = sum;\n}";
  constexpr std::int64_t kRounds = 400;
  const double seconds = best_run(body, 16, kRounds) - best_run(body, 16, 0);
  fmt::print("{:<44}{:8.1f} ns\n", what, seconds * 1e9 / (16.0 * 256 * kRounds * per_round));
}

void print_compile_time() {
  constexpr int kKernels = 20;
  double best = 1e9;
  double total = 0;
  for (int i = 0; i < kKernels; ++i) {
    KernelBench bench;
    bench.add(std::vector<float>(256, 1.0F));
    const std::string body = fmt::format(
        "extern \"C\" __global__ void __launch_bounds__(256) test(float* a) {{\n"
        "  float sum = a[thread_index()] * {};\n"
        "  for (int distance = 16; distance > 0; distance /= 2) sum += shuffle_xor(sum, distance);\n"
        "  atomic_add(a, to_float(from_float<half>(sum)));\n}}",
        i);
    const double start = cpu_seconds();
    const KernelImage image{"test", kernel_text(body), {}, 0};
    const Status status = bench.executor().load(image);
    const double seconds = cpu_seconds() - start;
    if (!status.ok()) fmt::print(stderr, "{}\n", status.to_string());
    best = std::min(best, seconds);
    total += seconds;
  }
  fmt::print("{:<44}{:8.1f} ms, best {:.1f}\n", "compilation of a small kernel", total / kKernels * 1e3, best * 1e3);
}

}  // namespace
}  // namespace sparsmith

int main() {
  using sparsmith::print_cost;
  fmt::print("{}\n", sparsmith::compiler_under_test()->name());
  sparsmith::print_compile_time();
  print_cost("shuffle of 32 lanes, each lane", "for (int i = 0; i < rounds; ++i) sum += shuffle_xor(sum, 1);\n", 1);
  print_cost("warp barrier, each lane", "for (int i = 0; i < rounds; ++i) warp_barrier();\n", 1);
  print_cost("block barrier, each thread", "for (int i = 0; i < rounds; ++i) block_barrier();\n", 1);
  print_cost("read of 4 bytes of global memory", "for (int i = 0; i < rounds; ++i) sum += load_cached(own + i % 8);\n",
             1);
  print_cost("read of 16 bytes of global memory",
             "using Four = Vector<float, 4>;\n"
             "for (int i = 0; i < rounds; ++i) sum += load_cached(reinterpret_cast<Four*>(own) + i % 2)[0];\n",
             1);
  print_cost("write of 4 bytes of shared memory",
             "for (int i = 0; i < rounds; ++i) *(volatile float*)(shared + t) = i;\n", 1);
  return 0;
}
