#include "emulator/system_compiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/file.h"
#include "base/temporary_directory.h"
#include "emulator/entry_points.h"
#include "emulator/kernel_text.h"

extern char** environ;

namespace sparsmith {
namespace {

namespace fs = std::filesystem;

// For files that live for one compilation: unlike write_file_atomically(), does not wait for the disk.
Status write_text(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  return file ? Status() : io_error(fmt::format("{}: cannot be written", path));
}

// Runs a program with its output in `log`. 0 when it succeeded; -1 when it could not be started; over 128 when a signal
// ended it.
int run_program(std::vector<std::string> command, const std::string& log) {
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
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
    kernel->entry_ = reinterpret_cast<Entry>(dlsym(handle, kernel_entry_symbol()));
    if (table == nullptr || sizes == nullptr || kernel->entry_ == nullptr) {
      return internal_error("a compiled kernel lacks the emulator's entry");
    }
    for (const EntryPoint& entry : entry_points()) *table++ = entry.address;
    std::size_t count = 0;
    while ((*sizes)[count] != 0) ++count;
    kernel->parameter_bytes_ = {*sizes, count};
    return std::unique_ptr<CpuKernel>(std::move(kernel));
  }
  ~SharedObjectKernel() override { dlclose(handle_); }

  Entry entry() const override { return entry_; }
  std::span<const int> parameter_bytes() const override { return parameter_bytes_; }

 private:
  explicit SharedObjectKernel(void* handle) : handle_(handle) {}

  void* handle_;
  Entry entry_ = nullptr;
  std::span<const int> parameter_bytes_;
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
    std::vector<std::string> command = {program_,
                                        "-std=c++20",
                                        "-O1",
                                        "-fPIC",
                                        "-fsanitize=thread,alignment",
                                        "-fno-sanitize-recover=alignment",
                                        "-fvisibility=hidden",
                                        "-fno-exceptions",
                                        "-fno-rtti",
                                        "-fno-delete-null-pointer-checks",
                                        "-ffp-contract=off",
                                        "-w",
                                        "-DSPARSMITH_EMULATOR",
                                        "-I" + directory.path(),
                                        "-c",
                                        text,
                                        "-o",
                                        object};
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
    return invalid_input(
        fmt::format("kernel {} does not compile for the emulator ({}):\n{}", kernel, command[0], shown));
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
  std::string rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t colon = rest.find(':');
    const std::string candidate = rest.substr(0, colon) + "/" + program;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
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
