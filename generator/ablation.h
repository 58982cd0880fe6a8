// Ablation builds: kernels from which a part is taken out, to see what it costs. They load the packed weight as the
// whole kernel does, keep its loops, its grid and its shared memory, and touch nothing outside of what it touches; what
// they compute is wrong. So they are timed and nothing else: never verified, chosen, or kept.
//
// A part goes by the name of a type: in the kernel's text another one, of snippets/ablation, takes the place of a
// prolog, a reduction or the kernel. Snippets themselves know nothing of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "generator/kernel_text.h"
#include "runtime/launch_plan.h"
#include "sparsmith/status.h"

namespace sparsmith {

enum class Ablation : std::uint8_t {
  kNoDecode,  // what is loaded of W is used as it is; where decoding is finding an element of X, it is always the same
  kNoMultiply,  // operands are brought, and folded into the sums without a product
  kCopyOnly,    // W is streamed as far ahead as ever; no X, no decoding, no product, no Y
};
inline constexpr Ablation kAblations[] = {Ablation::kNoDecode, Ablation::kNoMultiply, Ablation::kCopyOnly};

std::string_view ablation_name(Ablation ablation);  // "no decode"
std::string_view ablation_key(Ablation ablation);   // "no_decode": in names of kernels, and in JSON

// A kernel's text on its way to being one without a part. Names of lines are what stands between `using` and `=`.
class AblatedText {
 public:
  AblatedText(Ablation ablation, KernelText& text);

  // `using Values = BitmapValues<4>` becomes `using Values = UndecodedStrips<BitmapValues<4>>`, with `header`.
  void wrap(std::string_view line, std::string_view type, const char* header);
  // Puts `by` for `what` in the line, with `header`.
  void replace(std::string_view line, std::string_view what, std::string_view by, const char* header);

  // kInternal when there was no such line, or nothing in it to replace: the text is still the whole kernel's.
  const Status& status() const { return status_; }

 private:
  std::string* declaration_of(std::string_view line);

  KernelText& text_;
  Status status_;
};

// Leaves out all steps but the one that launches `kernel`: what turns X, and second passes.
void keep_kernel(LaunchPlan& plan, const std::string& kernel);

}  // namespace sparsmith
