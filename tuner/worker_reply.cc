#include "tuner/message_json.h"
#include "tuner/worker_protocol.h"

namespace sparsmith {
namespace {

json to_json(const DeviceProperties& device) {
  return {{"name", device.name},
          {"compute_capability", device.compute_capability},
          {"sm_count", device.sm_count},
          {"l2_bytes", device.l2_bytes},
          {"memory_bytes", device.memory_bytes},
          {"max_threads_per_block", device.max_threads_per_block},
          {"max_threads_per_sm", device.max_threads_per_sm},
          {"max_blocks_per_sm", device.max_blocks_per_sm},
          {"shared_bytes_per_block", device.shared_bytes_per_block},
          {"shared_bytes_per_sm", device.shared_bytes_per_sm},
          {"registers_per_sm", device.registers_per_sm},
          {"clock_khz", device.clock_khz},
          {"memory_bandwidth", number(device.memory_bandwidth)},
          {"l2_bandwidth", number(device.l2_bandwidth)},
          {"launch_us", number(device.launch_us)},
          {"driver_version", device.driver_version},
          {"pci_address", device.pci_address},
          {"is_emulator", device.is_emulator}};
}

DeviceProperties device_of(const json& value) {
  DeviceProperties device;
  device.name = value.at("name");
  device.compute_capability = small_integer_of(value.at("compute_capability"));
  device.sm_count = small_integer_of(value.at("sm_count"));
  device.l2_bytes = integer_of(value.at("l2_bytes"));
  device.memory_bytes = integer_of(value.at("memory_bytes"));
  device.max_threads_per_block = small_integer_of(value.at("max_threads_per_block"));
  device.max_threads_per_sm = small_integer_of(value.at("max_threads_per_sm"));
  device.max_blocks_per_sm = small_integer_of(value.at("max_blocks_per_sm"));
  device.shared_bytes_per_block = integer_of(value.at("shared_bytes_per_block"));
  device.shared_bytes_per_sm = integer_of(value.at("shared_bytes_per_sm"));
  device.registers_per_sm = small_integer_of(value.at("registers_per_sm"));
  device.clock_khz = small_integer_of(value.at("clock_khz"));
  device.memory_bandwidth = number_of(value.at("memory_bandwidth"));
  device.l2_bandwidth = number_of(value.at("l2_bandwidth"));
  device.launch_us = number_of(value.at("launch_us"));
  device.driver_version = value.at("driver_version");
  device.pci_address = value.at("pci_address");
  device.is_emulator = value.at("is_emulator");
  return device;
}

json to_json(const DeviceSpeeds& speeds) {
  return {{"memory_bandwidth", number(speeds.memory_bandwidth)},
          {"l2_bandwidth", number(speeds.l2_bandwidth)},
          {"launch_us", number(speeds.launch_us)}};
}

DeviceSpeeds speeds_of(const json& value) {
  return {.memory_bandwidth = number_of(value.at("memory_bandwidth")),
          .l2_bandwidth = number_of(value.at("l2_bandwidth")),
          .launch_us = number_of(value.at("launch_us"))};
}

json to_json(const Verification& verification) {
  return {{"ok", verification.ok},
          {"max_error_over_bound", number(verification.max_error_over_bound)},
          {"norm_error", number(verification.norm_error)},
          {"reason", verification.reason}};
}

Verification verification_of(const json& value) {
  return {.ok = value.at("ok"),
          .max_error_over_bound = number_of(value.at("max_error_over_bound")),
          .norm_error = number_of(value.at("norm_error")),
          .reason = value.at("reason")};
}

json to_json(const Timing& timing) {
  return {{"median_us", number(timing.median_us)},
          {"q1_us", number(timing.q1_us)},
          {"q3_us", number(timing.q3_us)},
          {"samples_us", timing.samples_us},
          {"copies", timing.copies},
          {"warm", timing.warm},
          {"too_slow", timing.too_slow}};
}

Timing timing_of(const json& value) {
  return {.median_us = number_of(value.at("median_us")),
          .q1_us = number_of(value.at("q1_us")),
          .q3_us = number_of(value.at("q3_us")),
          .samples_us = value.at("samples_us").get<std::vector<float>>(),
          .copies = small_integer_of(value.at("copies")),
          .too_slow = value.at("too_slow"),
          .warm = value.at("warm")};
}

json to_json(const VendorTiming& vendor) {
  return {{"name", vendor.name},
          {"supported", vendor.supported},
          {"detail", vendor.detail},
          {"timing", to_json(vendor.timing)},
          {"own_layout_us", vendor.own_layout_us},
          {"epilogue_left_out", vendor.epilogue_left_out},
          {"verification", to_json(vendor.verification)},
          {"weight_bytes", vendor.weight_bytes}};
}

VendorTiming vendor_of(const json& value) {
  return {.name = value.at("name"),
          .supported = value.at("supported"),
          .detail = value.at("detail"),
          .timing = timing_of(value.at("timing")),
          .own_layout_us = value.at("own_layout_us"),
          .epilogue_left_out = value.at("epilogue_left_out"),
          .verification = verification_of(value.at("verification")),
          .weight_bytes = integer_of(value.at("weight_bytes"))};
}

// The key under which a reply's alternative is sent, and its value.
struct ReplyEncoder {
  json operator()(std::monostate) const { return {{"done", true}}; }
  json operator()(const DeviceProperties& device) const { return {{"device", to_json(device)}}; }
  json operator()(const DeviceSpeeds& speeds) const { return {{"speeds", to_json(speeds)}}; }
  json operator()(const Verification& verification) const { return {{"verification", to_json(verification)}}; }
  json operator()(const VendorTiming& vendor) const { return {{"vendor", to_json(vendor)}}; }
  json operator()(const std::vector<Timing>& timings) const {
    json encoded = json::array();
    for (const Timing& timing : timings) encoded.push_back(to_json(timing));
    return {{"timings", encoded}};
  }
};

Result<WorkerReply> reply_of(const json& header) {
  if (header.contains("error")) return error_of(header.at("error"));
  if (header.contains("done")) return WorkerReply(std::monostate());
  if (header.contains("device")) return WorkerReply(device_of(header.at("device")));
  if (header.contains("speeds")) return WorkerReply(speeds_of(header.at("speeds")));
  if (header.contains("verification")) return WorkerReply(verification_of(header.at("verification")));
  if (header.contains("vendor")) return WorkerReply(vendor_of(header.at("vendor")));
  std::vector<Timing> timings;
  for (const json& timing : header.at("timings")) timings.push_back(timing_of(timing));
  return WorkerReply(std::move(timings));
}

}  // namespace

OutgoingMessage encode_reply(const Result<WorkerReply>& reply) {
  const json header = reply.ok() ? std::visit(ReplyEncoder{}, *reply) : json{{"error", to_json(reply.status())}};
  return {.header = dumped(header), .blobs = {}};
}

Result<WorkerReply> decode_reply(const Message& message) {
  return decoded<WorkerReply>([&] { return reply_of(json::parse(message.header)); });
}

}  // namespace sparsmith
