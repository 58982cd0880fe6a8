// The tuned file: packed weights, kernels, launch plans and the choices that lead to them, in one safetensors file.
// docs/tuned_file.md describes the format.
//
// Contents hold views, not copies, of arrays, cubins and sources: when writing, of what the caller keeps; when reading,
// of the mapped file. Plain values, safe to read from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/packed_weight.h"
#include "matrix/csr_matrix.h"
#include "runtime/launch_plan.h"
#include "runtime/operator_spec.h"
#include "sparsmith/group_member.h"
#include "sparsmith/load_options.h"
#include "sparsmith/status.h"

namespace sparsmith {

// A kernel that plans name, with what each way to run it needs.
struct TunedKernel {
  struct Binary {
    std::string architecture;  // "sm_80", "sm_90a"
    std::span<const std::byte> cubin;
  };
  std::string name;
  std::string closure_hash;
  std::int64_t max_shared_bytes = 0;  // dynamic shared memory that a launch may ask for
  std::string_view source;            // for the emulator and for people
  std::vector<Binary> binaries;

  // The best binary for a device of this compute capability (90 for 9.0), or null: the same major number and a minor
  // number no higher; "sm_90a" on exactly 9.0, and there rather than "sm_90".
  const Binary* binary_for(int compute_capability) const;
};

struct TunedArray {
  std::string name;  // what plans bind to
  DataType type = DataType::kUint8;
  std::span<const std::byte> bytes;
};

// How new values are written into a packing (generator/value_writer.h): a plan with the operand kWriterOperand, [nnz]
// in the order of the pattern. It binds to the packing's arrays and facts and to those of add_places().
struct TunedWriter {
  DataType source = DataType::kFloat32;  // of the new values
  LaunchPlan plan;
};
inline constexpr std::string_view kWriterOperand = "values";

// A weight in one packed form.
struct TunedPacking {
  std::string packing;
  int packer_version = 1;
  Facts facts;
  std::vector<TunedArray> arrays;
  std::vector<TunedWriter> writers;  // at most one of each source

  const TunedArray* array(std::string_view name) const;  // null when there is none
  std::int64_t bytes() const;
};
TunedPacking view_of(const PackedWeight& packed);
// Of the dense weight, [M][K] row-major in the array.
inline constexpr std::string_view kDensePacking = "dense";
inline constexpr std::string_view kDenseArray = "values";

// What runs for a bucket of N, and why.
struct TunedChoice {
  enum class Evidence : std::uint8_t { kMeasured, kPredicted };

  std::int64_t tokens = 1;  // the bucket: the largest N that it is for
  std::string packing;
  LaunchPlan plan;
  Evidence evidence = Evidence::kPredicted;
  double median_us = 0;
  double dense_us = 0;  // the operator on the dense weight; 0: not known
  std::string config;   // Config::text()
  std::string reason;   // why it was chosen, in one line
};

// What is computed from a weight, and how.
struct TunedOperator {
  OperatorSpec spec;
  std::vector<TunedChoice> choices;  // ascending in tokens, at least one

  const TunedChoice& choice_for(std::int64_t tokens) const;
};

struct TunedWeight {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DataType type = DataType::kFloat32;
  std::int64_t nnz = 0;
  std::string pattern_hash;
  std::string value_hash;
  std::vector<GroupMember> members;  // of a group, in the order of its rows; empty: it is no group
  std::vector<TunedPacking> packings;
  std::vector<TunedOperator> operators;  // at most one of each kind

  std::int64_t packed_bytes() const;  // on the GPU, of all packings
  std::int64_t dense_bytes() const;   // of the dense weight in its type
  const TunedPacking* packing(std::string_view packing_name) const;
  const TunedOperator* op(OperatorKind kind) const;  // null when there is none
};

// A packing of a tuned file as a packed weight of its own.
PackedWeight packed_weight_of(const TunedWeight& weight, const TunedPacking& packing);

// The weight that a tuned file holds in one of its packings. Error: kUnsupported when this build knows none of them,
// kInvalidInput when the arrays do not fit together.
Result<CsrMatrix> matrix_of(const TunedWeight& weight);

// Where a tuned file comes from. Texts for people and reports; empty: not known.
struct TunedProvenance {
  std::string sparsmith_version;
  std::string device_class;  // of the device it was tuned on, or for
  std::string device_name;
  std::string driver_version;
  std::string compiler_version;  // NVRTC
  std::string timing_policy;
  std::string source_file;  // the model that was tuned
};

struct TunedContents {
  TunedProvenance provenance;
  std::vector<TunedWeight> weights;
  std::vector<TunedKernel> kernels;

  const TunedWeight* weight(std::string_view name) const;
  const TunedKernel* kernel(std::string_view name) const;
  // The weight called `name`. Error: kNotFound, with the group where it is a member of one, or the names that there
  // are.
  Result<const TunedWeight*> find_weight(std::string_view name) const;

  // Ok when names are unique, members share out the rows of their group, operators are of their weight, every choice's
  // packing, plan arrays and kernels exist, sizes agree, and figures are finite. Error: kInvalidInput, naming the
  // weight. plan_check.h counts plans against kernels.
  Status validate() const;
};

// Writes `contents` whole or not at all. Errors: kInvalidInput when validate() or check_plans() says so, kIoError.
Status write_tuned_file(const std::string& path, const TunedContents& contents);

// A tuned file mapped for reading. Movable; contents() lives as long as it does.
class TunedFile {
 public:
  // Maps the file and checks all of it: layout, every hash, validate(), check_plans() and, unless it is trusted, what
  // the packed arrays hold. Needs no device. Errors: kNotFound, kIoError, kInvalidInput; all name the file.
  static Result<TunedFile> open(const std::string& path, const LoadOptions& options = {});

  // The same of bytes in memory, aligned to 8, which must outlive the object. Error: also kInvalidArgument.
  static Result<TunedFile> parse(std::span<const std::byte> bytes, const LoadOptions& options = {});

  TunedFile(TunedFile&&) noexcept;
  TunedFile& operator=(TunedFile&&) noexcept;
  ~TunedFile();

  const TunedContents& contents() const;

 private:
  struct State;
  explicit TunedFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sparsmith
