// `sparsmith doctor`: what this machine has and lacks, and what to do about it.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cache/cache.h"
#include "runtime/cuda_library.h"
#include "tools/command.h"
#include "tools/json_output.h"
#include "tools/print.h"
#include "tools/text_table.h"
#include "tools/tune_table.h"
#include "tuner/compiler_pool.h"
#include "tuner/worker.h"

namespace sparsmith::tools {
namespace {

struct Finding {
  std::string what;
  bool there = false;
  std::string detail;
  std::string advice;  // where it is not there
};

Finding find_gpu() {
  const auto worker = Worker::start({.device = "cuda:0", .program = ""});
  if (!worker.ok()) {
    return {"GPU", false, worker.status().message(),
            "without one, tune predicts; take the cache or the tuned file to a machine that has one"};
  }
  const DeviceProperties& device = (*worker)->properties();
  return {"GPU", true,
          fmt::format("{}, {}, {} of memory, driver {}", device.name, device.device_class(),
                      human_bytes(static_cast<double>(device.memory_bytes)), device.driver_version),
          ""};
}

Finding find_speeds() {
  const auto worker = Worker::start({.device = "cuda:0", .program = ""});
  if (!worker.ok()) return {"speeds", false, "no GPU", "they are measured where there is one"};
  const auto speeds = (*worker)->measure_speeds();
  if (!speeds.ok())
    return {"speeds", false, speeds.status().message(), "predictions then go by what the device says of itself"};
  std::string text = fmt::format("{:.2f} TB/s of memory", speeds->memory_bandwidth * 1e-12);
  if (speeds->l2_bandwidth > 0)
    text += fmt::format(", {:.2f} TB/s from L2, {:.2f} us a launch", speeds->l2_bandwidth * 1e-12, speeds->launch_us);
  return {"speeds", true, text, ""};
}

Finding find_emulator() {
  const auto worker = Worker::start({.device = "emulator", .program = ""});
  if (!worker.ok())
    return {"emulator", false, worker.status().message(),
            "install the whole tree: the program stands beside sparsmith"};
  return {"emulator", true, "runs kernels on the CPU, for checks", ""};
}

Finding find_library(const std::string& what, const std::vector<std::string>& names, const std::string& advice) {
  const auto library = CudaLibrary::open(names);
  if (!library.ok()) return {what, false, library.status().message(), advice};
  return {what, true, library->path(), ""};
}

Finding find_compiler() {
  const auto compiler = CompilerPool::open({});
  if (!compiler.ok()) {
    const bool no_library = compiler.status().code() == StatusCode::kNoDevice;
    return {"NVRTC", false, compiler.status().message(),
            no_library ? "pip install nvidia-cuda-nvrtc, and name its folder in SPARSMITH_CUDA_LIBRARY_PATH"
                       : "install the whole tree: sparsmith-compiler stands beside sparsmith"};
  }
  return {"NVRTC", true, (*compiler)->version(), ""};
}

Finding find_cache() {
  const auto path = Cache::default_path();
  if (!path.ok()) return {"cache", false, path.status().message(), "give --cache PATH"};
  std::error_code error;
  if (!std::filesystem::exists(*path, error)) return {"cache", true, *path + ": none yet, tune makes it", ""};
  auto cache = Cache::open(*path, Cache::Mode::kReadOnly);
  if (!cache.ok()) return {"cache", false, cache.status().message(), "tune moves it aside and makes a new one"};
  const auto counts = cache->counts();
  if (!counts.ok()) return {"cache", false, counts.status().message(), "run sparsmith cache verify"};
  return {"cache", true, fmt::format("{}: {} choices, {} binaries", *path, counts->choices, counts->binaries), ""};
}

int run(bool json) {
  std::vector<Finding> findings;
  findings.push_back(find_library("CUDA driver", {"libcuda.so.1"}, "install the NVIDIA driver"));
  findings.push_back(find_gpu());
  findings.push_back(find_speeds());
  findings.push_back(find_compiler());
  findings.push_back(find_library("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"},
                                  "pip install nvidia-cublas: dense is compared with it"));
  findings.push_back(find_library("cuSPARSE", {"libcusparse.so.12", "libcusparse.so.13"},
                                  "pip install nvidia-cusparse: bench --vs cusparse needs it"));
  findings.push_back(find_emulator());
  findings.push_back(find_cache());
  if (json) {
    nlohmann::json object = nlohmann::json::array();
    for (const Finding& f : findings)
      object.push_back({{"what", f.what}, {"there", f.there}, {"detail", f.detail}, {"advice", f.advice}});
    print_json(object);
    return kDone;
  }
  TextTable table({{"what"}, {"there"}, {"detail"}});
  for (const Finding& f : findings) table.add({f.what, f.there ? "yes" : "no", f.detail});
  print("{}", table.plain());
  for (const Finding& f : findings) {
    if (!f.there) print("{}: {}\n", f.what, f.advice);
  }
  return kDone;
}

}  // namespace

void add_doctor_command(CLI::App& app, Action& action) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* const command = app.add_subcommand("doctor", "Say what this machine has and lacks");
  command->add_flag("--json", *json, "Print as JSON");
  command->callback([json, &action] { action = [json] { return run(*json); }; });
}

}  // namespace sparsmith::tools
