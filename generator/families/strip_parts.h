// Parts of the families whose warps go through strips of K with a ring per warp: bitmap, two_four.
#pragma once

#include <string>
#include <vector>

#include "generator/operand_relayout.h"
#include "generator/rule.h"

namespace sparsmith {

// The values of the parameters that both families have.
struct StripConfig : NamedConfig {
  using NamedConfig::NamedConfig;
  int tiles = at("tiles");                  // tiles of 16 rows in a strip
  int token_tiles = at("token_tiles");      // tiles of 8 tokens
  int warps = at("warps");                  // warps that share out K
  int stages = at("stages");                // slots of a warp's ring; fewer if they do not fit
  bool bulk_copies = at("bulk_copies");     // bulk copies bring strips, from sm_90 on
  int blocks_per_sm = at("blocks_per_sm");  // blocks for which registers and shared memory have room
  int column_parts = at("column_parts");    // parts of K
  bool cluster = at("sum");                 // a cluster adds up the sums of parts; otherwise a second kernel does
  bool relayout = at("input");              // a launch in front lays X out as operands

  int tokens() const { return 8 * token_tiles; }
  int cluster_blocks() const { return cluster ? column_parts : 1; }
  // Whether a second kernel adds up the sums of parts.
  bool splits() const { return column_parts > cluster_blocks(); }
  // Shared memory that a block may use, so that `blocks_per_sm` blocks fit.
  std::int64_t shared_room(const DeviceProperties& device) const;
};

// The last parameters of both families. `later`: of the last parameter, as in Parameter.
std::vector<Parameter> strip_parameters(bool later);

std::vector<Rule> legal_strip_rules();
std::vector<Rule> worthwhile_strip_rules();

// Cost model: the time of a block's end and of the steps behind it. `sums_us`: for the sums of a block's warps;
// `exchange_us`: for a cluster that adds up parts of K; `second_us`: for a second kernel that does, besides moving the
// sums to and from L2.
double strip_finish_us(const StripConfig& config, const Problem& problem, double sums_us, double exchange_us,
                       double second_us, double l2_bytes_per_us);

// The line that names `Input`. `direct`: the prolog that reads X in its own layout.
KernelText::Line strip_input(const StripConfig& config, const OperatorSpec& spec, const char* direct);
// Adds the parameters of X and n, and the body. `strips`: the parameter that counts the strips of a row; `make_ring`,
// `run`: the family's own statements.
void add_strip_body(const StripConfig& config, const OperatorSpec& spec, const OperandRelayout& relayout,
                    const std::string& strips, const std::string& make_ring, const std::string& run, KernelText& text);
// The family's own kernel, in a grid of `row_blocks` blocks along the rows with `shared_bytes` each, and the kernels
// before and behind it.
PlannedKernels strip_kernels(const StripConfig& config, const OperatorSpec& spec, const OperandRelayout& relayout,
                             KernelText text, const IntegerExpression& row_blocks,
                             const IntegerExpression& shared_bytes);

}  // namespace sparsmith
