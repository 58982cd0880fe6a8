// The tuned file: packed weights, kernels, launch plans and choices, in one safetensors file.
// docs/reference/tuned_file.md describes the format.
//
// Contents hold views of arrays, cubins and sources, not copies. A writer's views point to the caller's memory, a
// reader's views to the mapped file. Plain values, safe to read from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "formats/packed_check.h"
#include "formats/packed_weight.h"
#include "matrix/csr_matrix.h"
#include "matrix/weight_cut.h"
#include "runtime/launch_plan.h"
#include "runtime/operator_spec.h"
#include "sparsmith/group_member.h"
#include "sparsmith/load_options.h"
#include "sparsmith/status.h"

namespace sparsmith {

// A kernel of the plans: its source for the emulator, and its binaries for GPUs.
struct TunedKernel {
  struct Binary {
    std::string architecture;  // "sm_80", "sm_90a"
    std::span<const std::byte> cubin;
  };
  std::string name;
  std::string closure_hash;
  std::int64_t max_shared_bytes = 0;  // dynamic shared memory that a launch may ask for
  std::string_view source;            // for the emulator and for readers
  std::vector<Binary> binaries;

  // The best binary for a device of this compute capability (90 for 9.0), or null. A binary fits when its major number
  // is the same and its minor number is not higher. "sm_90a" fits only 9.0, and is preferred there to "sm_90".
  const Binary* binary_for(int compute_capability) const;
};

using TunedArray = PackedArrayView;

// A plan that writes new values into a packing (generator/value_writer.h). Its operand kWriterOperand holds the values,
// [nnz] in the order of the pattern. The plan binds to the arrays and facts of the packing and of add_places().
struct TunedWriter {
  DataType source = DataType::kFloat32;  // of the new values
  LaunchPlan plan;
};
inline constexpr std::string_view kWriterOperand = "values";
// The same for a plan that prunes a dense weight into two packings (generator/two_four_pruner.h). Its operand is the
// weight, [M][K] without gaps; arrays are named with their packing.
inline constexpr std::string_view kPrunedOperand = "weight";
inline constexpr std::string_view kPrunedTiles = "two_four.tiles";
inline constexpr std::string_view kPrunedTransposedTiles = "two_four_transposed.tiles";
inline constexpr std::string_view kPrunedPackings[] = {"two_four", "two_four_transposed"};

// A weight in one packed form.
struct TunedPacking {
  std::string packing;
  int packer_version = 1;
  Facts facts;
  std::vector<TunedArray> arrays;
  std::vector<TunedWriter> writers;  // at most one for each source type

  const TunedArray* array(std::string_view name) const;  // null when there is none
  std::int64_t bytes() const;
};
TunedPacking view_of(const PackedWeight& packed);
// The packing of a dense weight: one array, [M][K] row-major.
inline constexpr std::string_view kDensePacking = "dense";
inline constexpr std::string_view kDenseArray = "values";

// The plan for one bucket of N, and the reasons for it.
struct TunedChoice {
  enum class Evidence : std::uint8_t { kMeasured, kPredicted };

  std::int64_t tokens = 1;  // the bucket: the largest N of this choice
  std::string packing;
  LaunchPlan plan;
  Evidence evidence = Evidence::kPredicted;
  double median_us = 0;
  double dense_us = 0;  // time of the operator on the dense weight; 0: not known
  std::string config;   // Config::text()
  std::string reason;   // the reason for the choice, in one line
};

// An operator on a weight, with a choice for each bucket.
struct TunedOperator {
  OperatorSpec spec;
  std::vector<TunedChoice> choices;  // in ascending order of tokens, at least one

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
  std::vector<GroupMember> members;  // in the order of their rows; empty: the weight is no group
  std::optional<WeightCut> cut;      // of which the weight is a rank's part; of a group, all members are
  std::vector<TunedPacking> packings;
  std::vector<TunedWriter> pruners;      // at most one for each source type
  std::vector<TunedOperator> operators;  // at most one for each kind

  std::int64_t packed_bytes() const;  // bytes of all packings on the GPU
  std::int64_t dense_bytes() const;   // bytes of the dense weight in its type
  const TunedPacking* packing(std::string_view packing_name) const;
  const TunedOperator* op(OperatorKind kind) const;  // null when there is none
};

// A packing of a tuned file as a view, for checks and unpacking, and as a separate packed weight.
PackedView view_of(const TunedWeight& weight, const TunedPacking& packing);
PackedWeight packed_weight_of(const TunedWeight& weight, const TunedPacking& packing);

// The weight, unpacked from one of its packings. Where all of them hold the pattern alone, its values are 1. Error:
// kUnsupported when this build knows none of the packings, kInvalidInput when the arrays do not fit together.
Result<CsrMatrix> matrix_of(const TunedWeight& weight);

// The origin of a tuned file. Texts for readers and reports; empty: not known.
struct TunedProvenance {
  std::string sparsmith_version;
  std::string device_class;  // of the device that the file was tuned on or for
  std::string device_name;
  std::string driver_version;
  std::string compiler_version;  // NVRTC
  std::string timing_policy;
  std::string source_file;  // the model that was tuned
};

struct TunedContents {
  TunedProvenance provenance;
  int rank = 0;  // of the ranks that share a model, each with a file of its own
  int ranks = 1;
  std::vector<TunedWeight> weights;
  std::vector<TunedKernel> kernels;

  const TunedWeight* weight(std::string_view name) const;
  const TunedKernel* kernel(std::string_view name) const;
  // The weight called `name`. Error: kNotFound, with the group when `name` is a member of a group, else with the
  // existing names.
  Result<const TunedWeight*> find_weight(std::string_view name) const;

  // Ok when names are unique, the members divide the rows of their group, operators fit their weight, every choice's
  // packing, plan arrays and kernels exist, sizes agree, cuts are those of the ranks, and figures are finite. Error:
  // kInvalidInput, which names the weight. plan_check.h compares plans with kernels.
  Status validate() const;
};

// Writes `contents` completely or not at all. Errors: kInvalidInput from validate() and check_plans(); kIoError.
Status write_tuned_file(const std::string& path, const TunedContents& contents);

// A tuned file mapped for reading. Movable; contents() lives as long as the object.
class TunedFile {
 public:
  // Maps the file and checks its layout, every hash, validate(), check_plans() and, unless the file is trusted, the
  // contents of the packed arrays. Needs no device. Errors: kNotFound, kIoError, kInvalidInput; all name the file.
  static Result<TunedFile> open(const std::string& path, const LoadOptions& options = {});

  // The same for bytes in memory. They must be aligned to 8 and outlive the object. Error: also kInvalidArgument.
  static Result<TunedFile> parse(std::span<const std::byte> bytes, const LoadOptions& options = {});

  const TunedContents& contents() const { return contents_; }

 private:
  TunedFile(std::optional<MappedFile> file, TunedContents contents)
      : file_(std::move(file)), contents_(std::move(contents)) {}

  std::optional<MappedFile> file_;  // no value when the bytes belong to the caller
  TunedContents contents_;
};

}  // namespace sparsmith
