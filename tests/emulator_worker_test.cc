// The worker on the emulator: generated kernels are checked in another process, from their text, with no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "emulator/emulated_executor.h"
#include "generator/kernel_text.h"
#include "tests/support/sample_weight.h"
#include "tests/support/worker_sample.h"
#include "tuner/time/speed_probe.h"
#include "tuner/verify/device_allocation.h"
#include "tuner/verify/fingerprint.h"
#include "tuner/verify/reference_kernel.h"

namespace sparsmith::test {
namespace {

constexpr std::uint32_t kSeed = 32;

TEST(EmulatorWorkerTest, ChecksGeneratedKernels) {
  auto worker = Worker::start({.device = "emulator", .program = ""});
  ASSERT_TRUE(worker.ok()) << worker.status().to_string();
  EXPECT_TRUE((*worker)->properties().is_emulator);
  for (int i = 0; i < 2; ++i) {
    const Status known_good = (*worker)->check_known_good();
    EXPECT_TRUE(known_good.ok()) << known_good.to_string();
  }
  const CsrMatrix matrix = drawn_weight(45, 70, 0.2, kSeed);
  const OperatorSpec spec = sample_spec(matrix, DataType::kFloat16, Layout::kTokenMajor, "bias+relu");
  const Problem problem{.spec = spec, .tokens = 3, .device = (*worker)->properties()};
  ASSERT_TRUE((*worker)->set_weight(matrix, spec).ok());
  const auto candidates = ranked_candidates(problem, matrix, 2, nullptr, **worker);
  ASSERT_TRUE(candidates.ok()) << candidates.status().to_string();
  const Status tokens = (*worker)->call(TokensCall{3, kSeed});
  ASSERT_TRUE(tokens.ok()) << tokens.to_string();
  for (const CompiledCandidate& candidate : *candidates) {
    const auto verification = (*worker)->call(VerifyCall{candidate});
    ASSERT_TRUE(verification.ok()) << verification.status().to_string();
    EXPECT_TRUE(verification->ok) << verification->reason;
  }
  EXPECT_EQ((*worker)->call(TimeCall{{candidates->front()}, {}, {}}).status().code(), StatusCode::kUnsupported);

  // What the emulator finds is the candidate's, and the worker lives on.
  KernelText text;
  text.name = "writes_outside";
  text.threads = 1;
  text.headers = {"snippets/device.cuh"};
  text.parameters = {{"float*", "y", operand("y")}};
  text.body = "y[1 << 20] = 1;";
  const auto kernel = assemble(text);
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  CompiledCandidate faulty = candidates->front();
  faulty.plan = {.steps = {launch_of(text)}};
  faulty.kernels = {{kernel->name, kernel->source, {}, 0}};
  const auto found = (*worker)->call(VerifyCall{faulty});
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_FALSE(found->ok);
  EXPECT_THAT(found->reason, testing::HasSubstr("writes_outside"));
  EXPECT_TRUE((*worker)->call(VerifyCall{candidates->front()})->ok);
}

TEST(EmulatedReferenceTest, ReferenceKernelsAgreeWithTheCpu) {
  auto executor = make_emulated_executor();
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  CsrMatrix matrix = drawn_weight(31, 57, 0.2, kSeed);
  for (std::size_t i = 0; i < matrix.values.size(); i += 5) matrix.values[i] = 1e-12F;  // fp16 rounds it away
  expect_references_agree(**executor, matrix, nullptr);
}

TEST(EmulatedReferenceTest, AFingerprintTellsOneByteFromAnother) {
  auto executor = make_emulated_executor();
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  const auto source = fingerprint_kernel();
  ASSERT_TRUE(source.ok()) << source.status().to_string();
  ASSERT_TRUE((*executor)->load({source->name, source->source, {}, source->max_shared_bytes}).ok());
  Fingerprinter fingerprinter(**executor);
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{16}, std::size_t{200'003}}) {
    std::vector<std::byte> contents(size);
    for (std::size_t i = 0; i < size; ++i) contents[i] = static_cast<std::byte>(i * i % 251);
    const auto array = DeviceAllocation::holding(**executor, contents);
    ASSERT_TRUE(array.ok());
    std::set<std::uint64_t> seen;
    const auto take = [&] {
      EXPECT_TRUE((*executor)->write(array->address(), contents).ok());
      const auto fingerprint = fingerprinter.of(std::vector{Fingerprinter::Range{array->address(), size}});
      EXPECT_TRUE(fingerprint.ok()) << fingerprint.status().to_string();
      return fingerprint.ok() ? *fingerprint : 0;
    };
    const std::uint64_t unchanged = take();
    seen.insert(unchanged);
    std::size_t changes = 0;
    for (const std::size_t place : {std::size_t{0}, size / 3, size - 1}) {
      if (place >= size) continue;
      for (const std::byte flip : {std::byte{1}, std::byte{0x80}}) {
        contents[place] ^= flip;
        seen.insert(take());
        contents[place] ^= flip;
        ++changes;
      }
    }
    if (size > 100) {
      std::swap(contents[4], contents[40]);
      seen.insert(take());
      std::swap(contents[4], contents[40]);
      ++changes;
    }
    EXPECT_EQ(seen.size(), changes + 1) << size;
    EXPECT_EQ(take(), unchanged) << size;
  }
}

// Every block reads every word: one that is all ones is found wherever it stands.
TEST(EmulatedReferenceTest, TheSpeedProbeReadsEveryWord) {
  auto executor = make_emulated_executor();
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  const auto source = speed_probe_kernel();
  ASSERT_TRUE(source.ok()) << source.status().to_string();
  ASSERT_TRUE((*executor)->load({source->name, source->source, {}, source->max_shared_bytes}).ok());
  constexpr std::int64_t kBytes = std::int64_t{512} << 10;
  for (const std::int64_t place : {std::int64_t{-1}, std::int64_t{0}, kBytes / 32, kBytes / 16 - 1}) {
    std::vector<std::byte> words(kBytes, std::byte{0x7F});
    if (place >= 0) std::fill_n(words.begin() + place * 16, 16, std::byte{0xFF});
    const auto array = DeviceAllocation::holding(**executor, words);
    const auto found = DeviceAllocation::holding(**executor, std::vector<std::byte>(4));
    ASSERT_TRUE(array.ok() && found.ok());
    LaunchBindings bindings;
    bindings.packed = {{"words", array->address()}, {"found", found->address()}};
    const Status status = (*executor)->run(speed_probe_plan(1, kBytes), bindings);
    ASSERT_TRUE(status.ok()) << status.to_string();
    std::uint32_t result = 7;
    ASSERT_TRUE((*executor)->read(std::as_writable_bytes(std::span(&result, 1)), found->address()).ok());
    EXPECT_EQ(result, place >= 0 ? 1U : 0U) << place;
  }
  LaunchBindings nothing;
  nothing.packed = {{"words", 0}, {"found", 0}};
  ASSERT_TRUE((*executor)->run(speed_probe_plan(3, 0), nothing).ok());
}

}  // namespace
}  // namespace sparsmith::test
