#include "tuner/compile/compiler_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/temporary_directory.h"
#include "tests/support/compile_all.h"
#include "tuner/compile/known_good_kernel.h"
#include "tuner/process/child_process.h"

namespace sparsmith {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

KernelSource kernel(const std::string& name, const std::string& source) {
  return {.name = name, .source = source, .closure_hash = "", .threads_per_block = 32, .max_shared_bytes = 0};
}

// Over a program that has no NVRTC, and does what the kernel's source says (fake_compiler_main.cc).
CompilerPool::Options fake() { return {.program = program_folder() + "/sparsmith_fake_compiler"}; }

std::unique_ptr<CompilerPool> open_pool(const CompilerPool::Options& options) {
  auto pool = CompilerPool::open(options);
  EXPECT_TRUE(pool.ok()) << pool.status().to_string();
  return pool.ok() ? *std::move(pool) : nullptr;
}

std::vector<pid_t> children_of_the_main_thread() {
  std::ifstream file("/proc/self/task/" + std::to_string(getpid()) + "/children");
  return {std::istream_iterator<pid_t>(file), {}};
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(CompilerPoolTest, CompilesInAnotherProcess) {
  const auto pool = open_pool(fake());
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(pool->version(), "0.1");
  const auto compiled = pool->compile(kernel("k", ""), "sm_90");
  ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
  EXPECT_EQ(compiled->name, "k");
  EXPECT_EQ(compiled->cubin, std::vector<std::byte>{std::byte{'k'}});
  EXPECT_EQ(compiled->figures.registers, 32);
  const auto broken = pool->compile(kernel("k", "broken"), "sm_90");
  EXPECT_EQ(broken.status().code(), StatusCode::kInvalidInput);
  EXPECT_EQ(broken.status().message(), "k does not compile for sm_90");
  EXPECT_EQ(pool->ptx(kernel("k", ""), "compute_90").status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(pool->ended_children(), 0) << "errors that are answers cost no child";
}

TEST(CompilerPoolTest, WhatTheCompilerDiesOfCostsThatKernel) {
  const auto pool = open_pool(fake());
  ASSERT_NE(pool, nullptr);
  int ended = 0;
  for (const auto& [source, said] : {std::pair{"crash", "compiling k: the compiler died of signal 11 (Segmentation"},
                                     {"leave", "compiling k: the compiler exited with code 3"},
                                     {"nonsense", "compiling k: the compiler sent what is no reply (no frame)"}}) {
    const auto lost = pool->compile(kernel("k", source), "sm_90");
    ASSERT_FALSE(lost.ok()) << source;
    EXPECT_THAT(lost.status().message(), HasSubstr(said));
    EXPECT_EQ(compiler_loss(lost.status().message()), CompilerLoss::kDied);
    EXPECT_EQ(pool->ended_children(), ++ended);
    EXPECT_TRUE(pool->compile(kernel("k", ""), "sm_90").ok()) << "a fresh child";
  }
}

TEST(CompilerPoolTest, WhatOthersKillIsTriedAgain) {
  const auto pool = open_pool(fake());
  ASSERT_NE(pool, nullptr);
  const TemporaryDirectory directory;
  const auto once = pool->compile(kernel("k", "once:" + directory.file("mark")), "sm_90");
  EXPECT_TRUE(once.ok()) << once.status().to_string();
  EXPECT_EQ(pool->ended_children(), 1);
  const auto always = pool->compile(kernel("k", "killed"), "sm_90");
  EXPECT_EQ(always.status().code(), StatusCode::kIoError) << "the machine's fault, not the kernel's";
  EXPECT_THAT(always.status().message(), HasSubstr("compiling k: the compiler was killed"));
  EXPECT_EQ(pool->ended_children(), 4);
  EXPECT_TRUE(pool->compile(kernel("k", ""), "sm_90").ok());
}

TEST(CompilerPoolTest, AnInterruptEndsWhatTakesLonger) {
  auto options = fake();
  const auto begin = std::chrono::steady_clock::now();
  options.interrupted_at = [begin]() -> std::optional<std::chrono::steady_clock::time_point> {
    return begin - ChildChannel::kPatienceAfterInterrupt + milliseconds(1000);
  };
  const auto pool = open_pool(options);
  ASSERT_NE(pool, nullptr);
  const auto hung = pool->compile(kernel("k", "hang"), "sm_90");
  EXPECT_LT(seconds_since(begin), 20);
  EXPECT_EQ(hung.status().code(), StatusCode::kIoError);
  EXPECT_THAT(hung.status().message(), HasSubstr("was killed after an interrupt"));
}

TEST(CompilerPoolTest, AChildThatEndsBetweenTwoKernelsCostsNone) {
  const auto pool = open_pool(fake());
  ASSERT_NE(pool, nullptr);
  EXPECT_TRUE(pool->compile(kernel("k", "later"), "sm_90").ok());
  std::this_thread::sleep_for(milliseconds(500));
  const auto next = pool->compile(kernel("k", ""), "sm_90");
  EXPECT_TRUE(next.ok()) << next.status().to_string();
  EXPECT_EQ(pool->ended_children(), 1);
}

TEST(CompilerPoolTest, WhatTakesTooLongIsGivenUp) {
  auto options = fake();
  options.timeout = milliseconds(1500);
  const auto pool = open_pool(options);
  ASSERT_NE(pool, nullptr);
  const auto begin = std::chrono::steady_clock::now();
  const auto hung = pool->compile(kernel("k", "hang"), "sm_90");
  EXPECT_LT(seconds_since(begin), 30);
  ASSERT_FALSE(hung.ok());
  EXPECT_THAT(hung.status().message(),
              HasSubstr("compiling k: the compiler gave no answer within 1.5 s and was killed"));
  EXPECT_EQ(compiler_loss(hung.status().message()), CompilerLoss::kLate);
  EXPECT_TRUE(pool->compile(kernel("k", ""), "sm_90").ok());
}

TEST(CompilerPoolTest, OneOfTwentyCrashes) {
  const auto pool = open_pool(fake());
  ASSERT_NE(pool, nullptr);
  std::vector<KernelSource> kernels;
  for (int i = 0; i < 20; ++i) kernels.push_back(kernel("k" + std::to_string(i), i == 7 ? "crash" : ""));
  const auto results = compile_all(*pool, kernels, "sm_90", 4);
  ASSERT_EQ(results.size(), 20U);
  for (const auto& [name, result] : results) {
    EXPECT_EQ(result.ok(), name != "k7") << name << result.status().to_string();
    EXPECT_EQ(result.ok() ? result->name : "k7", name);
  }
  EXPECT_EQ(pool->ended_children(), 1);
}

TEST(CompilerPoolTest, ManyThreadsShareFewChildren) {
  auto options = fake();
  options.children = 2;
  const auto pool = open_pool(options);
  ASSERT_NE(pool, nullptr);
  std::vector<KernelSource> kernels;
  for (int i = 0; i < 6; ++i) kernels.push_back(kernel("slow" + std::to_string(i), i == 3 ? "slow crash" : "slow"));
  const auto begin = std::chrono::steady_clock::now();
  {
    std::jthread other([&] {
      std::vector<KernelSource> more = kernels;
      more.push_back(kernel("crash", "crash"));
      EXPECT_EQ(compile_all(*pool, more, "sm_90", 4).size(), 7U);
    });
    EXPECT_EQ(compile_all(*pool, kernels, "sm_90", 4).size(), 6U);
  }
  EXPECT_GE(seconds_since(begin), 6 * 0.3) << "12 kernels of 0.3 s each, two at a time";
}

TEST(CompilerPoolTest, ChildrenThatCannotStartAreToldOfOnceAndTheOthersDoTheWork) {
  auto options = fake();
  const TemporaryDirectory folder;
  const std::string program = folder.file("compiler");
  std::filesystem::copy_file(options.program, program);
  options.program = program;
  options.children = 3;
  const auto pool = open_pool(options);
  ASSERT_NE(pool, nullptr);
  std::filesystem::remove(program);
  std::vector<KernelSource> kernels;
  for (int i = 0; i < 6; ++i) kernels.push_back(kernel("slow" + std::to_string(i), "slow"));
  testing::internal::CaptureStderr();
  const auto compiled = compile_all(*pool, kernels, "sm_90", 3);
  const std::string said = testing::internal::GetCapturedStderr();
  for (const auto& [name, binary] : compiled) EXPECT_TRUE(binary.ok()) << name << binary.status().to_string();
  EXPECT_THAT(said, HasSubstr(program));
  EXPECT_EQ(said.find("warning", said.find("warning") + 1), std::string::npos) << said;
}

TEST(CompilerPoolTest, AChildThatIsStoppedIsTheMachinesFault) {
  auto options = fake();
  options.timeout = milliseconds(1500);
  const auto pool = open_pool(options);
  ASSERT_NE(pool, nullptr);
  const std::vector<pid_t> children = children_of_the_main_thread();
  ASSERT_EQ(children.size(), 1U);
  kill(children[0], SIGSTOP);
  const auto compiled = pool->compile(kernel("k", ""), "sm_90");
  EXPECT_TRUE(compiled.ok()) << "a second child does the work; " << compiled.status().to_string();
  EXPECT_EQ(pool->ended_children(), 1);
}

TEST(CompilerPoolTest, AChildThatHasGrownIsEnded) {
  auto options = fake();
  options.max_resident_bytes = 100 << 20;
  const auto pool = open_pool(options);
  ASSERT_NE(pool, nullptr);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(pool->compile(kernel("k", "grow"), "sm_90").ok());
  EXPECT_GE(pool->ended_children(), 2) << "64 MiB more each";
}

TEST(CompilerPoolTest, SaysWhatIsMissing) {
  const auto missing = CompilerPool::open({.program = "/nowhere/sparsmith-compiler"});
  EXPECT_EQ(missing.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(missing.status().message(), HasSubstr("/nowhere/sparsmith-compiler is missing"));
  const auto silent = CompilerPool::open({.program = "/bin/true"});
  EXPECT_EQ(silent.status().code(), StatusCode::kDeviceError);
  EXPECT_THAT(silent.status().message(), HasSubstr("starting /bin/true: the compiler exited with code 0"));
}

TEST(CompilerPoolTest, OnlyALostChildIsALoss) {
  EXPECT_EQ(compiler_loss("k does not compile for sm_90: NVRTC_ERROR_COMPILATION"), CompilerLoss::kNone);
  EXPECT_EQ(compiler_loss("verifying k: the worker gave no answer within 20 s and was killed"), CompilerLoss::kNone);
  EXPECT_EQ(compiler_loss(""), CompilerLoss::kNone);
}

// However a parent ends, and whatever its children are at. They hold the writing end of a pipe, which is closed when
// the last of them has gone.
TEST(CompilerPoolTest, ChildrenEndWithTheirParent) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    close(ends[0]);
    const auto pool = CompilerPool::open(fake());
    if (!pool.ok()) _exit(1);
    const std::jthread hanging([&] { (void)(*pool)->compile(kernel("k", "hang"), "sm_90"); });
    if (!(*pool)->compile(kernel("slow", "slow"), "sm_90").ok()) _exit(1);  // by now the other one hangs
    _exit(0);
  }
  close(ends[1]);
  int status = 1;
  ASSERT_EQ(waitpid(parent, &status, 0), parent);
  EXPECT_EQ(status, 0);
  pollfd entry{.fd = ends[0], .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&entry, 1, 20'000), 1) << "a child lives on";
  EXPECT_NE(entry.revents & POLLHUP, 0);
  close(ends[0]);
}

// The program that is installed.
class NvrtcPoolTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = KernelCompiler::open();
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    here_ = *std::move(opened);
    pool_ = open_pool({});
    ASSERT_NE(pool_, nullptr);
  }
  static KernelSource scale_kernel(const std::string& name, const std::string& value = "2.0f") {
    return kernel(name, "extern \"C\" __global__ void " + name + "(float* y) { y[threadIdx.x] *= " + value + "; }\n");
  }
  static std::string repeated(const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  }
  std::unique_ptr<KernelCompiler> here_;
  std::unique_ptr<CompilerPool> pool_;
};

TEST_F(NvrtcPoolTest, CompilesAsInThisProcess) {
  EXPECT_EQ(pool_->version(), here_->version());
  for (const KernelSource& each : {scale_kernel("scale"), scale_kernel("broken", "undefined_name")}) {
    const auto there = pool_->compile(each, "sm_90");
    const auto here = here_->compile(each, "sm_90");
    ASSERT_EQ(there.ok(), here.ok());
    EXPECT_EQ(there.status().to_string(), here.status().to_string());
    if (!there.ok()) continue;
    EXPECT_EQ(there->cubin, here->cubin);
    EXPECT_EQ(there->figures.registers, here->figures.registers);
  }
  KernelSource fenced = scale_kernel("fenced");
  fenced.architecture = "sm_90a";
  EXPECT_EQ(pool_->compile(fenced, "sm_80").status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(pool_->ptx(fenced, "compute_90").value(), here_->ptx(fenced, "compute_90").value());
}

// NVRTC installs handlers of its own for these signals while it compiles.
TEST_F(NvrtcPoolTest, SignalsOfATerminalDoNotReachACompiler) {
  const KernelSource long_one = scale_kernel("scale", repeated("expf(y[1] + ", 20) + "0.5f" + repeated(")", 20));
  std::atomic<int> sent = 0;
  const std::jthread sender([&](const std::stop_token& stop) {
    for (int i = 0; !stop.stop_requested(); ++i) {
      for (const pid_t child : children_of_the_main_thread()) {
        kill(child, std::array{SIGTERM, SIGINT, SIGHUP, SIGQUIT}[i % 4]);
        ++sent;
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  for (int i = 0; i < 5; ++i) {
    const auto compiled = pool_->compile(long_one, "sm_90");
    EXPECT_TRUE(compiled.ok()) << compiled.status().to_string();
  }
  EXPECT_GT(sent, 10);
  EXPECT_EQ(pool_->ended_children(), 0);
}

TEST_F(NvrtcPoolTest, TheKnownGoodKernelCompiles) {
  for (const char* architecture : {"sm_80", "sm_90"}) {
    const auto compiled = pool_->compile(*known_good_kernel(), architecture);
    EXPECT_TRUE(compiled.ok()) << compiled.status().to_string();
  }
}

// What it does of itself with a source that is nested deeply: here it would end, or stop, this process.
TEST_F(NvrtcPoolTest, OutlivesACompilerThatCrashes) {
  std::vector<KernelSource> kernels;
  for (int i = 0; i < 4; ++i) kernels.push_back(scale_kernel("scale" + std::to_string(i)));
  kernels.push_back(scale_kernel("deep", repeated("- ", 20'000) + "2.0f"));
  const TemporaryDirectory directory;
  const std::string program = directory.file("compiler_with_a_small_stack");
  std::ofstream(program) << "#!/bin/sh\nulimit -s 1024\nexec '" << program_folder() << "/sparsmith-compiler'\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const auto pool = open_pool({.program = program});
  ASSERT_NE(pool, nullptr);
  const auto results = compile_all(*pool, kernels, "sm_90", 2);
  ASSERT_EQ(results.size(), 5U);
  for (const auto& [name, result] : results) EXPECT_EQ(result.ok(), name != "deep") << result.status().to_string();
  EXPECT_THAT(results.at("deep").status().message(), HasSubstr("compiling deep: the compiler died of signal 11"));
}

TEST_F(NvrtcPoolTest, OutlivesACompilerThatHangs) {
  CompilerPool::Options options;
  options.timeout = milliseconds(4000);
  const auto pool = open_pool(options);
  ASSERT_NE(pool, nullptr);
  const auto begin = std::chrono::steady_clock::now();
  const auto hung = pool->compile(
      kernel("deep", "extern \"C\" __global__ void deep(float* y) { " + repeated("if (y[0] > 1) ", 20'000) + "; }"),
      "sm_90");
  EXPECT_LT(seconds_since(begin), 30);
  EXPECT_EQ(compiler_loss(hung.status().message()), CompilerLoss::kLate) << hung.status().to_string();
  const auto next = pool->compile(scale_kernel("scale"), "sm_90");
  EXPECT_TRUE(next.ok()) << next.status().to_string();
}

}  // namespace
}  // namespace sparsmith
