#include "tuner/kernel_compiler.h"

#include <fmt/format.h>
#include <nvrtc.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "base/stopwatch.h"
#include "runtime/cuda_library.h"
#include "tuner/ptxas_log.h"

namespace sparsmith {
namespace {

// Functions of NVRTC, by the declarations of its own header.
struct NvrtcFunctions {
  decltype(nvrtcVersion)* version = nullptr;
  decltype(nvrtcGetErrorString)* error_string = nullptr;
  decltype(nvrtcCreateProgram)* create_program = nullptr;
  decltype(nvrtcDestroyProgram)* destroy_program = nullptr;
  decltype(nvrtcCompileProgram)* compile_program = nullptr;
  decltype(nvrtcGetCUBINSize)* cubin_size = nullptr;
  decltype(nvrtcGetCUBIN)* cubin = nullptr;
  decltype(nvrtcGetPTXSize)* ptx_size = nullptr;
  decltype(nvrtcGetPTX)* ptx = nullptr;
  decltype(nvrtcGetProgramLogSize)* log_size = nullptr;
  decltype(nvrtcGetProgramLog)* log = nullptr;

  Status bind(const CudaLibrary& library) {
    SPARSMITH_RETURN_IF_ERROR(library.bind("nvrtcVersion", version));
    SPARSMITH_RETURN_IF_ERROR(library.bind("nvrtcGetErrorString", error_string));
    SPARSMITH_RETURN_IF_ERROR(library.bind("nvrtcCreateProgram", create_program));
    SPARSMITH_RETURN_IF_ERROR(library.bind("nvrtcDestroyProgram", destroy_program));
    SPARSMITH_RETURN_IF_ERROR(library.bind("nvrtcCompileProgram", compile_program));
    SPARSMITH_RETURN_IF_ERROR(library.bind("nvrtcGetCUBINSize", cubin_size));
    SPARSMITH_RETURN_IF_ERROR(library.bind("nvrtcGetCUBIN", cubin));
    SPARSMITH_RETURN_IF_ERROR(library.bind("nvrtcGetPTXSize", ptx_size));
    SPARSMITH_RETURN_IF_ERROR(library.bind("nvrtcGetPTX", ptx));
    SPARSMITH_RETURN_IF_ERROR(library.bind("nvrtcGetProgramLogSize", log_size));
    return library.bind("nvrtcGetProgramLog", log);
  }
};

// One translation unit of NVRTC, destroyed with the object.
class Program {
 public:
  explicit Program(const NvrtcFunctions& nvrtc) : nvrtc_(nvrtc) {}
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (program_ != nullptr) nvrtc_.destroy_program(&program_);
  }

  Status create(const KernelSource& kernel) {
    const std::string file_name = kernel.name + ".cu";
    return check(nvrtc_.create_program(&program_, kernel.source.c_str(), file_name.c_str(), 0, nullptr, nullptr),
                 kernel.name);
  }
  nvrtcResult compile(const std::vector<const char*>& options) {
    return nvrtc_.compile_program(program_, static_cast<int>(options.size()), options.data());
  }
  std::string log() const {
    std::size_t size = 0;
    if (nvrtc_.log_size(program_, &size) != NVRTC_SUCCESS || size <= 1) return "";
    std::string text(size, '\0');
    if (nvrtc_.log(program_, text.data()) != NVRTC_SUCCESS) return "";
    text.resize(size - 1);  // without the terminating zero
    return text;
  }
  Result<std::vector<std::byte>> cubin(const std::string& name) const {
    std::size_t size = 0;
    SPARSMITH_RETURN_IF_ERROR(check(nvrtc_.cubin_size(program_, &size), name));
    if (size == 0) return unsupported(name + ": NVRTC made no binary; name a real architecture such as sm_90");
    std::vector<std::byte> bytes(size);
    SPARSMITH_RETURN_IF_ERROR(check(nvrtc_.cubin(program_, reinterpret_cast<char*>(bytes.data())), name));
    return bytes;
  }
  Result<std::string> ptx(const std::string& name) const {
    std::size_t size = 0;
    SPARSMITH_RETURN_IF_ERROR(check(nvrtc_.ptx_size(program_, &size), name));
    if (size <= 1) return unsupported(name + ": NVRTC made no PTX");
    std::string text(size, '\0');
    SPARSMITH_RETURN_IF_ERROR(check(nvrtc_.ptx(program_, text.data()), name));
    text.resize(size - 1);  // without the terminating zero
    return text;
  }

 private:
  Status check(nvrtcResult result, const std::string& name) const {
    if (result == NVRTC_SUCCESS) return {};
    return internal_error(fmt::format("{}: NVRTC: {}", name, nvrtc_.error_string(result)));
  }

  const NvrtcFunctions& nvrtc_;
  nvrtcProgram program_ = nullptr;
};

// The lines that matter to a reader: a broken template can make a log of thousands.
std::string first_lines(const std::string& log) {
  constexpr int kLines = 12;
  std::size_t end = 0;
  for (int line = 0; line < kLines; ++line) {
    end = log.find('\n', end);
    if (end == std::string::npos) return log;
    ++end;
  }
  return log.substr(0, end) + "...";
}

class NvrtcCompiler : public KernelCompiler {
 public:
  Status open_library() {
    SPARSMITH_ASSIGN_OR_RETURN(const CudaLibrary library, CudaLibrary::open({"libnvrtc.so.13", "libnvrtc.so.12"}));
    SPARSMITH_RETURN_IF_ERROR(nvrtc_.bind(library));
    int major = 0;
    int minor = 0;
    if (nvrtc_.version(&major, &minor) != NVRTC_SUCCESS) return no_device(library.path() + " does not say its version");
    version_ = fmt::format("{}.{}", major, minor);
    // NVRTC opens its builtins by their plain name with the first kernel. Their folder may be outside the loader's
    // path.
    return library.open_companion("libnvrtc-builtins.so." + version_).status();
  }

  std::string version() const override { return version_; }

  Result<CompiledKernel> compile(const KernelSource& kernel, const std::string& architecture) const override {
    Program program(nvrtc_);
    SPARSMITH_ASSIGN_OR_RETURN(const std::string log, build(program, kernel, architecture));
    SPARSMITH_ASSIGN_OR_RETURN(const PtxasFigures figures, parse_ptxas_log(log, kernel.name));
    CompiledKernel compiled;
    SPARSMITH_ASSIGN_OR_RETURN(compiled.cubin, program.cubin(kernel.name));
    compiled.name = kernel.name;
    compiled.figures = figures;
    return compiled;
  }

  Result<std::string> ptx(const KernelSource& kernel, const std::string& architecture) const override {
    Program program(nvrtc_);
    SPARSMITH_RETURN_IF_ERROR(build(program, kernel, architecture).status());
    return program.ptx(kernel.name);
  }

 private:
  // The compiler's log.
  Result<std::string> build(Program& program, const KernelSource& kernel, const std::string& architecture) const {
    SPARSMITH_ASSIGN_OR_RETURN(const std::string real, architecture_of(kernel, architecture));
    SPARSMITH_RETURN_IF_ERROR(program.create(kernel));
    const std::string architecture_option = "--gpu-architecture=" + real;
    // The one option string: part of what a cached binary stands for. Nothing here relaxes arithmetic. NVRTC's own
    // cache is off: on a hit ptxas does not run, and says nothing of registers and spills.
    std::vector<const char*> options = {"--no-cache", architecture_option.c_str(), "--std=c++17",
                                        "--device-as-default-execution-space", "--ptxas-options=-v"};
    nvrtcResult result = program.compile(options);
    if (result == NVRTC_ERROR_INVALID_OPTION) {  // a release that has no cache
      options.erase(options.begin());
      result = program.compile(options);
    }
    std::string log = program.log();
    if (result != NVRTC_SUCCESS) {
      return invalid_input(fmt::format("{} does not compile for {}: {}\n{}", kernel.name, real,
                                       nvrtc_.error_string(result), first_lines(log)));
    }
    return log;
  }

  NvrtcFunctions nvrtc_;
  std::string version_;
};

}  // namespace

Result<std::unique_ptr<KernelCompiler>> KernelCompiler::open() {
  auto compiler = std::make_unique<NvrtcCompiler>();
  SPARSMITH_RETURN_IF_ERROR(compiler->open_library());
  return std::unique_ptr<KernelCompiler>(std::move(compiler));
}

Result<std::string> architecture_of(const KernelSource& kernel, const std::string& architecture) {
  if (kernel.architecture.empty() || kernel.architecture == architecture) return architecture;
  // "sm_90" of "sm_90a", or "compute_90", which PTX is asked for.
  const std::size_t digits = kernel.architecture.find('_') + 1;
  const std::string number = kernel.architecture.substr(digits, kernel.architecture.size() - digits - 1);
  for (const std::string prefix : {"sm_", "compute_"})
    if (architecture == prefix + number) return prefix + kernel.architecture.substr(digits);
  return unsupported(fmt::format("{} is for {} alone, not for {}", kernel.name, kernel.architecture, architecture));
}

Result<std::string> KernelCompiler::ptx(const KernelSource& kernel, const std::string& /*architecture*/) const {
  return unsupported(kernel.name + ": this compiler makes no PTX");
}

std::map<std::string, Result<CompiledKernel>> KernelCompiler::compile_all(std::span<const KernelSource> kernels,
                                                                          const std::string& architecture, int threads,
                                                                          const Progress& progress) const {
  std::map<std::string, const KernelSource*> by_name;
  for (const KernelSource& kernel : kernels) by_name.emplace(kernel.name, &kernel);
  std::vector<const KernelSource*> queue;
  for (const auto& [name, kernel] : by_name) queue.push_back(kernel);

  std::map<std::string, Result<CompiledKernel>> results;
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;  // guards `results`, and keeps calls of `progress` apart
  const auto work = [&] {
    for (std::size_t i = next++; i < queue.size(); i = next++) {
      double seconds = 0;
      Result<CompiledKernel> result = [&] {
        const Stopwatch stopwatch(seconds);
        return compile(*queue[i], architecture);
      }();
      if (result.ok()) result->seconds = seconds;
      const std::lock_guard lock(mutex);
      results.emplace(queue[i]->name, std::move(result));
      if (progress) progress(results.size(), queue.size());
    }
  };

  std::size_t pool_size = threads > 0 ? static_cast<std::size_t>(threads) : std::thread::hardware_concurrency();
  pool_size = std::clamp<std::size_t>(pool_size, 1, std::max<std::size_t>(queue.size(), 1));
  std::vector<std::jthread> pool;
  for (std::size_t i = 1; i < pool_size; ++i) pool.emplace_back(work);
  work();
  pool.clear();  // joins
  return results;
}

}  // namespace sparsmith
