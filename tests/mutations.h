// Mistakes that the tests of kernels must see: each is a change of a kernel's text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/kernel_cases.h"

namespace sparsmith::test {

struct PackedCase : KernelCase {
  PackedWeight packed;
};
using Cases = std::vector<PackedCase>;  // of one kernel

struct Mutation {
  using Matters = std::function<bool(const Config&, const Cases&)>;

  const char* name;
  const char* from;  // text that stands once in the kernel
  const char* to;
  Matters matters;  // whether the mistake changes what a kernel of this config does on some of these weights
};

const std::vector<Mutation>& rows_mutations();
const std::vector<Mutation>& panel_mutations();
const std::vector<Mutation>& gather_mutations();
const std::vector<Mutation>& bitmap_mutations();
const std::vector<Mutation>& bsr_mutations();
const std::vector<Mutation>& sampled_mutations();
const std::vector<Mutation>& scatter_mutations();
const std::vector<Mutation>& slots_mutations();
const std::vector<Mutation>& specialized_mutations();
const std::vector<Mutation>& two_four_mutations();
const std::vector<Mutation>& wgmma_mutations();

}  // namespace sparsmith::test
