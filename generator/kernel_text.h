// The text of a generated kernel: which snippets it is made of, stated line by line, and one entry point that runs
// them. What comes out is a .cu that a person can read, compile alone and paste elsewhere:
//
//   // <name>: <summary>, and how to compile it
//   ... the headers it needs, each once, in include order ...
//   namespace sparsmith {
//   namespace {
//   constexpr int kThreads = 128;
//   using Prolog = CsrRowProlog<8, 2, u16>;  // 8 threads a row, loads of 2 elements, 16-bit columns
//   }  // namespace
//   extern "C" __global__ void __launch_bounds__(kThreads) <name>(const float* x, float* y) {
//     Kernel::run(x, y);
//   }
//   }  // namespace sparsmith
//
// Nothing is spliced into the middle of a function body, and no argument is apart from its parameter.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "generator/candidate.h"
#include "sparsmith/status.h"

namespace sparsmith {

struct KernelText {
  // A line that names a snippet, a type or a number, with what it means.
  struct Line {
    std::string declaration;  // "using Index = u16" or "constexpr int kTile = 4": no semicolon, one line
    std::string comment;      // after the declaration; may be empty
  };
  // A parameter of the entry point, and what a plan passes for it. Types are those seen inside namespace sparsmith.
  struct Parameter {
    std::string type;  // "const u16*"
    std::string name;  // "column_indices"
    PlanArgument argument;
  };

  std::string name;           // of the entry point: a C identifier that spells every parameter that changes the code
  std::string summary;        // one line: what it computes, and how
  int threads = 0;            // per block, 1 to 1024; the lines may use it as kThreads
  int min_blocks_per_sm = 0;  // blocks whose registers fit a multiprocessor; 0: no bound
  std::int64_t max_shared_bytes = 0;  // dynamic shared memory that a launch may ask for
  std::string architecture;           // "sm_90a": the only one that it compiles for; empty: any
  std::vector<std::string> headers;   // "snippets/prolog/csr_row.cuh": what the lines and the body name
  std::vector<Line> lines;            // in order; a line may use those before it
  std::vector<Parameter> parameters;
  std::string body;  // "Kernel::run(column_indices, x, y);": one or more whole statements
};

// The self-contained source. The same KernelText always gives the same bytes.
//   Error: kInvalidArgument when a part is not what is said above (bad identifier, line break in a line, threads
//   out of range); kNotFound when there is no such header.
Result<KernelSource> assemble(const KernelText& text);

// A launch of the kernel: one block of its threads and its shared memory, with the arguments of its parameters.
PlanStep launch_of(const KernelText& text);

// An argument of as many bytes as its parameter has: a formula (IntegerExpression), or a number.
PlanArgument integer(std::string_view formula);
PlanArgument integer(std::int64_t value);

}  // namespace sparsmith
