// The plans of tuned weights, by content hash. A plan is all of a tuned weight but its bytes: kernels, launch plans,
// and the layout of the packed arrays. The bytes belong to PyTorch: one tensor of bytes for each weight, on any device.
//
// A plan is made for a constant weight, with spmm alone, or for new values: with all operators of the weight, and with
// the places of values behind the arrays of each packing. Its runs take the values as an operand. A value array that
// they write as a whole lies in the workspace of a run, in front of what the kernels ask for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "formats/pattern_room.h"
#include "formats/places.h"
#include "runtime/cuda_context.h"
#include "runtime/kernel_module.h"
#include "runtime/loaded_model.h"
#include "runtime/training_memory.h"
#include "runtime/tuned_file.h"

namespace sparsmith::torch {

// A kernel of a tuned file that owns its binaries. It has no source. The plans of a file share it.
struct PlanKernel {
  explicit PlanKernel(const TunedKernel& from);
  PlanKernel(const PlanKernel&) = delete;
  PlanKernel& operator=(const PlanKernel&) = delete;

  std::vector<std::vector<std::byte>> cubins;
  TunedKernel kernel;  // a view of them
  std::string hash;    // of names and bytes
};

// Where a packed array lies.
struct PackedPlace {
  std::string name;
  DataType type = DataType::kUint8;
  std::size_t offset = 0;  // a multiple of 256
  std::size_t bytes = 0;
  ArrayMemory in = ArrayMemory::kKept;  // kKept: in the bytes of the weight
};

// Who wrote values into a packing last. A backward need not write what its forward did: the values that it gets are
// those that the forward got, as PyTorch makes sure.
struct ValueWrite {
  const void* values = nullptr;  // null: nobody, or no forward
  CUstream stream = nullptr;
  std::uint64_t capture = 0;  // of a CUDA graph; 0: none. What a graph wrote is there in the same graph alone
  bool operator==(const ValueWrite&) const = default;
};

// A plan that is bound to a weight's bytes on a GPU.
struct BoundWeight {
  std::shared_ptr<const CudaContext> context;
  std::vector<std::shared_ptr<const KernelModule>> kernels;
  LoadedWeight weight;

  // REQUIRES: the plan has the operator.
  const LoadedOperator& op(OperatorKind kind) const;

  // Writes `values` into a packing, for an operator, unless they are there. `kept`: the packing's values stay between
  // runs. Errors: those of LoadedWeight::set_values().
  Status write_values(OperatorKind kind, const std::string& packing, bool kept, const void* values, DataType type,
                      CUstream stream, const void* workspace) const;

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::string, ValueWrite> written_;  // by packing
};

// Immutable, but for the bindings, which any thread may ask for.
class Plan {
 public:
  enum class Values : std::uint8_t {
    kConstant,
    kWritten,  // each run takes them as an operand
    kPruned,   // prune() makes the packed bytes of a dense weight; the plan is of any weight of its shape
    kMoving,   // as kWritten; the packed bytes have room for other patterns of as many elements, and who owns them
               // writes arrays() of a pattern
  };
  // `written`: for kWritten, for each packing, as written_arrays() makes them. `rooms`: for kMoving, for each packing.
  // REQUIRES: for kPruned: can_prune().
  Plan(const TunedContents& contents, const TunedWeight& weight, std::string file,
       std::map<std::string, std::shared_ptr<const PlanKernel>>& kernels_of_file, Values values,
       std::span<const WriterArrays> written, std::span<const PatternRoom> rooms = {});
  // Whether the weight has plans that prune, and its products read nothing but the packings that these write.
  static bool can_prune(const TunedWeight& weight);

  std::int64_t hash() const { return hash_; }
  const std::string& file() const { return file_; }  // that the plan was loaded from
  const TunedWeight& weight() const { return weight_; }
  const OperatorSpec& spec() const { return weight_.op(OperatorKind::kSpmm)->spec; }
  std::size_t packed_bytes() const { return packed_bytes_; }
  bool takes_values() const { return values_ == Values::kWritten || moves(); }
  bool moves() const { return values_ == Values::kMoving; }
  // Whether no values of a packing lie in the workspace.
  bool keeps_values(std::string_view packing) const;
  bool prunes() const { return values_ == Values::kPruned; }

  // Writes the packed arrays of `weight`, whose plan this is, into packed_bytes() bytes. Gaps become 0.
  void copy_arrays(const TunedWeight& weight, std::span<const WriterArrays> written, std::byte* to) const;

  // The packed bytes of a dense weight, [rows][cols] numbers of the type `source`, pruned. REQUIRES: prunes().
  Status prune(const void* dense, DataType source, std::byte* to) const;

  // The weight in `packed`, on the host; of a plan that takes values the pattern, with values of no meaning. Checks all
  // of it.
  // Errors: those of sparsmith::unpack().
  Result<CsrMatrix> unpack(std::span<const std::byte> packed) const;
  // Ok if kernels may read `packed`; of a plan that moves, if all packings hold one pattern, of weight().nnz elements,
  // and say the same of its values. Errors: those of check_packed(); kInvalidInput.
  Status check(std::span<const std::byte> packed) const;

  // Where the arrays of a packing lie, those that its writers read behind its own.
  std::vector<PackedPlace> arrays(std::size_t packing) const;
  const Facts& writer_facts(std::size_t packing) const { return writer_facts_[packing]; }

  // The plan bound to the bytes at `packed` on a GPU, now or by an earlier call. Error: kUnsupported if the plan has no
  // kernel for the GPU.
  Result<std::shared_ptr<const BoundWeight>> bind(int device, DeviceAddress packed);

 private:
  // A packing, with what its view points to besides the packed bytes.
  struct Viewed {
    PackedView packing;
    std::vector<PackedArrayView> arrays;
    std::vector<std::vector<std::byte>> copies;  // arrays that are not in the packed bytes, and those with ones
  };
  // `numbered`: at these places a number that tells nonzeros apart (number_of()) in place of a value.
  std::unique_ptr<Viewed> view(std::size_t packing, std::span<const std::byte> packed,
                               std::span<const PlaceCopy> numbered = {}) const;
  // Of all values in a packing. Error: kInvalidInput.
  Result<std::vector<PlaceCopy>> places_in(std::size_t packing, std::span<const std::byte> packed) const;
  // The pattern in a packing, with numbers in the place of values.
  Result<CsrMatrix> numbered(std::size_t packing, std::span<const std::byte> packed) const;
  Status check_size(std::span<const std::byte> packed) const;
  Status check_pattern(std::span<const std::byte> packed) const;
  std::string text() const;  // all that the hash depends on
  Result<std::shared_ptr<const BoundWeight>> bind_anew(int device, DeviceAddress packed) const;

  struct Binding {
    int device = 0;
    DeviceAddress packed = 0;
    std::shared_ptr<const BoundWeight> bound;
  };
  static constexpr std::size_t kMostBindings = 256;

  TunedWeight weight_;                                                // without the bytes of arrays
  std::vector<std::vector<PackedPlace>> places_;                      // of each packing
  std::vector<std::vector<PackedPlace>> written_;                     // of each packing: what its writers read besides
  std::vector<Facts> writer_facts_;                                   // of each packing
  std::vector<bool> keeps_values_;                                    // of each packing
  std::map<std::string, std::shared_ptr<const PlanKernel>> kernels_;  // that the choices launch
  std::size_t packed_bytes_ = 0;
  Values values_ = Values::kConstant;
  std::string file_;
  std::int64_t hash_ = 0;

  std::mutex mutex_;
  std::vector<Binding> bindings_;  // the newest at the end
};

}  // namespace sparsmith::torch
