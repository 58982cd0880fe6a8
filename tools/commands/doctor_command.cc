// `sparsmith doctor`: what this machine has and lacks, and what to do about it.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cache/cache.h"
#include "runtime/cuda_library.h"
#include "tools/command.h"
#include "tools/commands/tune_table.h"
#include "tools/print.h"
#include "tuner/compile/compiler_pool.h"
#include "tuner/worker.h"

namespace sparsmith::tools {
namespace {

struct Finding {
  std::string what;
  std::string detail;
  std::string advice{};  // empty: it is there
};

Finding find_gpu(const Result<std::unique_ptr<Worker>>& worker) {
  if (!worker.ok()) {
    return {"GPU", worker.status().message(),
            "without one, tune predicts; take the cache or the tuned file to a machine that has one"};
  }
  const DeviceProperties& device = (*worker)->properties();
  return {"GPU", fmt::format("{}, {}, {} of memory, driver {}", device.name, device.device_class(),
                             human_bytes(device.memory_bytes), device.driver_version)};
}

Finding find_speeds(const Result<std::unique_ptr<Worker>>& worker) {
  if (!worker.ok()) return {"speeds", "no GPU", "they are measured where there is one"};
  const auto speeds = (*worker)->measure_speeds();
  if (!speeds.ok())
    return {"speeds", speeds.status().message(), "predictions then go by what the device says of itself"};
  std::string text = fmt::format("{:.2f} TB/s of memory", speeds->memory_bandwidth * 1e-12);
  if (speeds->l2_bandwidth > 0)
    text += fmt::format(", {:.2f} TB/s from L2, {:.2f} us a launch", speeds->l2_bandwidth * 1e-12, speeds->launch_us);
  return {"speeds", text};
}

Finding find_emulator() {
  const auto worker = Worker::start({.device = "emulator", .program = ""});
  if (worker.status().code() == StatusCode::kNoDevice)
    return {"emulator", worker.status().message(), "install the whole tree: the program stands beside sparsmith"};
  const Status status = worker.ok() ? (*worker)->check_known_good() : worker.status();
  if (!status.ok()) {
    const std::string& reason = status.message();
    return {"emulator", reason.substr(0, reason.find('\n')),
            "install g++, or name a C++ compiler in $CXX; without one and without a GPU, choices are not verified"};
  }
  return {"emulator", "runs kernels on the CPU, for checks"};
}

Finding find_library(const std::string& what, const std::vector<std::string>& names, const std::string& advice) {
  const auto library = CudaLibrary::open(names);
  if (!library.ok()) return {what, library.status().message(), advice};
  return {what, library->path()};
}

Finding find_compiler() {
  const auto compiler = CompilerPool::open({});
  if (!compiler.ok()) {
    const bool no_library = compiler.status().code() == StatusCode::kNoDevice;
    return {"NVRTC", compiler.status().message(),
            no_library ? "pip install nvidia-cuda-nvrtc, and name its folder in SPARSMITH_CUDA_LIBRARY_PATH"
                       : "install the whole tree: sparsmith-compiler stands beside sparsmith"};
  }
  return {"NVRTC", (*compiler)->version()};
}

Finding find_cache() {
  const auto path = Cache::default_path();
  if (!path.ok()) return {"cache", path.status().message(), "give --cache PATH"};
  std::error_code error;
  if (!std::filesystem::exists(*path, error)) return {"cache", *path + ": none yet, tune makes it"};
  auto cache = Cache::open(*path, Cache::Mode::kReadOnly);
  if (!cache.ok()) return {"cache", cache.status().message(), "tune moves it aside and makes a new one"};
  const auto counts = cache->counts();
  if (!counts.ok()) return {"cache", counts.status().message(), "run sparsmith cache verify"};
  return {"cache", fmt::format("{}: {} choices, {} binaries", *path, counts->choices, counts->binaries)};
}

Result<ExitCode> run(const bool& json) {
  const auto worker = Worker::start({.device = "cuda:0", .program = ""});
  const std::vector<Finding> findings = {
      find_library("CUDA driver", {"libcuda.so.1"}, "install the NVIDIA driver"),
      find_gpu(worker),
      find_speeds(worker),
      find_compiler(),
      find_library("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"},
                   "pip install nvidia-cublas: dense is compared with it"),
      find_library("cuSPARSE", {"libcusparse.so.12", "libcusparse.so.13"},
                   "pip install nvidia-cusparse: bench --vs cusparse needs it"),
      find_library("cuSPARSELt", {"libcusparseLt.so.0"},
                   "pip install nvidia-cusparselt-cu13==0.8.0: bench --vs cusparselt needs it"),
      find_emulator(),
      find_cache()};
  nlohmann::json object = {{"findings", nlohmann::json::array()}};
  Table table{.columns = {"what", "there", "detail"}};
  object["device"] = nullptr;
  if (worker.ok()) {
    const DeviceProperties& device = (*worker)->properties();
    object["device"] = {{"name", device.name}, {"class", device.device_class()}, {"driver", device.driver_version}};
  }
  std::string advice;
  for (const Finding& f : findings) {
    object["findings"].push_back(
        {{"what", f.what}, {"there", f.advice.empty()}, {"detail", f.detail}, {"advice", f.advice}});
    table.add(f.what, f.advice.empty() ? "yes" : "no", f.detail);
    if (!f.advice.empty()) advice += fmt::format("{}: {}\n", f.what, f.advice);
  }
  print_result(json, object, table.plain() + advice);
  return kDone;
}

}  // namespace

void add_doctor_command(CLI::App& app, Action& action) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* const command = app.add_subcommand("doctor", "Show the parts that this machine has and lacks");
  command->add_flag("--json", *json, "Print JSON");
  set_action(*command, action, json, run);
}

}  // namespace sparsmith::tools
