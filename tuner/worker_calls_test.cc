#include "tuner/worker_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/support/fake_executor.h"
#include "tests/support/message_frames.h"
#include "tests/support/sample_weight.h"
#include "tuner/process/call_message.h"

namespace sparsmith {
namespace {

// Through a frame and back, as a worker sees it.
Result<WorkerCall> sent(const WorkerCall& call) {
  Result<Message> received = decode_frame(encode_frame(encode_call(call)));
  if (!received.ok()) return received.status();
  WorkerCall decoded;
  SPARSMITH_RETURN_IF_ERROR(decode_call(*std::move(received), decoded));
  return decoded;
}

template <class Reply>
Result<Reply> replied(const Result<Reply>& reply) {
  Result<Reply> decoded = internal_error("nothing was decoded");
  const Status status = decode_reply(decode_frame(encode_frame(encode_reply(reply))).value(), decoded);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return decoded;
}

CompiledCandidate sample_candidate() {
  CompiledCandidate candidate{fake_plan("k", 7), "sample", {fake_kernel("k", "source \x80 with a bad byte")}};
  candidate.kernels[0].cubin = {std::byte{1}, std::byte{0}, std::byte{255}};
  candidate.kernels[0].max_shared_bytes = 1024;
  return candidate;
}

TEST(WorkerCallsTest, WeightsSurvive) {
  const CsrMatrix matrix = sample_weight(9, 14, 0.3, 1);
  OperatorSpec spec = sample_spec(matrix, "bias+gelu+residual");
  spec.type = DataType::kBFloat16;
  spec.layout = Layout::kFeatureMajor;
  spec.kind = OperatorKind::kSpmmTransposed;
  const auto request = sent(WeightCall{matrix, spec});
  ASSERT_TRUE(request.ok()) << request.status().to_string();
  const auto& weight = std::get<WeightCall>(*request);
  EXPECT_EQ(weight.spec, spec);
  EXPECT_EQ(weight.matrix->row_offsets, matrix.row_offsets);
  EXPECT_EQ(weight.matrix->column_indices, matrix.column_indices);
  EXPECT_EQ(weight.matrix->values, matrix.values);

  spec.type = DataType::kFloat16;
  spec.accumulation = Accumulation::kFp16Chains;
  const auto chained = sent(WeightCall{matrix, spec});
  ASSERT_TRUE(chained.ok()) << chained.status().to_string();
  EXPECT_EQ(std::get<WeightCall>(*chained).spec, spec);
  spec.type = DataType::kFloat32;
  EXPECT_THAT(sent(WeightCall{matrix, spec}).status().message(), testing::HasSubstr("spmm_transposed_fp32_chains"));
}

TEST(WorkerCallsTest, PackingsSurvive) {
  const PackedWeight packed = sample_packing(sample_weight(9, 14, 0.3, 1));
  const WorkerCall call = PackingCall{packed};
  EXPECT_EQ(encode_call(call).blobs.at(0).data(), packed.arrays[0].bytes.data()) << "what is sent is not copied";
  const auto request = sent(call);
  ASSERT_TRUE(request.ok()) << request.status().to_string();
  const PackedWeight& received = *std::get<PackingCall>(*request).packed;
  EXPECT_EQ(received.packing, packed.packing);
  EXPECT_EQ(received.nnz, packed.nnz);
  EXPECT_EQ(received.facts, packed.facts);
  ASSERT_EQ(received.arrays.size(), packed.arrays.size());
  for (std::size_t i = 0; i < packed.arrays.size(); ++i) {
    EXPECT_EQ(received.arrays[i].name, packed.arrays[i].name);
    EXPECT_EQ(received.arrays[i].type, packed.arrays[i].type);
    EXPECT_EQ(received.arrays[i].bytes, packed.arrays[i].bytes);
  }
}

TEST(WorkerCallsTest, CandidatesAndPoliciesSurvive) {
  const std::vector<CompiledCandidate> candidates = {sample_candidate(), sample_candidate()};
  const TimingPolicy policy{.cold_weights = false,
                            .programmatic = true,
                            .layers = 64,
                            .min_replays = 9,
                            .max_milliseconds = 12.5,
                            .limit_us = 99.5};
  const auto request = sent(TimeCall{candidates, {"cublas", "cusparse"}, policy});
  ASSERT_TRUE(request.ok()) << request.status().to_string();
  const auto& time = std::get<TimeCall>(*request);
  ASSERT_EQ(time.candidates.size(), 2U);
  EXPECT_EQ(time.candidates[1].plan, candidates[1].plan);
  EXPECT_EQ(time.candidates[1].kernels[0].cubin, candidates[1].kernels[0].cubin);
  EXPECT_EQ(time.candidates[1].kernels[0].max_shared_bytes, 1024);
  EXPECT_THAT(time.vendors, testing::ElementsAre("cublas", "cusparse"));
  EXPECT_FALSE(time.policy.cold_weights);
  EXPECT_TRUE(time.policy.programmatic);
  EXPECT_EQ(time.policy.layers, 64);
  EXPECT_EQ(time.policy.min_replays, 9);
  EXPECT_EQ(time.policy.max_milliseconds, 12.5);
  EXPECT_EQ(time.policy.limit_us, 99.5);
  EXPECT_FALSE(time.unverified);
  const auto unverified = sent(TimeCall{candidates, {}, policy, true});
  ASSERT_TRUE(unverified.ok()) << unverified.status().to_string();
  EXPECT_TRUE(std::get<TimeCall>(*unverified).unverified);
  const auto vendor = sent(VendorCall{"cusparselt", policy, {"algorithm 3"}});
  ASSERT_TRUE(vendor.ok()) << vendor.status().to_string();
  EXPECT_THAT(std::get<VendorCall>(*vendor).without, testing::ElementsAre("algorithm 3"));
  const auto verify = sent(VerifyCall{candidates[0], 2100});
  ASSERT_TRUE(std::holds_alternative<VerifyCall>(*verify));
  EXPECT_EQ(std::get<VerifyCall>(*verify).run_limit_ms, 2100);
  EXPECT_FALSE(std::get<SpeedsCall>(*sent(SpeedsCall{})).probe.has_value());
  const KernelImage probe = {"probe", "its text", {std::byte{1}, std::byte{2}}, 48};
  const auto probed = std::get<SpeedsCall>(*sent(SpeedsCall{probe})).probe;
  ASSERT_TRUE(probed.has_value());
  EXPECT_EQ(probed->name, probe.name);
  EXPECT_EQ(probed->cubin, probe.cubin);
  EXPECT_EQ(probed->max_shared_bytes, 48);
  EXPECT_EQ(std::get<OwnKernelCall>(*sent(OwnKernelCall{probe})).kernel.cubin, probe.cubin);
  EXPECT_EQ(std::get<KnownGoodCall>(*sent(KnownGoodCall{probe})).kernel->cubin, probe.cubin);
  EXPECT_EQ(std::get<PlacePackingCall>(*sent(PlacePackingCall{"csr"})).packing, "csr");
  EXPECT_EQ(std::get<DropPackingCall>(*sent(DropPackingCall{"csr"})).packing, "csr");
  EXPECT_EQ(std::get<TokensCall>(*sent(TokensCall{128, ~0ULL})).seed, ~0ULL);
  EXPECT_EQ(std::get<VendorCall>(*sent(VendorCall{"cublas", policy})).name, "cublas");
}

TEST(WorkerCallsTest, RepliesSurvive) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Verification verification =
      replied<Verification>(
          Verification{.ok = false, .max_error_over_bound = infinity, .norm_error = NAN, .reason = "why\xff"})
          .value();
  EXPECT_EQ(verification.max_error_over_bound, infinity);
  EXPECT_TRUE(std::isnan(verification.norm_error));
  EXPECT_THAT(verification.reason, testing::StartsWith("why"));

  Timing timing{.median_us = 1.5,
                .q1_us = 1.25,
                .q3_us = 2,
                .samples_us = {1.5F, 2.0F},
                .copies = 7,
                .too_slow = true,
                .warm = true};
  const auto timings = replied<std::vector<Timing>>(std::vector<Timing>{timing}).value();
  ASSERT_EQ(timings.size(), 1U);
  EXPECT_EQ(timings[0].samples_us, timing.samples_us);
  EXPECT_EQ(timings[0].copies, 7);
  EXPECT_TRUE(timings[0].warm);

  DeviceProperties device = typical_device(90);
  device.name = "NVIDIA H200";
  EXPECT_EQ(replied<DeviceProperties>(device)->device_class(), device.device_class());
  EXPECT_EQ(replied<DeviceProperties>(device)->l2_bandwidth, device.l2_bandwidth);
  const auto speeds = replied<DeviceSpeeds>(DeviceSpeeds{4e12, 5e12, 1.25}).value();
  EXPECT_EQ(speeds.memory_bandwidth, 4e12);
  EXPECT_EQ(speeds.l2_bandwidth, 5e12);
  EXPECT_EQ(speeds.launch_us, 1.25);
  VendorTiming vendor;
  vendor.name = "cusparse";
  vendor.timing = timing;
  vendor.own_layout_us = 2.5;
  vendor.epilogue_left_out = true;
  vendor.weight_bytes = 12;
  vendor.broke = "algorithm 7";
  EXPECT_EQ(replied<VendorTiming>(vendor)->own_layout_us, 2.5);
  EXPECT_TRUE(replied<VendorTiming>(vendor)->epilogue_left_out);
  EXPECT_EQ(replied<VendorTiming>(vendor)->weight_bytes, 12);
  vendor.slower = {"algorithm 5", "algorithm 6"};
  EXPECT_EQ(replied<VendorTiming>(vendor)->broke, "algorithm 7");
  EXPECT_EQ(replied<VendorTiming>(vendor)->slower, vendor.slower);
  EXPECT_TRUE(replied<Done>(Done()).ok());

  const Result<DeviceSpeeds> error = replied<DeviceSpeeds>(out_of_memory("80 GB"));
  EXPECT_EQ(error.status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(error.status().message(), "80 GB");
}

TEST(WorkerCallsTest, NonsenseIsRefused) {
  const char* const array_without_bytes =
      R"({"call":"packing","packed":{"packing":"p","packer_version":1,"rows":1,"cols":1,"nnz":1,"value_type":"fp32",)"
      R"("facts":{},"arrays":[{"name":"a","type":"fp32"}]}})";
  const char* const time_unverified_as_number =
      R"({"call":"time","candidates":[],"vendors":[],"policy":{"cold_weights":true,"programmatic":false,"layers":0,)"
      R"("min_replays":1,"max_milliseconds":1,"limit_us":0},"unverified":1})";
  for (const char* header :
       {"", "{", "[]", "{}", R"({"call":1})", R"({"call":"dance"})", R"({"call":"tokens","tokens":-1,"seed":1})",
        R"({"call":"tokens","tokens":1e300,"seed":1})", R"({"call":"tokens","tokens":1.5,"seed":1})",
        R"({"call":"tokens","tokens":1,"seed":2e101})", R"({"call":"tokens","tokens":1,"seed":-1})",
        R"({"call":"vendor","name":"x","policy":{}})",
        R"({"call":"verify","run_limit_ms":0,"candidate":{"plan":"{","packing":"p"}})",
        R"({"call":"verify","run_limit_ms":-1,"candidate":{"plan":"{}","packing":"p"}})", array_without_bytes,
        time_unverified_as_number}) {
    WorkerCall call;
    EXPECT_EQ(decode_call({header, {}}, call).code(), StatusCode::kInvalidInput) << header;
    Result<Verification> reply = Verification();
    EXPECT_EQ(decode_reply({header, {}}, reply).code(), StatusCode::kInvalidInput) << header;
  }
  Message extra{R"({"call":"properties"})", {{std::byte{0}}}};
  WorkerCall call;
  EXPECT_FALSE(decode_call(extra, call).ok()) << "a blob that nothing speaks of";
}

TEST(MessageTest, DamagedFramesAreRefused) {
  const CsrMatrix matrix = sample_weight(5, 6, 0.5, 1);
  const std::vector<std::byte> frame = encode_frame(encode_call(WeightCall{matrix, sample_spec(matrix)}));
  ASSERT_TRUE(decode_frame(frame).ok());
  for (std::size_t size = 0; size < frame.size(); ++size)
    EXPECT_FALSE(decode_frame(std::span(frame).first(size)).ok()) << size;
  std::vector<std::byte> longer = frame;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_frame(longer).ok());

  constexpr std::uint32_t kSeed = 77;
  std::mt19937 random(kSeed);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> damaged = frame;
    for (int flips = 0; flips < 3; ++flips)
      damaged[random() % damaged.size()] ^= static_cast<std::byte>(1 << (random() % 8));
    Result<Message> message = decode_frame(damaged);
    WorkerCall call;
    if (message.ok()) (void)decode_call(*std::move(message), call);  // an answer of some kind, and no crash
  }
}

TEST(MessageTest, HugeSizesAreRefusedBeforeMemoryIsTaken) {
  std::vector<std::byte> frame = encode_frame({.header = "{}", .blobs = {{}}});
  for (std::size_t i = 16; i < 24; ++i) frame[i] = std::byte{0xFF};
  EXPECT_FALSE(decode_frame(frame).ok());
}

}  // namespace
}  // namespace sparsmith
