// Parts of the families that make a weight dense again in the workspace, where the device's library multiplies by it:
// unpack_bitmap, unpack_scatter. For many tokens: unpacking costs a few moves of the dense weight, whatever N is.
#pragma once

#include <array>
#include <vector>

#include "generator/family.h"

namespace sparsmith {

// Worthwhile from the N on at which unpacking is not most of the time. `first`: the family's first parameter.
std::vector<Rule> worthwhile_unpack_rules(const char* first);

// Adds the dense weight's parameters, and the statement that makes a `dense` of them to the body.
void add_dense_rows(const OperatorSpec& spec, KernelText& text);

// `text`: the kernel that unpacks, of `grid` blocks with `shared_bytes` each.
PlannedKernels unpacked_product(const Config& config, const Problem& problem, KernelText text,
                                const std::array<IntegerExpression, 3>& grid, const IntegerExpression& shared_bytes);

// Cost model: unpacking, of a packing of `packed_bytes`, and the library's product.
double predicted_unpacked_us(const Problem& problem, double packed_bytes);

}  // namespace sparsmith
