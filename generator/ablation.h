// Ablation builds: kernels without a part, which show the cost of the part. A build keeps the grid, the shared memory
// and the arguments of the whole kernel, and touches no other memory. Its outputs are wrong. So builds are only timed,
// and never verified, chosen or kept.
//
// A build changes the kernel's text: a type of snippets/ablation takes the place of a prolog or a reduction. Neither
// snippets nor families know of it. "Copy only" is one kernel for all families: it loads all packed arrays.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "generator/family.h"

namespace sparsmith {

enum class Ablation : std::uint8_t {
  kNoDecode,    // loaded words of W are used undecoded; if decoding finds an element of X, it is always the same one
  kNoMultiply,  // operands are loaded, and folded into the sums without a product
  kCopyOnly,    // the packed arrays are loaded once; no X, no decoding, no product, no Y
};
inline constexpr Ablation kAblations[] = {Ablation::kNoDecode, Ablation::kNoMultiply, Ablation::kCopyOnly};

std::string_view ablation_name(Ablation ablation);  // "no decode"
std::string ablation_key(Ablation ablation);        // "no_decode": in names of kernels, and in JSON

// The parts for which kernels of the family have ablation builds.
std::vector<Ablation> ablations(const Family& family);

// As Family::generate(), but the family's own kernel is without `part` and has a name of its own. "Copy only" launches
// nothing else.
//   Error: kUnsupported if ablations() does not have the part.
Result<Candidate> generate_without(Ablation part, const Family& family, const Config& config, const Problem& problem,
                                   const PackedWeight& packed);

}  // namespace sparsmith
