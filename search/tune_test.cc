#include "search/tune.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <mutex>

#include "search/record/tuned_output.h"
#include "tests/support/tune_fixture.h"

namespace sparsmith {
namespace {

TEST_F(TuneTest, ChoosesTheFastestAndSaysWhy) {
  options_.tokens = {1, 8};
  const TuneReport report = run({weight("w", 64, 96, 1)});
  ASSERT_EQ(report.weights.size(), 1U);
  ASSERT_EQ(report.weights[0].buckets.size(), 2U);
  EXPECT_EQ(report.pairs, 2);
  EXPECT_TRUE(report.measured);
  EXPECT_TRUE(report.complete);
  for (const BucketChoice& bucket : report.weights[0].buckets) {
    EXPECT_FALSE(bucket.is_baseline());
    EXPECT_EQ(bucket.evidence, "measured");
    EXPECT_EQ(bucket.dense_us, 20);
    EXPECT_LT(bucket.us(), 20);
    EXPECT_FALSE(bucket.reason.empty());
  }
  EXPECT_LE(report.weights[0].gpu_bytes(), 16 * report.weights[0].dense_bytes());
  EXPECT_EQ(report.memory.bytes, report.weights[0].gpu_bytes());
  EXPECT_EQ(report.memory.dense_bytes, report.weights[0].dense_bytes());
  EXPECT_FALSE(report.images.empty());
  EXPECT_FALSE(report.images[0].binaries.empty());
}

TEST_F(TuneTest, LibrariesAreTimedOnceForAnN) {
  options_.tokens = {8};
  options_.vendors = {"cusparse"};
  run({weight("w", 64, 96, 1)});
  EXPECT_EQ(device_.vendors_timed, 1);
}

TEST_F(TuneTest, TheDeviceBeginsBeforeTheKernelsOfEveryNAreCompiled) {
  options_.tokens = {1, 8};
  std::promise<void> begun;
  const std::shared_future<void> has_begun = begun.get_future().share();
  std::once_flag once;
  device_.before_verify = [&] { std::call_once(once, [&] { begun.set_value(); }); };
  std::atomic<int> of_several_tokens = 0;
  std::atomic<int> waited_in_vain = 0;
  compiles_.before = [&](const std::string& name) {
    if (!name.starts_with("panel_") && !name.starts_with("gather_")) return;
    ++of_several_tokens;
    if (has_begun.wait_for(std::chrono::seconds(10)) != std::future_status::ready) ++waited_in_vain;
  };
  EXPECT_EQ(run({weight("w", 64, 96, 1)}).pairs, 2);
  EXPECT_GT(of_several_tokens, 0);
  EXPECT_EQ(waited_in_vain, 0);
}

TEST_F(TuneTest, OneNIsTriedWhileKernelsOfAnotherAreCompiled) {
  options_.tokens = {1, 8};
  options_.compile_threads = 64;  // those that wait keep no other one waiting
  options_.use_choices = false;
  std::map<std::string, std::set<std::int64_t>> tokens_of;  // by kernel
  device_.fault = [&](const CompiledCandidate& candidate) {
    for (const KernelImage& kernel : candidate.kernels) tokens_of[kernel.name].insert(device_.tokens);
    return DeviceScript::Fault::kNone;
  };
  run({weight("w", 64, 96, 1)});
  std::promise<void> tried;
  const std::shared_future<void> was_tried = tried.get_future().share();
  std::once_flag once;
  device_.fault = [&](const CompiledCandidate&) {
    if (device_.tokens == 8) std::call_once(once, [&] { tried.set_value(); });
    return DeviceScript::Fault::kNone;
  };
  std::atomic<int> of_one_token = 0;
  std::atomic<int> waited_in_vain = 0;
  compiles_.before = [&](const std::string& name) {
    const auto known = tokens_of.find(name);
    if (known == tokens_of.end() || known->second != std::set<std::int64_t>{1}) return;
    ++of_one_token;
    if (was_tried.wait_for(std::chrono::seconds(10)) != std::future_status::ready) ++waited_in_vain;
  };
  cache_ = "another.db";
  EXPECT_EQ(run({weight("w", 64, 96, 1)}).pairs, 2);
  EXPECT_GT(of_one_token, 0);
  EXPECT_EQ(waited_in_vain, 0);
}

TEST_F(TuneTest, ADeviceIsProbedOnceForACache) {
  const TuneReport first = run({weight("w", 64, 96, 1)});
  EXPECT_EQ(device_.probed, 1);
  EXPECT_EQ(first.device.memory_bandwidth, 4.1e12);
  EXPECT_EQ(first.device.l2_bandwidth, 5e12);
  EXPECT_EQ(first.device.launch_us, 2);
  const TuneReport second = run({weight("v", 64, 96, 2)});
  EXPECT_EQ(device_.probed, 1);
  EXPECT_EQ(second.device.l2_bandwidth, 5e12);
  device_.properties.driver_version = "another";
  run({weight("u", 64, 96, 3)});
  EXPECT_EQ(device_.probed, 2);
}

TEST_F(TuneTest, KeepsDenseWhereNothingBeatsIt) {
  device_.dense_us = 2;
  const TuneReport report = run({weight("w", 64, 96, 1)});
  const BucketChoice& bucket = report.weights.at(0).buckets.at(0);
  EXPECT_TRUE(bucket.is_baseline());
  EXPECT_EQ(bucket.candidate.config.text(), "dense proposal=0");
  EXPECT_NE(bucket.reason.find("dense is kept"), std::string::npos) << bucket.reason;
  EXPECT_EQ(report.weights[0].gpu_bytes(), 64 * 96 * 4);
}

// Every step of the first choice that launches a kernel.
std::vector<bool> programmatic_steps(const TuneReport& report) {
  std::vector<bool> steps;
  for (const PlanStep& step : report.weights.at(0).buckets.at(0).candidate.plan.steps)
    if (step.kind == PlanStep::Kind::kLaunch) steps.push_back(step.programmatic_launch);
  return steps;
}

TEST_F(TuneTest, ProgrammaticLaunchesAreChoicesOfTheirOwn) {
  using testing::AllOf;
  using testing::Each;
  using testing::Not;
  const std::vector<WeightInput> weights = {weight("w", 64, 96, 1)};
  EXPECT_THAT(programmatic_steps(run(weights)), AllOf(Not(testing::IsEmpty()), Each(false)));
  options_.timing.programmatic = true;
  const TuneReport searched = run(weights);
  EXPECT_EQ(searched.cached, 0);
  EXPECT_THAT(programmatic_steps(searched), AllOf(Not(testing::IsEmpty()), Each(true)));
  const TuneReport again = run(weights);
  EXPECT_EQ(again.cached, 1);
  EXPECT_THAT(programmatic_steps(again), Each(true));

  // The tuned file says so too.
  const std::string path = directory_.file("model.tuned.safetensors");
  TunedProvenance provenance;
  provenance.timing_policy = options_.timing.name();
  TunedContents contents = tuned_contents(again, provenance);
  for (TunedKernel& kernel : contents.kernels) kernel.binaries.clear();  // which are no cubins here
  const Status written = write_tuned_file(path, contents);
  ASSERT_TRUE(written.ok()) << written.to_string();
  const auto file = TunedFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file->contents().provenance.timing_policy, "cold_weights_programmatic");
  const LaunchPlan& plan = file->contents().weights.at(0).operators[0].choices.at(0).plan;
  EXPECT_EQ(plan, again.weights[0].buckets[0].candidate.plan);

  options_.timing.programmatic = false;
  const TuneReport plain = run(weights);
  EXPECT_EQ(plain.cached, 1);
  EXPECT_THAT(programmatic_steps(plain), Each(false));
}

TEST_F(TuneTest, OlderDevicesLaunchPlainly) {
  device_.properties = typical_device(80);
  options_.timing.programmatic = true;
  EXPECT_THAT(programmatic_steps(run({weight("w", 64, 96, 1)})), testing::Each(false));
}

// Where cuBLASLt lacks the epilogue, dense is its product and a kernel of ours.
class DenseEpilogueTest : public TuneTest {
 protected:
  void SetUp() override {
    TuneTest::SetUp();
    options_.epilogue = *Epilogue::parse("bias+silu+beta+residual");
    device_.time_us = [](const CompiledCandidate&) { return 6.0; };
    device_.dense_us = 3;
  }
  static bool is_dense(const CompiledCandidate& candidate) { return candidate.packing == "dense"; }
};

TEST_F(DenseEpilogueTest, IsKeptWhereNothingBeatsIt) {
  options_.tokens = {1, 8};
  const TuneReport report = run({weight("w", 64, 96, 1)});
  const WeightResult& result = report.weights.at(0);
  for (const BucketChoice& bucket : result.buckets) {
    EXPECT_TRUE(bucket.is_baseline());
    EXPECT_EQ(bucket.us(), 3);
    EXPECT_EQ(bucket.dense_us, 3);
    EXPECT_NE(bucket.reason.find("dense is kept: the best sparse candidate takes 6.00 us, dense 3.00 us"),
              std::string::npos)
        << bucket.reason;
    ASSERT_EQ(bucket.vendors.size(), 1U);
    EXPECT_EQ(bucket.vendors[0].name, "dense");
  }
  EXPECT_EQ(result.gpu_bytes(), 64 * 96 * 4);
  ASSERT_EQ(report.images.size(), 2U);
  EXPECT_EQ(report.images[0].kernel.name, "dense_epilogue_fp32_tm_bias_silu_beta_residual");
  EXPECT_EQ(report.images[1].kernel.name, "write_values_fp32_fp32_negative_zeros");
  EXPECT_FALSE(report.images[0].binaries.empty());

  const TunedContents contents = tuned_contents(report, {});
  EXPECT_TRUE(contents.validate().ok()) << contents.validate().to_string();
  const TunedChoice& choice = contents.weights.at(0).operators[0].choices.at(0);
  EXPECT_EQ(choice.packing, kDensePacking);
  ASSERT_EQ(choice.plan.steps.size(), 2U);
  EXPECT_EQ(choice.plan.steps[0], matmul_step("values", IntegerExpression(0)));
}

TEST_F(DenseEpilogueTest, IsLaunchedProgrammaticallyBehindTheProduct) {
  options_.timing.programmatic = true;
  EXPECT_THAT(programmatic_steps(run({weight("w", 64, 96, 1)})), testing::ElementsAre(true));
}

TEST_F(DenseEpilogueTest, TheCacheBringsItBackWithItsKernel) {
  const TuneReport report = run({weight("w", 64, 96, 1)});
  const int verified = device_.verified;
  const TuneReport again = run({weight("w", 64, 96, 1)});
  EXPECT_EQ(again.cached, 1);
  EXPECT_EQ(device_.verified, verified);
  EXPECT_EQ(again.weights.at(0).buckets.at(0).candidate.plan, report.weights.at(0).buckets.at(0).candidate.plan);
  ASSERT_EQ(again.images.size(), 2U);
  EXPECT_FALSE(again.images[0].binaries.empty());
}

TEST_F(DenseEpilogueTest, ASparseWinnerIsComparedWithIt) {
  device_.dense_us = 12;
  const BucketChoice bucket = run({weight("w", 64, 96, 1)}).weights.at(0).buckets.at(0);
  EXPECT_FALSE(bucket.is_baseline());
  EXPECT_EQ(bucket.dense_us, 12);
  EXPECT_NE(bucket.reason.find("2.00x as fast as dense (12.00 us)"), std::string::npos) << bucket.reason;
}

TEST_F(DenseEpilogueTest, AWrongOneIsNoChoiceAndSaysSo) {
  device_.is_wrong = is_dense;
  const BucketChoice bucket = run({weight("w", 64, 96, 1)}).weights.at(0).buckets.at(0);
  EXPECT_FALSE(bucket.is_baseline());
  EXPECT_NE(bucket.reason.find("dense was not measured: y[0][0] = 1, expected 0"), std::string::npos) << bucket.reason;
  EXPECT_TRUE(bucket.vendors.empty());
}

TEST_F(DenseEpilogueTest, WithoutTheLibraryItIsNotTried) {
  device_.dense_us = 0;
  const BucketChoice bucket = run({weight("w", 64, 96, 1)}).weights.at(0).buckets.at(0);
  EXPECT_TRUE(device_.deaths.empty());
  EXPECT_FALSE(bucket.is_baseline());
  EXPECT_EQ(bucket.dense_us, 0);
  EXPECT_NE(bucket.reason.find("the library is missing"), std::string::npos) << bucket.reason;
  // With the library back, it is.
  device_.dense_us = 3;
  options_.use_choices = false;
  EXPECT_TRUE(run({weight("w", 64, 96, 1)}).weights.at(0).buckets.at(0).is_baseline());
}

TEST_F(DenseEpilogueTest, IsPredictedWhereNothingCanBeTimed) {
  device_.properties.is_emulator = true;
  device_.is_wrong = [](const CompiledCandidate& candidate) { return !is_dense(candidate); };
  const TuneReport report = run({weight("w", 64, 96, 1)});
  const BucketChoice& bucket = report.weights.at(0).buckets.at(0);
  EXPECT_TRUE(bucket.is_baseline());
  EXPECT_EQ(bucket.evidence, "predicted");
  EXPECT_EQ(bucket.dense_us, bucket.us());
  EXPECT_EQ(report.images.size(), 2U);
}

TEST_F(TuneTest, AnEpilogueOfTheLibrarysIsItsOwn) {
  options_.epilogue = *Epilogue::parse("bias+relu");
  device_.dense_us = 2;
  const BucketChoice bucket = run({weight("w", 64, 96, 1)}).weights.at(0).buckets.at(0);
  EXPECT_TRUE(bucket.is_baseline());
  EXPECT_EQ(bucket.candidate.plan.steps, std::vector{matmul_step("values", std::nullopt)});
  for (const auto& [name, count] : compiles_.compiled) EXPECT_FALSE(name.starts_with("dense_epilogue")) << name;
}

TEST_F(TuneTest, AWarningSaysWhyTheCacheIsNotUsed) {
  run({weight("w", 64, 96, 1)});
  for (const std::string table : {"device", "environment"}) {
    SQLite::Database database(directory_.file(cache_), SQLite::OPEN_READWRITE);
    database.exec("CREATE TRIGGER refuses BEFORE INSERT ON " + table + " BEGIN SELECT RAISE(ABORT, 'no " + table +
                  "'); END");
    testing::internal::CaptureStderr();
    EXPECT_EQ(run({weight("w", 64, 96, 1)}).cached, 0);
    const std::string warning = testing::internal::GetCapturedStderr();
    EXPECT_THAT(warning, testing::ContainsRegex("the cache is not used in this run: .*no " + table));
    database.exec("DROP TRIGGER refuses");
  }
}

TEST_F(TuneTest, ARecordedSpaceHasTheTimesOfItsRunWhateverTheCacheKnows) {
  run({weight("w", 64, 96, 1)});
  std::vector<RecordedSpace> spaces;
  record_ = [&](const RecordedSpace& space) {
    spaces.push_back(space);
    return Status();
  };
  run({weight("w", 64, 96, 1)});
  ASSERT_EQ(spaces.size(), 1U);
  EXPECT_FALSE(spaces[0].candidates.empty());
  for (const RecordedCandidate& candidate : spaces[0].candidates)
    EXPECT_FALSE(candidate.samples_us.empty()) << candidate.config.text();
}

TEST_F(TuneTest, AKernelThatSpillsIsNotTimed) {
  compiles_.spills = [](const std::string&) { return true; };
  const TuneReport report = run({weight("w", 64, 96, 1)});
  EXPECT_EQ(device_.timed, 0);
  EXPECT_TRUE(report.weights.at(0).buckets.at(0).is_baseline());
  EXPECT_GT(report.rejected.at("it spills registers to memory"), 0);
}

TEST_F(TuneTest, AChoiceOfTheCacheWhoseKernelIsLostAndDoesNotCompileIsMadeAnew) {
  for (const bool predicts : {false, true}) {
    SCOPED_TRACE(predicts);
    device_.properties.is_emulator = predicts;
    cache_ = predicts ? "predicted.db" : "measured.db";
    compiles_.fails = {};
    const BucketChoice lost = run({weight("w", 64, 96, 1)}).weights.at(0).buckets.at(0);
    ASSERT_FALSE(lost.is_baseline());
    SQLite::Database(directory_.file(cache_), SQLite::OPEN_READWRITE).exec("DELETE FROM binary");
    compiles_.fails = [&](const std::string& name) { return name == lost.candidate.kernels.front().name; };
    const TuneReport report = run({weight("w", 64, 96, 1)});
    EXPECT_EQ(report.cached, 0);
    EXPECT_NE(report.weights.at(0).buckets.at(0).candidate.config, lost.candidate.config);
  }
}

TEST_F(TuneTest, EachKernelIsCompiledOnceOverManyWeights) {
  options_.tokens = {1, 8};
  std::vector<WeightInput> weights;
  constexpr int kWeights = 160;
  const std::vector<std::pair<int, int>> shapes = {{32, 64}, {64, 32}, {48, 48}, {16, 96}};
  for (int i = 0; i < kWeights; ++i) {
    const auto [rows, cols] = shapes[i % shapes.size()];
    weights.push_back(weight("w" + std::to_string(i), rows, cols, 100 + i));
  }
  const TuneReport report = run(weights);
  EXPECT_EQ(report.pairs, 2 * kWeights);
  std::int64_t compiled = 0;
  for (const auto& [name, count] : compiles_.compiled) {
    EXPECT_EQ(count, 1) << name;
    compiled += count;
  }
  EXPECT_EQ(report.kernels.compiled, compiled);
  EXPECT_LT(compiled, report.pairs) << "kernels are shared between weights";
  RecordProperty("pairs", static_cast<int>(report.pairs));
  RecordProperty("compiled", static_cast<int>(compiled));

  // A second run takes every choice from the cache: nothing is compiled, verified or timed.
  const int verified = device_.verified;
  const TuneReport again = run(weights);
  EXPECT_EQ(again.cached, again.pairs);
  EXPECT_GT(again.pack_seconds, 0);
  EXPECT_EQ(again.kernels.compiled, 0);
  EXPECT_EQ(device_.verified, verified);
  EXPECT_EQ(again.weights.at(7).buckets.at(1).us(), report.weights.at(7).buckets.at(1).us());
  EXPECT_EQ(again.weights.at(7).buckets.at(1).candidate.plan, report.weights.at(7).buckets.at(1).candidate.plan);
}

TEST_F(TuneTest, AGroupIsOneWeightOfItsMembersRows) {
  CsrMatrix whole = sample_weight(32, 96, 0.1, 1);
  ASSERT_TRUE(append_rows(whole, sample_weight(16, 96, 0.1, 2)).ok());
  ASSERT_TRUE(append_rows(whole, sample_weight(48, 96, 0.1, 3)).ok());
  const WeightInput group{.name = "qkv",
                          .load = nullptr,
                          .members = {weight("q", 32, 96, 1), weight("k", 16, 96, 2), weight("v", 48, 96, 3)}};
  const TuneReport report = run({group, weight("o", 96, 96, 4)});
  ASSERT_EQ(report.weights.size(), 2U);
  const WeightResult& result = report.weights[0];
  EXPECT_EQ(result.name, "qkv");
  EXPECT_EQ(result.rows, 96);
  EXPECT_EQ(result.pattern_hash, whole.pattern_hash());
  EXPECT_EQ(result.value_hash, whole.value_hash());
  EXPECT_EQ(result.members, (std::vector<GroupMember>{{"q", 0, 32}, {"k", 32, 16}, {"v", 48, 48}}));
  EXPECT_TRUE(report.weights[1].members.empty());
  EXPECT_EQ(tuned_contents(report, {}).weights[0].members, result.members);
  EXPECT_TRUE(tuned_contents(report, {}).validate().ok());
  // What was found out is of the weight, not of how it came about.
  EXPECT_EQ(run({{"w", [&] { return whole; }}}).cached, 1);

  options_.transpose = true;
  const TuneReport turned = run({{"t", nullptr, {weight("a", 96, 32, 5), weight("b", 96, 16, 6)}}});
  EXPECT_EQ(turned.weights.at(0).rows, 48);
  EXPECT_EQ(turned.weights.at(0).members, (std::vector<GroupMember>{{"a", 0, 32}, {"b", 32, 16}}));
}

TEST_F(TuneTest, MembersThatDoNotGoTogetherAreAnError) {
  TuneResources resources;
  resources.workers = {scripted_workers(device_)};
  const std::vector<WeightInput> weights = {{"qk", nullptr, {weight("q", 32, 96, 1), weight("k", 32, 64, 2)}}};
  const auto report = tune(weights, options_, resources);
  EXPECT_EQ(report.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(report.status().message().find("qk: member k: 64 columns do not go under 96"), std::string::npos)
      << report.status().message();
}

TEST_F(TuneTest, WithoutTimingChoicesArePredictedAndVerified) {
  device_.properties.is_emulator = true;
  const auto first_try = [this](const CompiledCandidate&) { return device_.verified == 1; };
  device_.is_wrong = first_try;  // the best prediction turns out wrong
  const TuneReport report = run({weight("w", 512, 1024, 1)});
  EXPECT_FALSE(report.measured);
  EXPECT_EQ(report.device.device_class(), typical_device(90).device_class());
  const BucketChoice& bucket = report.weights.at(0).buckets.at(0);
  EXPECT_EQ(bucket.evidence, "predicted");
  EXPECT_GT(bucket.us(), 0);
  EXPECT_EQ(device_.timed, 0);
  EXPECT_EQ(report.rejected.at("wrong result"), 1);

  // A device that can measure does not take a prediction for an answer.
  device_.properties.is_emulator = false;
  device_.is_wrong = {};
  const TuneReport measured = run({weight("w", 512, 1024, 1)});
  EXPECT_EQ(measured.cached, 0);
  EXPECT_EQ(measured.weights.at(0).buckets.at(0).evidence, "measured");
}

// As if the code of every choice had changed since it was made.
void change_code(const std::string& path) {
  auto cache = Cache::open(path, Cache::Mode::kReadWrite);
  ASSERT_TRUE(cache.ok());
  const auto choices = cache->choices();
  ASSERT_TRUE(choices.ok());
  for (ChoiceRecord choice : *choices) {
    choice.closure_hash = "another";
    choice.packer_version += 1000;
    ASSERT_TRUE(cache->put_choice(choice).ok());
  }
}

// What a choice in the cache stands for, changed one at a time: the choice is then a hint, and there is a search.
TEST_F(TuneTest, AChoiceOfOtherCodeIsSearchedAgain) {
  const std::vector<WeightInput> weights = {weight("w", 64, 96, 1)};
  const auto considered_after = [&](const std::function<void(ChoiceRecord&)>& change) {
    run(weights);  // a choice that counts
    auto cache = Cache::open(directory_.file(cache_), Cache::Mode::kReadWrite);
    EXPECT_TRUE(cache.ok());
    const auto choices = cache->choices();
    EXPECT_TRUE(choices.ok() && !choices->empty());
    for (ChoiceRecord choice : *choices) {
      EXPECT_EQ(choice.kind, "generated");
      change(choice);
      EXPECT_TRUE(cache->put_choice(choice).ok());
    }
    return run(weights).considered;
  };
  EXPECT_EQ(considered_after([](ChoiceRecord&) {}), 0);
  EXPECT_GT(considered_after([](ChoiceRecord& choice) { choice.closure_hash = "another"; }), 0);
  EXPECT_GT(considered_after([](ChoiceRecord& choice) { ++choice.packer_version; }), 0);
  EXPECT_GT(considered_after([](ChoiceRecord& choice) { choice.nvrtc_version += "1"; }), 0);
}

TEST_F(TuneTest, ChoicesMayBeKeptThoughTheirCodeChanged) {
  options_.tokens = {1, 8};
  const TuneReport first = run({weight("w", 64, 96, 1)});
  const std::string chosen = first.weights.at(0).buckets.at(0).candidate.config.text();
  options_.compare = true;
  options_.keep_choices = true;
  change_code(directory_.file(cache_));
  const TuneReport kept = run({weight("w", 64, 96, 1)});
  EXPECT_EQ(kept.considered, 0) << "there is no search";
  EXPECT_EQ(kept.weights.at(0).buckets.at(0).candidate.config.text(), chosen);
  EXPECT_FALSE(kept.weights.at(0).buckets.at(0).timing.samples_us.empty());

  device_.dense_us = 1;
  change_code(directory_.file(cache_));
  EXPECT_EQ(run({weight("w", 64, 96, 1)}).weights.at(0).buckets.at(0).candidate.config.text(), chosen)
      << "dense is faster now, and takes no one's place";
  device_.dense_us = 20;

  options_.keep_choices = false;
  change_code(directory_.file(cache_));
  EXPECT_GT(run({weight("w", 64, 96, 1)}).considered, 0);
}

TEST_F(TuneTest, OptionsAreChecked) {
  TuneResources resources;
  resources.workers = {scripted_workers(device_)};
  for (const std::vector<std::int64_t>& tokens : {std::vector<std::int64_t>{}, {0}, {0, 8}, {8, 1}, {1, 1}}) {
    options_.tokens = tokens;
    EXPECT_EQ(tune({}, options_, resources).status().code(), StatusCode::kInvalidArgument);
  }
  options_.tokens = {1, 8};
  options_.calls = {1};
  EXPECT_EQ(tune({}, options_, resources).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(TuneTest, AnUnreadableWeightIsAnError) {
  TuneResources resources;
  resources.workers = {scripted_workers(device_)};
  const std::vector<WeightInput> weights = {
      {"w", []() -> Result<CsrMatrix> { return invalid_input("element 3 is nan"); }}};
  const auto report = tune(weights, options_, resources);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.status().code(), StatusCode::kInvalidInput);
  EXPECT_NE(report.status().message().find("w: element 3"), std::string::npos) << report.status().message();
}

}  // namespace
}  // namespace sparsmith
