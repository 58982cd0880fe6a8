#include "tuner/compiler_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sparsmith {
namespace {

// Through a frame and back, as the other side sees it.
Result<CompilerRequest> asked(const OutgoingMessage& message) {
  return decode_compiler_request(decode_frame(encode_frame(message)).value());
}
CompilerReply replied(const CompilerReply& reply) {
  return decode_compiler_reply(decode_frame(encode_frame(encode_compiler_reply(reply))).value()).value();
}

const KernelSource kKernel{.name = "k",
                           .source = "source \x80 with a bad byte",
                           .closure_hash = "",
                           .threads_per_block = 32,
                           .max_shared_bytes = 0,
                           .architecture = "sm_90a"};

TEST(CompilerProtocolTest, RequestsSurvive) {
  EXPECT_TRUE(std::holds_alternative<VersionRequest>(asked(encode_version_request()).value()));
  const auto compile = std::get<CompileRequest>(asked(encode_compile_request(kKernel, "sm_90")).value());
  EXPECT_EQ(compile.kernel.name, "k");
  EXPECT_EQ(compile.kernel.source, kKernel.source);
  EXPECT_EQ(compile.kernel.architecture, "sm_90a");
  EXPECT_EQ(compile.architecture, "sm_90");
  const auto ptx = std::get<PtxRequest>(asked(encode_ptx_request(kKernel, "compute_90")).value());
  EXPECT_EQ(ptx.kernel.source, kKernel.source);
  EXPECT_EQ(ptx.architecture, "compute_90");
}

TEST(CompilerProtocolTest, RepliesSurvive) {
  EXPECT_EQ(std::get<VersionReply>(replied(VersionReply{"13.0"})).version, "13.0");
  EXPECT_EQ(std::get<PtxReply>(replied(PtxReply{".version 9.0\n"})).ptx, ".version 9.0\n");
  CompiledKernel kernel;
  kernel.name = "k";
  kernel.cubin = {std::byte{1}, std::byte{0}, std::byte{255}};
  kernel.figures = {
      .registers = 40, .spill_store_bytes = 8, .spill_load_bytes = 12, .stack_bytes = 16, .static_shared_bytes = 1024};
  const auto received = std::get<CompiledKernel>(replied(kernel));
  EXPECT_EQ(received.name, "k");
  EXPECT_EQ(received.cubin, kernel.cubin);
  EXPECT_EQ(received.figures.registers, 40);
  EXPECT_EQ(received.figures.spill_store_bytes, 8);
  EXPECT_EQ(received.figures.spill_load_bytes, 12);
  EXPECT_EQ(received.figures.stack_bytes, 16);
  EXPECT_EQ(received.figures.static_shared_bytes, 1024);
  const auto error = std::get<Status>(replied(invalid_input("k does not compile for sm_90")));
  EXPECT_EQ(error.code(), StatusCode::kInvalidInput);
  EXPECT_EQ(error.message(), "k does not compile for sm_90");
}

TEST(CompilerProtocolTest, WhatIsNoMessageIsRefused) {
  const std::vector<std::byte> blob(4);
  for (const char* header : {"", "[]", "{}", R"({"call": "run"})", R"({"call": 1})", R"({"call": "compile"})"})
    EXPECT_EQ(decode_compiler_request({header, {blob}}).status().code(), StatusCode::kInvalidInput) << header;
  Message request{encode_compile_request(kKernel, "sm_90").header, {}};
  EXPECT_FALSE(decode_compiler_request(request).ok()) << "its source is missing";
  request.blobs = {blob, blob};
  EXPECT_FALSE(decode_compiler_request(request).ok());
  EXPECT_FALSE(decode_compiler_request({R"({"call": "version"})", {blob}}).ok());
  for (const char* header : {"", "{}", R"({"version": 13})", R"({"error": {"code": 0, "message": "ok"}})",
                             R"({"error": {"code": 99, "message": ""}})", R"({"ptx": true})", R"({"compiled": "k"})"})
    EXPECT_EQ(decode_compiler_reply({header, {}}).status().code(), StatusCode::kInvalidInput) << header;
  EXPECT_FALSE(decode_compiler_reply({R"({"version": "13.0"})", {blob}}).ok());
}

}  // namespace
}  // namespace sparsmith
