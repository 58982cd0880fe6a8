#include "tests/support/planted_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "tests/support/plant.h"

namespace sparsmith {
namespace {

// A statement in front of a kernel's own. Every kernel that multiplies has the number of tokens as `n`.
struct Fault {
  std::string_view name;
  std::string_view statement;
  std::int64_t workspace_bytes = 0;  // that the plan asks for; 0: as many as before
};

// What obey_planted_fault() looks for, and nothing else minds.
constexpr std::string_view kCrashMark = "static_assert(kThreads > 0, \"planted: the compiler crashes\");";
constexpr std::string_view kHangMark = "static_assert(kThreads > 0, \"planted: the compiler hangs\");";

constexpr Fault kFaults[] = {
    {"address", "*reinterpret_cast<volatile int*>(16) += 1;"},
    // ptxas takes a loop around a volatile variable of the thread's own for one that ends.
    {"endless",
     "\n#ifdef __CUDA_ARCH__\nfor (;;) asm volatile(\"nanosleep.u32 1000;\");\n#else\nfor (volatile int planted = 0; "
     "planted == 0;) {}\n#endif\n"},
    // The last token's outputs stay as they were. No block ends early: others may wait for it.
    {"wrong", "--n;"},
    {"source", "static_assert(kThreads < 0, \"planted\");"},
    {"assembly", "asm volatile(\"planted;\");"},
    {"trap", "\n#ifdef __CUDA_ARCH__\n__trap();\n#else\n__builtin_trap();\n#endif\n"},
    // The statement does nothing but tell the kernel from the one whose plan is sound.
    {"memory", "static_assert(kThreads > 0, \"planted\");", std::int64_t{1} << 43},
    {"crash", kCrashMark},
    {"hang", kHangMark},
};

[[noreturn]] void refuse(std::string_view variable, std::string_view text) {
  fmt::print(stderr, "{}={} makes no sense\n", variable, text);
  std::_Exit(2);  // other threads are at work: what they use stays
}

std::uint64_t number(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0') refuse(variable, text);
  return value;
}

std::vector<const Fault*> chosen_faults() {
  constexpr const char* kVariable = "SPARSMITH_PLANT_FAULTS";
  std::vector<const Fault*> chosen;
  const char* const text = std::getenv(kVariable);
  const std::string names = text == nullptr ? "" : fmt::format(",{},", text);
  std::size_t named = 0;
  for (const Fault& fault : kFaults) {
    const bool is_named = names.find(fmt::format(",{},", fault.name)) != std::string::npos;
    if (is_named) ++named;
    if (is_named || names.empty()) chosen.push_back(&fault);
  }
  // A name that there is none of, or one twice.
  if (text != nullptr && named + 1 != static_cast<std::size_t>(std::ranges::count(names, ','))) refuse(kVariable, text);
  return chosen;
}

// The kernel's fault, or null: nearly all have none.
const Fault* drawn_fault(const std::string& kernel) {
  static const std::uint64_t seed = number("SPARSMITH_PLANT_SEED", 1);
  static const std::uint64_t share = number("SPARSMITH_PLANT_SHARE", 5);
  static const std::vector<const Fault*> faults = chosen_faults();
  const std::uint64_t draw = hash64(fmt::format("{}|{}", kernel, seed));
  return draw % 100 < share ? faults[draw / 100 % faults.size()] : nullptr;
}

}  // namespace

void plant_fault(KernelText& text, LaunchPlan& plan) {
  if (!is_planted(Plant::kCandidateFaults)) return;
  const Fault* const fault = drawn_fault(text.name);
  if (fault == nullptr) return;
  text.body = fmt::format("{}  // planted: {}\n{}", fault->statement, fault->name, text.body);
  if (fault->workspace_bytes > 0) plan.workspace_bytes = fault->workspace_bytes;
}

void obey_planted_fault(const std::string& source) {
  if (!is_planted(Plant::kCandidateFaults)) return;
  if (source.find(kCrashMark) != std::string::npos) std::abort();
  while (source.find(kHangMark) != std::string::npos) std::this_thread::sleep_for(std::chrono::hours(1));
}

std::chrono::milliseconds planted_compiler_limit(std::chrono::milliseconds otherwise) {
  const auto seconds = static_cast<std::int64_t>(number("SPARSMITH_PLANT_COMPILER_LIMIT", 0));
  return seconds > 0 ? std::chrono::seconds(seconds) : otherwise;
}

}  // namespace sparsmith
