#include "tuner/compile/kernel_compiler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nvrtc.h>

#include <charconv>
#include <optional>

#include "base/split.h"
#include "runtime/cuda_library.h"

namespace sparsmith {
namespace {

#define SPARSMITH_NVRTC_FUNCTIONS(X) \
  X(Version)                         \
  X(GetErrorString)                  \
  X(CreateProgram)                   \
  X(DestroyProgram)                  \
  X(CompileProgram)                  \
  X(GetCUBINSize)                    \
  X(GetCUBIN)                        \
  X(GetPTXSize)                      \
  X(GetPTX)                          \
  X(GetProgramLogSize)               \
  X(GetProgramLog)

// The functions of NVRTC, with the types of its header.
struct NvrtcFunctions {
#define SPARSMITH_NVRTC_MEMBER(name) decltype(nvrtc##name)* name = nullptr;
  SPARSMITH_NVRTC_FUNCTIONS(SPARSMITH_NVRTC_MEMBER)
#undef SPARSMITH_NVRTC_MEMBER

  Status bind(const CudaLibrary& library) {
#define SPARSMITH_NVRTC_LOAD(name) SPARSMITH_RETURN_IF_ERROR(library.bind("nvrtc" #name, name));
    SPARSMITH_NVRTC_FUNCTIONS(SPARSMITH_NVRTC_LOAD)
#undef SPARSMITH_NVRTC_LOAD
    return {};
  }
};

// One translation unit of NVRTC, destroyed with the object.
class Program {
 public:
  explicit Program(const NvrtcFunctions& nvrtc) : nvrtc_(nvrtc) {}
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (program_ != nullptr) nvrtc_.DestroyProgram(&program_);
  }

  Status create(const KernelSource& kernel) {
    const std::string file_name = kernel.name + ".cu";
    return check(nvrtc_.CreateProgram(&program_, kernel.source.c_str(), file_name.c_str(), 0, nullptr, nullptr),
                 kernel.name);
  }
  nvrtcResult compile(const std::vector<const char*>& options) {
    return nvrtc_.CompileProgram(program_, static_cast<int>(options.size()), options.data());
  }
  std::string log() const { return text(nvrtc_.GetProgramLogSize, nvrtc_.GetProgramLog); }
  Result<std::vector<std::byte>> cubin(const std::string& name) const {
    std::size_t size = 0;
    SPARSMITH_RETURN_IF_ERROR(check(nvrtc_.GetCUBINSize(program_, &size), name));
    if (size == 0) return unsupported(name + ": NVRTC made no binary; name a real architecture such as sm_90");
    std::vector<std::byte> bytes(size);
    SPARSMITH_RETURN_IF_ERROR(check(nvrtc_.GetCUBIN(program_, reinterpret_cast<char*>(bytes.data())), name));
    return bytes;
  }
  Result<std::string> ptx(const std::string& name) const {
    std::string ptx = text(nvrtc_.GetPTXSize, nvrtc_.GetPTX);
    return ptx.empty() ? Result<std::string>(unsupported(name + ": NVRTC made no PTX")) : ptx;
  }

 private:
  // Empty where there is none.
  std::string text(decltype(nvrtcGetPTXSize)* size_of, decltype(nvrtcGetPTX)* get) const {
    std::size_t size = 0;
    if (size_of(program_, &size) != NVRTC_SUCCESS || size <= 1) return "";
    std::string text(size, '\0');
    if (get(program_, text.data()) != NVRTC_SUCCESS) return "";
    text.resize(size - 1);  // without the terminating zero
    return text;
  }
  Status check(nvrtcResult result, const std::string& name) const {
    if (result == NVRTC_SUCCESS) return {};
    return internal_error(fmt::format("{}: NVRTC: {}", name, nvrtc_.GetErrorString(result)));
  }

  const NvrtcFunctions& nvrtc_;
  nvrtcProgram program_ = nullptr;
};

// The first lines of a log: a broken template can make thousands of lines.
std::string first_lines(const std::string& log) {
  constexpr std::size_t kLines = 12;
  std::vector<std::string_view> lines = split(log, "\n");
  if (lines.size() <= kLines) return log;
  lines.resize(kLines);
  return fmt::format("{}\n...", fmt::join(lines, "\n"));
}

// The number that stands directly before `unit` in `line`: 24 in "Used 24 registers" for " registers".
std::optional<std::int64_t> number_before(std::string_view line, std::string_view unit) {
  const std::size_t end = line.find(unit);
  if (end == std::string_view::npos) return std::nullopt;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(line.data() + begin, line.data() + end, value);
  if (error != std::errc() || stop != line.data() + end) return std::nullopt;
  return value;
}

class NvrtcCompiler : public KernelCompiler {
 public:
  Status open_library() {
    SPARSMITH_ASSIGN_OR_RETURN(const CudaLibrary library, CudaLibrary::open({"libnvrtc.so.13", "libnvrtc.so.12"}));
    SPARSMITH_RETURN_IF_ERROR(nvrtc_.bind(library));
    int major = 0;
    int minor = 0;
    if (nvrtc_.Version(&major, &minor) != NVRTC_SUCCESS) return no_device(library.path() + " does not say its version");
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
                                       nvrtc_.GetErrorString(result), first_lines(log)));
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

Result<PtxasFigures> parse_ptxas_log(std::string_view log, std::string_view kernel) {
  PtxasFigures figures;
  bool in_entry = false;
  bool in_properties = false;
  bool found_registers = false;
  // The figures of a function follow its name, and it need not be the entry.
  constexpr std::string_view kEntry = "Compiling entry function ";
  constexpr std::string_view kProperties = "Function properties for ";
  for (const std::string_view line : split(log, "\n")) {
    if (const auto at = line.find(kEntry); at != std::string_view::npos)
      in_entry = line.substr(at + kEntry.size()).starts_with(fmt::format("'{}'", kernel));
    if (!in_entry) continue;
    if (const auto at = line.find(kProperties); at != std::string_view::npos)
      in_properties = line.substr(at + kProperties.size()) == kernel;
    if (const auto registers = number_before(line, " registers"); registers && !found_registers) {
      figures.registers = static_cast<int>(*registers);
      figures.static_shared_bytes = number_before(line, " bytes smem").value_or(0);
      found_registers = true;
    }
    if (!in_properties) continue;
    if (const auto stack = number_before(line, " bytes stack frame")) figures.stack_bytes = *stack;
    if (const auto stores = number_before(line, " bytes spill stores")) figures.spill_store_bytes = *stores;
    if (const auto loads = number_before(line, " bytes spill loads")) figures.spill_load_bytes = *loads;
  }
  if (!found_registers) return invalid_input(fmt::format("the compiler's log says nothing of kernel {}", kernel));
  return figures;
}

Result<std::string> KernelCompiler::ptx(const KernelSource& kernel, const std::string& /*architecture*/) const {
  return unsupported(kernel.name + ": this compiler makes no PTX");
}

}  // namespace sparsmith
