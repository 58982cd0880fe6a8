#include "tuner/worker_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tuner/fake_executor.h"
#include "tuner/sample_weight.h"

namespace sparsmith {
namespace {

// Through a frame and back, as a worker sees it.
Result<WorkerRequest> sent(const OutgoingMessage& message) {
  Result<Message> received = decode_frame(encode_frame(message));
  if (!received.ok()) return received.status();
  return decode_request(*std::move(received));
}

WorkerReply replied(const WorkerReply& reply) {
  const Result<Message> message = decode_frame(encode_frame(encode_reply(reply)));
  EXPECT_TRUE(message.ok()) << message.status().to_string();
  const Result<WorkerReply> decoded = decode_reply(*message);
  EXPECT_TRUE(decoded.ok()) << decoded.status().to_string();
  return *decoded;
}

LoadedCandidate sample_candidate() {
  LoadedCandidate candidate{fake_plan("k", 7), "sample", {fake_kernel("k", "source \x80 with a bad byte")}};
  candidate.kernels[0].cubin = {std::byte{1}, std::byte{0}, std::byte{255}};
  candidate.kernels[0].max_shared_bytes = 1024;
  return candidate;
}

TEST(WorkerProtocolTest, WeightsSurvive) {
  const CsrMatrix matrix = sample_weight(9, 14, 0.3, 1);
  OperatorSpec spec = sample_spec(matrix, "bias+gelu+residual");
  spec.type = DataType::kBFloat16;
  spec.layout = Layout::kFeatureMajor;
  spec.kind = OperatorKind::kSpmmTransposed;
  const auto request = sent(encode_weight_request(matrix, spec));
  ASSERT_TRUE(request.ok()) << request.status().to_string();
  const auto& weight = std::get<WeightRequest>(*request);
  EXPECT_EQ(weight.spec, spec);
  EXPECT_EQ(weight.matrix.row_offsets, matrix.row_offsets);
  EXPECT_EQ(weight.matrix.column_indices, matrix.column_indices);
  EXPECT_EQ(weight.matrix.values, matrix.values);

  spec.type = DataType::kFloat16;
  spec.accumulation = Accumulation::kFp16Chains;
  const auto chained = sent(encode_weight_request(matrix, spec));
  ASSERT_TRUE(chained.ok()) << chained.status().to_string();
  EXPECT_EQ(std::get<WeightRequest>(*chained).spec, spec);
  spec.type = DataType::kFloat32;
  EXPECT_THAT(sent(encode_weight_request(matrix, spec)).status().message(),
              testing::HasSubstr("spmm_transposed_fp32_chains"));
}

TEST(WorkerProtocolTest, PackingsSurvive) {
  const PackedWeight packed = sample_packing(sample_weight(9, 14, 0.3, 1));
  const auto request = sent(encode_packing_request(packed));
  ASSERT_TRUE(request.ok()) << request.status().to_string();
  const PackedWeight& received = std::get<PackingRequest>(*request).packed;
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

TEST(WorkerProtocolTest, CandidatesAndPoliciesSurvive) {
  const std::vector<LoadedCandidate> candidates = {sample_candidate(), sample_candidate()};
  const TimingPolicy policy{.cold_weights = false,
                            .programmatic = true,
                            .layers = 64,
                            .min_replays = 9,
                            .max_milliseconds = 12.5,
                            .limit_us = 99.5};
  const auto request = sent(encode_time_request(candidates, {"cublas", "cusparse"}, policy));
  ASSERT_TRUE(request.ok()) << request.status().to_string();
  const auto& time = std::get<TimeRequest>(*request);
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
  const auto unverified = sent(encode_time_request(candidates, {}, policy, true));
  ASSERT_TRUE(unverified.ok()) << unverified.status().to_string();
  EXPECT_TRUE(std::get<TimeRequest>(*unverified).unverified);
  const auto verify = sent(encode_verify_request(candidates[0], std::chrono::milliseconds(2100)));
  ASSERT_TRUE(std::holds_alternative<VerifyRequest>(*verify));
  EXPECT_EQ(std::get<VerifyRequest>(*verify).run_limit, std::chrono::milliseconds(2100));
  EXPECT_FALSE(std::get<SpeedsRequest>(*sent(encode_speeds_request(std::nullopt))).probe.has_value());
  const KernelImage probe = {"probe", "its text", {std::byte{1}, std::byte{2}}, 48};
  const auto probed = std::get<SpeedsRequest>(*sent(encode_speeds_request(probe))).probe;
  ASSERT_TRUE(probed.has_value());
  EXPECT_EQ(probed->name, probe.name);
  EXPECT_EQ(probed->cubin, probe.cubin);
  EXPECT_EQ(probed->max_shared_bytes, 48);
  EXPECT_EQ(std::get<FingerprintKernelRequest>(*sent(encode_fingerprint_kernel_request(probe))).kernel.cubin,
            probe.cubin);
  const auto comparison = std::get<OutputComparisonKernelRequest>(
      *sent(encode_output_comparison_kernel_request(DataType::kBFloat16, probe)));
  EXPECT_EQ(comparison.type, DataType::kBFloat16);
  EXPECT_EQ(comparison.kernel.cubin, probe.cubin);
  EXPECT_EQ(std::get<PlacePackingRequest>(*sent(encode_place_packing_request("csr"))).name, "csr");
  EXPECT_EQ(std::get<DropPackingRequest>(*sent(encode_drop_packing_request("csr"))).name, "csr");
  EXPECT_EQ(std::get<TokensRequest>(*sent(encode_tokens_request(128, ~0ULL))).seed, ~0ULL);
  EXPECT_EQ(std::get<VendorRequest>(*sent(encode_vendor_request("cublas", policy))).name, "cublas");
}

TEST(WorkerProtocolTest, RepliesSurvive) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto verification = std::get<Verification>(
      replied(Verification{.ok = false, .max_error_over_bound = infinity, .norm_error = NAN, .reason = "why\xff"}));
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
  const auto timings = std::get<std::vector<Timing>>(replied(std::vector<Timing>{timing}));
  ASSERT_EQ(timings.size(), 1U);
  EXPECT_EQ(timings[0].samples_us, timing.samples_us);
  EXPECT_EQ(timings[0].copies, 7);
  EXPECT_TRUE(timings[0].warm);

  DeviceProperties device = typical_device(90);
  device.name = "NVIDIA H200";
  EXPECT_EQ(std::get<DeviceProperties>(replied(device)).device_class(), device.device_class());
  EXPECT_EQ(std::get<DeviceProperties>(replied(device)).l2_bandwidth, device.l2_bandwidth);
  const auto speeds = std::get<DeviceSpeeds>(replied(DeviceSpeeds{4e12, 5e12, 1.25}));
  EXPECT_EQ(speeds.memory_bandwidth, 4e12);
  EXPECT_EQ(speeds.l2_bandwidth, 5e12);
  EXPECT_EQ(speeds.launch_us, 1.25);
  VendorTiming vendor;
  vendor.name = "cusparse";
  vendor.timing = timing;
  vendor.own_layout_us = 2.5;
  vendor.epilogue_left_out = true;
  vendor.weight_bytes = 12;
  EXPECT_EQ(std::get<VendorTiming>(replied(vendor)).own_layout_us, 2.5);
  EXPECT_TRUE(std::get<VendorTiming>(replied(vendor)).epilogue_left_out);
  EXPECT_EQ(std::get<VendorTiming>(replied(vendor)).weight_bytes, 12);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(replied(WorkerReply())));

  const Result<Message> error = decode_frame(encode_frame(encode_reply(Result<WorkerReply>(out_of_memory("80 GB")))));
  const Result<WorkerReply> decoded = decode_reply(*error);
  EXPECT_EQ(decoded.status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(decoded.status().message(), "80 GB");
}

TEST(WorkerProtocolTest, NonsenseIsRefused) {
  const char* const array_without_bytes =
      R"({"call":"packing","packing":"p","packer_version":1,"rows":1,"cols":1,"nnz":1,"value_type":"fp32",)"
      R"("facts":{},"arrays":[{"name":"a","type":"fp32"}]})";
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
    EXPECT_EQ(decode_request({header, {}}).status().code(), StatusCode::kInvalidInput) << header;
    EXPECT_FALSE(decode_reply({header, {}}).ok()) << header;
  }
  Message extra{R"({"call":"properties"})", {{std::byte{0}}}};
  EXPECT_FALSE(decode_request(extra).ok()) << "a blob that nothing speaks of";
}

TEST(MessageTest, DamagedFramesAreRefused) {
  const CsrMatrix matrix = sample_weight(5, 6, 0.5, 1);
  const std::vector<std::byte> frame = encode_frame(encode_weight_request(matrix, sample_spec(matrix)));
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
    if (message.ok()) (void)decode_request(*std::move(message));  // an answer of some kind, and no crash
  }
}

TEST(MessageTest, HugeSizesAreRefusedBeforeMemoryIsTaken) {
  std::vector<std::byte> frame = encode_frame({.header = "{}", .blobs = {{}}});
  for (std::size_t i = 16; i < 24; ++i) frame[i] = std::byte{0xFF};
  EXPECT_FALSE(decode_frame(frame).ok());
}

}  // namespace
}  // namespace sparsmith
