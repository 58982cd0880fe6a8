// The text of a generated kernel: the snippets that it is made of, stated line by line, and one entry point that runs
// them. The result is a .cu file that a person can read, compile alone and paste elsewhere:
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
// No text is spliced into a function body, and each argument stands with its parameter.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "generator/candidate.h"
#include "sparsmith/status.h"

namespace sparsmith {

struct KernelText {
  // A line that names a snippet, a type or a number, with its meaning.
  struct Line {
    std::string declaration;  // "using Index = u16" or "constexpr int kTile = 4": no semicolon, one line
    std::string comment;      // after the declaration; may be empty
  };
  // A parameter of the entry point, and the argument that a plan passes for it. Types are written as inside namespace
  // sparsmith.
  struct Parameter {
    std::string type;  // "const u16*"
    std::string name;  // "column_indices"
    PlanArgument argument;
  };

  std::string name;           // the entry point: a C identifier that spells every parameter that changes the code
  std::string summary;        // one line: what the kernel computes, and how
  int threads = 0;            // per block, 1 to 1024; the lines may use it as kThreads
  int min_blocks_per_sm = 0;  // blocks whose registers fit on a multiprocessor; 0: no bound
  std::int64_t max_shared_bytes = 0;  // dynamic shared memory that a launch may ask for
  std::string architecture;           // "sm_90a": the only architecture that it compiles for; empty: any
  std::vector<std::string> headers;   // "snippets/prolog/csr_row.cuh": for the names in lines and body
  std::vector<Line> lines;            // in order; a line may use earlier lines
  std::vector<Parameter> parameters;
  std::string body;  // "Kernel::run(column_indices, x, y);": one or more whole statements
};

// The self-contained source. The same KernelText always gives the same bytes.
//   Error: kInvalidArgument if a part is not as described above (bad identifier, line break in a line, threads out of
//   range); kNotFound if there is no such header.
Result<KernelSource> assemble(const KernelText& text);

// A launch of the kernel: one block, with its threads, its shared memory and the arguments of its parameters.
PlanStep launch_of(const KernelText& text);

// An argument with the byte size of its parameter: a formula (IntegerExpression), or a number.
PlanArgument integer(std::string_view formula);
PlanArgument integer(std::int64_t value);

// A formula of a plan that contains these values.
template <class... Values>
IntegerExpression formula(fmt::format_string<Values...> text, Values&&... values) {
  return IntegerExpression::of(fmt::format(text, std::forward<Values>(values)...));
}

}  // namespace sparsmith
