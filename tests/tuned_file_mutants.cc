// Tuned files that a forger might make, through the library: what loads stays in bounds.
//   usage: tuned_file_mutants COUNT FOLDER [SEED]      with files that draw_tuned_files wrote
//
// Half of the mutants have altered packed arrays and repaired hashes of arrays, but the pattern and value hash of the
// weight that was tuned: all of them must be refused, unless the arrays still hold that very weight. The other half
// have anything altered and all hashes repaired: what loads is run on the fake driver, which checks every address and
// size that it is given, and where the arrays alone were altered, on the emulator, where there is one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <vector>

#include "base/file.h"
#include "runtime/tuned_file.h"
#include "tests/fuzz/tuned_file_mutator.h"
#include "tests/support/checked_run.h"
#include "tests/support/fake_cuda_driver.h"
#ifdef SPARSMITH_EMULATOR_JIT
#include "emulator/emulated_executor.h"
#include "emulator/jit_compiler.h"
#include "runtime/plan_sizes.h"
#endif

namespace sparsmith::test {
namespace {

struct Sample {
  std::string name;
  std::string file;
};

struct Counts {
  int mutants = 0;
  int refused = 0;  // by loading
  int loaded = 0;
  int same = 0;  // of those: their arrays hold the weight that was tuned
  std::set<std::string> same_in;
  int runs = 0;
  int refused_runs = 0;
  int emulated = 0;
};

Result<TunedFile> parse(const std::string& file) { return TunedFile::parse(std::as_bytes(std::span(file))); }

#ifdef SPARSMITH_EMULATOR_JIT
class Emulation {
 public:
  static Result<std::unique_ptr<Emulation>> start() {
    auto made = std::make_unique<Emulation>();
    SPARSMITH_ASSIGN_OR_RETURN(std::shared_ptr<CpuKernelCompiler> compiler, make_jit_compiler());
    SPARSMITH_ASSIGN_OR_RETURN(made->executor_, make_emulated_executor({.compiler = std::move(compiler)}));
    return made;
  }

  // The first choice of a file with one weight, once.
  Status run(const TunedContents& contents) {
    const TunedWeight& weight = contents.weights.at(0);
    const TunedChoice& choice = weight.operators[0].choices.at(0);
    const OperatorSpec& spec = weight.operators[0].spec;
    for (const TunedKernel& kernel : contents.kernels) {
      SPARSMITH_RETURN_IF_ERROR(
          executor_->load({kernel.name, std::string(kernel.source), {}, kernel.max_shared_bytes}));
    }
    const auto element = static_cast<std::int64_t>(size_of(spec.type));
    LaunchBindings bindings;
    bindings.variables = variables_without_gaps(spec, choice.tokens);
    bindings.variables.facts = &weight.packing(choice.packing)->facts;
    bindings.spec = &spec;
    SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t workspace,
                               evaluate_workspace(choice.plan.workspace_bytes, bindings.variables));
    std::vector<DeviceAddress> allocated;
    Status status;
    const auto allocate = [&](std::int64_t bytes, std::span<const std::byte> contents_of = {}) -> DeviceAddress {
      const auto address = executor_->allocate(static_cast<std::size_t>(bytes));
      if (!address.ok()) return status = address.status(), 0;
      allocated.push_back(*address);
      if (status.ok() && !contents_of.empty()) status = executor_->write(*address, contents_of);
      return *address;
    };
    const std::vector<std::byte> zeros(
        static_cast<std::size_t>(std::max(spec.rows, spec.cols) * choice.tokens * element));
    const auto zeroed = [&](std::int64_t elements) {
      return allocate(elements * element, std::span(zeros).first(static_cast<std::size_t>(elements * element)));
    };
    for (const Operand& operand : spec.operands()) {
      const std::int64_t stride = bindings.variables.strides.value_or(operand.name, 0);
      bindings.operands.set(operand.name, operand.present ? zeroed(operand.elements(choice.tokens, stride)) : 0);
    }
    bindings.workspace = allocate(std::max<std::int64_t>(workspace, 1));
    for (const TunedArray& array : weight.packing(choice.packing)->arrays)
      bindings.packed.push_back({array.name, allocate(static_cast<std::int64_t>(array.bytes.size()), array.bytes)});
    if (status.ok()) status = executor_->run(choice.plan, bindings);
    for (const DeviceAddress address : allocated) (void)executor_->free(address);
    return status;
  }

 private:
  std::unique_ptr<Executor> executor_;
};
#endif

// Keeps the pattern and value hash. Error: an altered weight loads.
Status try_forged_contents(const Sample& sample, std::mt19937_64& random, Counts& counts) {
  auto parts = fuzz::take_apart(sample.file);
  if (!parts || !fuzz::alter_contents(*parts, random)) return {};
  ++counts.mutants;
  const Result<TunedFile> loaded = parse(fuzz::put_together(*parts));
  if (!loaded.ok()) {
    ++counts.refused;
    return {};
  }
  ++counts.loaded;
  const fuzz::Json claimed = parts->description;
  fuzz::repair_weights(*parts);
  if (parts->description != claimed) return internal_error("arrays of another weight loaded under its hashes");
  ++counts.same;
  counts.same_in.insert(sample.name);
  return {};
}

class Mutants {
 public:
  Status start() {
#ifdef SPARSMITH_EMULATOR_JIT
    SPARSMITH_ASSIGN_OR_RETURN(emulation_, Emulation::start());
#endif
    return {};
  }

  // Repairs all hashes. Error: what loaded was run out of bounds.
  Status try_forgery(const Sample& sample, std::mt19937_64& random, Counts& counts) {
    auto parts = fuzz::take_apart(sample.file);
    if (!parts) return internal_error("no tuned file");
    const bool contents_alone = random() % 2 == 0;
    if (!(contents_alone ? fuzz::alter_contents(*parts, random) : fuzz::alter_anything(*parts, random))) return {};
    ++counts.mutants;
    fuzz::repair_weights(*parts);
    const std::string bytes = fuzz::put_together(std::move(*parts));
    const Result<TunedFile> loaded = parse(bytes);
    if (!loaded.ok()) {
      ++counts.refused;
      if (loaded.status().message().find("json.exception") != std::string::npos) return loaded.status();
      return {};
    }
    ++counts.loaded;
    return run(*loaded, contents_alone, counts);
  }

  Status run(const TunedFile& file, bool contents_alone, Counts& counts) {
    const CheckedRun checked = run_checked(file.contents(), contents_alone);
    counts.runs += checked.runs;
    counts.refused_runs += checked.refused;
    if (!checked.violation.empty()) return internal_error(checked.violation);
#ifdef SPARSMITH_EMULATOR_JIT
    // Sources as they were drawn; a product of cuBLASLt is a GPU's.
    const TunedContents& contents = file.contents();
    const bool emulated = contents.weights.size() == 1 && !contents.kernels.empty() &&
                          !contents.kernels[0].source.empty() &&
                          contents.weights[0].operators[0].choices[0].packing != kDensePacking;
    if (contents_alone && emulated) {
      SPARSMITH_RETURN_IF_ERROR(emulation_->run(contents));
      ++counts.emulated;
    }
#endif
    return {};
  }

 private:
#ifdef SPARSMITH_EMULATOR_JIT
  std::unique_ptr<Emulation> emulation_;
#endif
};

Result<std::vector<Sample>> read_samples(const std::string& folder) {
  std::error_code error;
  std::vector<Sample> samples;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    SPARSMITH_ASSIGN_OR_RETURN(std::string file, read_file(entry.path().string()));
    samples.push_back({entry.path().filename().string(), std::move(file)});
  }
  std::ranges::sort(samples, {}, &Sample::name);
  if (samples.empty()) return invalid_argument(folder + " has no files");
  return samples;
}

Status run_all(int count, const std::string& folder, std::uint64_t seed) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<Sample> samples, read_samples(folder));
  Mutants mutants;
  SPARSMITH_RETURN_IF_ERROR(mutants.start());
  Counts whole;
  for (const Sample& sample : samples) {
    const Result<TunedFile> loaded = parse(sample.file);
    if (!loaded.ok()) return loaded.status().annotate(sample.name);
    const Status status = mutants.run(*loaded, true, whole);
    if (!status.ok()) return status.annotate("unaltered, " + sample.name);
  }
  if (whole.refused_runs > 0) return internal_error("an unaltered file was not run");
  Counts forged_contents;
  Counts forgeries;
  for (int i = 0; i < count; ++i) {
    std::mt19937_64 random(seed + static_cast<std::uint64_t>(i) * 1000003);
    const Sample& sample = samples[random() % samples.size()];
    const Status status = i % 2 == 0 ? try_forged_contents(sample, random, forged_contents)
                                     : mutants.try_forgery(sample, random, forgeries);
    if (!status.ok()) return status.annotate(fmt::format("mutant {} of seed {}, {}", i, seed, sample.name));
  }
  fmt::print("{} files, seed {}\n", samples.size(), seed);
  fmt::print(
      "arrays altered, pattern and value hash kept: {} mutants, {} refused, {} loaded, {} of them the same weight "
      "({})\n",
      forged_contents.mutants, forged_contents.refused, forged_contents.loaded, forged_contents.same,
      fmt::join(forged_contents.same_in, ", "));
  fmt::print(
      "anything altered, all hashes repaired: {} mutants, {} refused, {} loaded; {} runs launched, {} refused, {} "
      "emulated\n",
      forgeries.mutants, forgeries.refused, forgeries.loaded, forgeries.runs, forgeries.refused_runs,
      forgeries.emulated);
  return {};
}

}  // namespace
}  // namespace sparsmith::test

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: {} COUNT FOLDER [SEED]\n", argv[0]);
    return 2;
  }
  const std::uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  const sparsmith::Status status = sparsmith::test::run_all(std::atoi(argv[1]), argv[2], seed);
  if (status.ok()) return 0;
  fmt::print(stderr, "{}\n", status.to_string());
  return 1;
}
