#include "emulator/cpu_kernel_compiler.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/file.h"
#include "base/run_program.h"
#include "base/split.h"
#include "base/temporary_directory.h"
#include "emulator/kernel_text.h"

namespace sparsmith {
namespace {

namespace fs = std::filesystem;

// For files that live for one compilation: unlike write_file_atomically(), does not wait for the disk.
Status write_text(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  return file ? Status() : io_error(fmt::format("{}: cannot be written", path));
}

// Whether a compiler failed for what the machine lacks, whatever the kernel.
bool is_of_the_machine(int status, const std::string& messages) {
  if (status > 128) return true;
  for (const char* words : {"No space left on device", "signal terminated program", "annot allocate memory",
                            "virtual memory exhausted", "annot create temporary file"}) {
    if (messages.find(words) != std::string::npos) return true;
  }
  return false;
}

constexpr const char* kTableSymbol = "sparsmith_emulator_table";

// Binds every entry point inside the kernel's own object to a slot of a table that is filled after loading: the
// object then needs nothing of the program that loads it. Callbacks that do nothing return at once, because some run
// while the object is loaded.
std::string entry_point_stubs() {
  std::string text = "\n#line 1 \"emulator stubs\"\nasm(R\"(\n.text\n";
  const std::span<const EntryPoint> entries = entry_points();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const EntryPoint& entry = entries[i];
    text += fmt::format(".globl {0}\n.hidden {0}\n.type {0}, @function\n{0}:\n", entry.symbol);
    text += entry.does_nothing ? " ret\n" : fmt::format(" jmp *.L{}+{}(%rip)\n", kTableSymbol, 8 * i);
  }
  text +=
      fmt::format(".bss\n.balign 8\n.globl {0}\n.type {0}, @object\n.size {0}, {1}\n{0}:\n.L{0}:\n.zero {1}\n.text\n",
                  kTableSymbol, 8 * entries.size());
  return text + ")\");\n";
}

class SharedObjectKernel : public CpuKernel {
 public:
  static Result<std::unique_ptr<CpuKernel>> open(const std::string& path) {
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return internal_error(fmt::format("cannot load a compiled kernel: {}", dlerror()));
    std::unique_ptr<SharedObjectKernel> kernel(new SharedObjectKernel(handle));
    auto** table = static_cast<void**>(dlsym(handle, kTableSymbol));
    auto* sizes = static_cast<const int* const*>(dlsym(handle, kernel_parameters_symbol()));
    const auto code = reinterpret_cast<Entry>(dlsym(handle, kernel_entry_symbol()));
    if (table == nullptr || sizes == nullptr || code == nullptr) {
      return internal_error("a compiled kernel lacks the emulator's entry");
    }
    for (const EntryPoint& entry : entry_points()) *table++ = entry.address;
    kernel->set_code(code, *sizes);
    return std::unique_ptr<CpuKernel>(std::move(kernel));
  }
  ~SharedObjectKernel() override { dlclose(handle_); }

 private:
  explicit SharedObjectKernel(void* handle) : handle_(handle) {}

  void* handle_;
};

class SystemCompiler : public CpuKernelCompiler {
 public:
  // `is_clang`: by default clang drops the callback of a read that a write to the same place follows.
  SystemCompiler(std::string program, bool is_clang) : program_(std::move(program)) {
    if (is_clang) further_options_ = {"-mllvm", "-tsan-instrument-read-before-write=1"};
  }

  std::string name() const override { return program_; }

  Result<std::unique_ptr<CpuKernel>> compile(const std::string& kernel, const std::string& source) override {
    const TemporaryDirectory directory;
    if (directory.path().empty()) return io_error("cannot make a temporary directory for the emulator's compiler");
    const std::string text = directory.file("kernel.cc");
    std::error_code error;
    fs::create_directories(directory.file("emulator/device_twin"), error);
    for (const TwinHeader& twin : device_twins())
      SPARSMITH_RETURN_IF_ERROR(write_text(directory.file(std::string(twin.path)), twin.text));
    SPARSMITH_RETURN_IF_ERROR(write_text(text, text_with_entry(kernel, source) + entry_point_stubs()));

    const std::string object = directory.file("kernel.o");
    const std::string shared = directory.file("kernel.so");
    const std::string log = directory.file("log");
    std::vector<std::string> command = {program_, "-I" + directory.path(), "-c", text, "-o", object};
    for (const std::string_view option :
         split("-std=c++20 -O1 -fPIC -fsanitize=thread,alignment -fno-sanitize-recover=alignment -fvisibility=hidden "
               "-fno-exceptions -fno-rtti -fno-delete-null-pointer-checks -ffp-contract=off -w -DSPARSMITH_EMULATOR",
               " "))
      command.emplace_back(option);
    command.insert(command.end(), further_options_.begin(), further_options_.end());
    SPARSMITH_RETURN_IF_ERROR(run(kernel, command, log, text));
    // Without -fsanitize: the callbacks are ours.
    SPARSMITH_RETURN_IF_ERROR(run(kernel, {program_, "-shared", object, "-o", shared, "-lm"}, log, text));
    return SharedObjectKernel::open(shared);
  }

 private:
  static Status run(const std::string& kernel, const std::vector<std::string>& command, const std::string& log,
                    const std::string& text) {
    const int status = run_program(command, log);
    if (status == 0) return {};
    if (status < 0) return unsupported(fmt::format("cannot start the compiler {}", command[0]));
    Result<std::string> messages = read_file(log);
    std::string shown = messages.ok() ? *messages : "";
    // The text has no file for who reads this: its name is the kernel's.
    for (std::size_t at = 0; (at = shown.find(text, at)) != std::string::npos;) shown.replace(at, text.size(), kernel);
    if (is_of_the_machine(status, shown))
      return io_error(fmt::format("the compiler {} does not come to its end: {}", command[0],
                                  status > 128 ? fmt::format("signal {}", status - 128) : shown));
    return invalid_input(fmt::format("kernel {} does not compile for the emulator ({}){}{}", kernel, command[0],
                                     shown.empty() ? ", which gives no reason" : ":\n", shown));
  }

  std::string program_;
  std::vector<std::string> further_options_;
};

bool is_clang(const std::string& program) {
  const TemporaryDirectory directory;
  const std::string log = directory.file("version");
  if (directory.path().empty() || run_program({program, "--version"}, log) != 0) return false;
  const Result<std::string> version = read_file(log);
  return version.ok() && version->find("clang") != std::string::npos;
}

std::string find_in_path(const std::string& program) {
  if (program.find('/') != std::string::npos) return access(program.c_str(), X_OK) == 0 ? program : "";
  const char* path = std::getenv("PATH");
  for (const std::string_view folder : split(path == nullptr ? "" : path, ":")) {
    const std::string candidate = fmt::format("{}/{}", folder, program);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

}  // namespace

Result<std::unique_ptr<CpuKernelCompiler>> make_system_compiler(const std::string& program) {
  std::vector<std::string> candidates;
  const char* cxx = std::getenv("CXX");
  if (!program.empty()) {
    candidates = {program};
  } else {
    if (cxx != nullptr && *cxx != 0) candidates.push_back(cxx);
    candidates.insert(candidates.end(), {"c++", "g++", "clang++"});
  }
  std::string tried;
  for (const std::string& candidate : candidates) {
    const std::string found = find_in_path(candidate);
    if (!found.empty()) {
      return std::unique_ptr<CpuKernelCompiler>(std::make_unique<SystemCompiler>(found, is_clang(found)));
    }
    tried += (tried.empty() ? "" : ", ") + candidate;
  }
  return unsupported(fmt::format("the emulator needs a C++ compiler and finds none (tried {}): install g++", tried));
}

}  // namespace sparsmith
