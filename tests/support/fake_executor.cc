#include "tests/support/fake_executor.h"

#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

namespace sparsmith {
namespace {

template <class T>
T* at(DeviceAddress address) {
  return reinterpret_cast<T*>(address);  // that is what this executor's addresses are
}

struct Operands {
  const std::int32_t* row_offsets = nullptr;
  const std::uint32_t* columns = nullptr;
  float* values = nullptr;
};

void run_csr(const std::string& source, const Operands& w, std::int64_t rows, const LaunchBindings& b) {
  float* const x = at<float>(b.operands.value_or("x", 0));
  float* const y = at<float>(b.operands.value_or("y", 0));
  const DeviceAddress bias = b.operands.value_or("bias", 0);
  const std::int64_t ldx = b.variables.strides.value_or("x", 0);
  const std::int64_t ldy = b.variables.strides.value_or("y", 0);
  const float alpha = b.scalars.value_or("alpha", 1);
  const float beta = b.scalars.value_or("beta", 0);
  for (std::int64_t token = 0; token < b.variables.n; ++token) {
    for (std::int64_t row = 0; row < rows; ++row) {
      float sum = 0;
      for (std::int32_t i = w.row_offsets[row]; i < w.row_offsets[row + 1]; ++i) {
        if (source == "dropped" && row == rows - 1 && i == w.row_offsets[row + 1] - 1) continue;
        sum += w.values[i] * x[token * ldx + w.columns[i]];
      }
      if (source == "padded") sum += 0.0F * x[token * ldx];
      if (bias != 0) sum += at<float>(bias)[row] / alpha;
      float& out = y[token * ldy + row];
      out = alpha * sum + (beta == 0 ? 0 : beta * out);
    }
  }
  if (source == "past the end") y[b.variables.n * ldy] = 1;
  if (source == "before") at<float>(b.workspace)[-1] = 1;
  if (source == "changes x") x[0] = 1;
  if (source == "changes w") w.values[0] = 1;
}

}  // namespace

FakeExecutor::FakeExecutor(bool is_emulator) {
  properties_ = typical_device(90);
  properties_.name = "fake device";
  properties_.is_emulator = is_emulator;
}

Result<DeviceAddress> FakeExecutor::allocate(std::size_t bytes) {
  auto memory = std::make_unique<std::byte[]>(bytes + 1);
  std::memset(memory.get(), 0xFF, bytes);
  const auto address = reinterpret_cast<DeviceAddress>(memory.get());
  buffers_.emplace(address, std::move(memory));
  return address;
}

Status FakeExecutor::free(DeviceAddress address) {
  return buffers_.erase(address) == 1 ? Status() : invalid_argument("no such buffer");
}

Status FakeExecutor::write(DeviceAddress to, std::span<const std::byte> from) {
  if (!from.empty()) std::memcpy(at<void>(to), from.data(), from.size());
  return {};
}

Status FakeExecutor::read(std::span<std::byte> to, DeviceAddress from) {
  if (!to.empty()) std::memcpy(to.data(), at<void>(from), to.size());
  return {};
}

Status FakeExecutor::fill(DeviceAddress to, std::byte value, std::size_t bytes) {
  if (bytes > 0) std::memset(at<void>(to), std::to_integer<int>(value), bytes);
  return {};
}

Status FakeExecutor::copy(DeviceAddress to, DeviceAddress from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(at<void>(to), at<void>(from), bytes);
  return {};
}

Status FakeExecutor::load(const KernelImage& kernel) {
  sources_[kernel.name] = kernel.source;
  return {};
}

Status FakeExecutor::run(const LaunchPlan& plan, const LaunchBindings& bindings) {
  for (const PlanStep& step : plan.steps) {
    const auto found = sources_.find(step.kernel);
    if (found == sources_.end()) return not_found("kernel " + step.kernel + " was not loaded");
    const std::string& source = found->second;
    if (source == "fault") return device_error(step.kernel + " reads outside of a buffer");
    if (source == "crash") std::raise(SIGSEGV);
    while (source == "hang") std::this_thread::sleep_for(std::chrono::seconds(1));
    Operands w;
    for (const LaunchBindings::Packed& packed : bindings.packed) {
      if (packed.name == "row_offsets") w.row_offsets = at<const std::int32_t>(packed.address);
      if (packed.name == "columns") w.columns = at<const std::uint32_t>(packed.address);
      if (packed.name == "values") w.values = at<float>(packed.address);
    }
    if (w.row_offsets == nullptr || w.columns == nullptr || w.values == nullptr) {
      return invalid_argument(step.kernel + " wants row_offsets, columns and values");
    }
    SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t rows, step.grid[0].evaluate(bindings.variables));
    run_csr(source, w, rows, bindings);
  }
  return {};
}

LaunchPlan fake_plan(const std::string& kernel, std::int64_t rows) {
  PlanStep step;
  step.kernel = kernel;
  step.grid[0] = rows;
  return {.steps = {step}, .workspace_bytes = 64};
}

KernelImage fake_kernel(const std::string& name, const std::string& source) {
  return {.name = name, .source = source, .cubin = {}, .max_shared_bytes = 0};
}

}  // namespace sparsmith
