#include "tools/commands/tune_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "base/log.h"
#include "generator/family.h"
#include "search/ablation_timing.h"
#include "tools/command.h"
#include "tools/commands/tune_inputs.h"
#include "tools/interrupt.h"
#include "tools/progress.h"
#include "tuner/compile/compiler_pool.h"
#include "tuner/process/environment_fault.h"
#include "tuner/worker.h"

namespace sparsmith::tools {
namespace {

// A finite number with one of the units, in the unit of scale 1; 0 for any other text.
double number_with_unit(const std::string& text, const std::map<std::string, double>& scales) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto scale = scales.find(std::string(end, text.data() + text.size()));
  if (error != std::errc() || scale == scales.end()) return 0;
  return std::isfinite(number * scale->second) ? number * scale->second : 0;
}

}  // namespace

Result<TuneOptions> completed_options(const TuneSettings& settings) {
  TuneOptions tuning = settings.tuning;
  if (!settings.dtype.empty()) {
    tuning.type = data_type_from_short_name(settings.dtype);
    const bool known = tuning.type && (*tuning.type == DataType::kFloat32 || *tuning.type == DataType::kFloat16 ||
                                       *tuning.type == DataType::kBFloat16);
    if (!known) return invalid_argument(fmt::format("--dtype {}: one of fp32, fp16, bf16", settings.dtype));
  }
  tuning.kinds.clear();
  for (const std::string& kind : settings.kinds)
    tuning.kinds.push_back(operator_kind_of_name(kind).value_or(OperatorKind::kSpmm));
  if (tuning.train) tuning.kinds.assign(std::begin(kOperatorKinds), std::end(kOperatorKinds));
  tuning.layout = settings.layout == "feature_major" ? Layout::kFeatureMajor : Layout::kTokenMajor;
  tuning.accumulation = accumulation_of_name(settings.accumulation).value_or(Accumulation::kFp32);
  SPARSMITH_RETURN_IF_ERROR(take_memory(settings.memory, tuning));
  tuning.strategy = strategy_of_name(settings.strategy);
  std::erase(tuning.vendors, kDenseLibrary);
  if (settings.candidates > 0) {
    if (tuning.strategy == StrategyKind::kRace)
      tuning.selection.candidates = settings.candidates;
    else
      tuning.most_candidates = static_cast<std::size_t>(settings.candidates);
  }
  for (const std::string& text : settings.epilogues) {
    SPARSMITH_ASSIGN_OR_RETURN(const WeightEpilogue given, parse_weight_epilogue(text));
    if (given.pattern.empty()) tuning.epilogue = given.epilogue;
  }
  if (!settings.budget.empty()) {
    SPARSMITH_ASSIGN_OR_RETURN(tuning.budget_s, parse_duration(settings.budget));
  }
  return tuning;
}

namespace {

// The cache asked for, or the default one; a default one that cannot be had is done without.
Result<std::optional<Cache>> open_cache(const TuneSettings& settings) {
  if (settings.no_cache) return std::optional<Cache>();
  if (!settings.cache.empty()) {
    SPARSMITH_ASSIGN_OR_RETURN(Cache cache, Cache::open(settings.cache, Cache::Mode::kReadWrite));
    return std::optional<Cache>(std::move(cache));
  }
  std::string notice;
  auto path = Cache::default_path();
  auto cache = path.ok() ? Cache::open_or_rebuild(*path, &notice) : Result<Cache>(path.status());
  if (!notice.empty()) log_warning("{}", notice);
  if (cache.ok()) return std::optional<Cache>(std::move(*cache));
  log_warning("without a cache: {}", cache.status().message());
  return std::optional<Cache>();
}

constexpr const char* kEmulator = "emulator";
constexpr const char* kNone = "none";  // no device: nothing runs

struct DevicesChoice {
  std::vector<std::string> names;  // "cuda:0", "emulator"; empty: choices are predicted and not verified
  std::string note;                // why, where the user did not say: to be told at the end

  bool any_gpu() const { return !names.empty() && names.front() != kEmulator; }
};

// Whether the emulator compiles and runs kernels. Error: kIoError where the machine lacks space or memory for it.
Result<bool> emulator_works() {
  auto worker = Worker::start({.device = kEmulator, .program = ""});
  const Status status = worker.ok() ? (*worker)->check_known_good() : worker.status();
  if (is_environment_fault(status)) return status;
  if (!status.ok()) log_debug("{}", status.message());
  return status.ok();
}

// The devices of a run: those of `asked`, each once; where none is asked for, the first GPU that works, or else the
// emulator, or else nothing. Error: kInvalidArgument for an unknown name.
Result<DevicesChoice> choose_devices(const std::vector<std::string>& asked) {
  DevicesChoice devices;
  for (const std::string& name : asked) {
    if (name != kEmulator && name != kNone && !name.starts_with("cuda:"))
      return invalid_argument(fmt::format("--device {}: cuda:<number>, emulator, or none", name));
    if (std::ranges::find(devices.names, name) != devices.names.end())
      return invalid_argument(fmt::format("--device names {} twice", name));
    devices.names.push_back(name);
  }
  for (const char* alone : {kEmulator, kNone}) {
    if (devices.names.size() > 1 && std::ranges::find(devices.names, alone) != devices.names.end())
      return invalid_argument(fmt::format("--device: {} measures nothing, and goes together with no device",
                                          alone == kNone ? "none" : "the emulator"));
  }
  if (devices.names == std::vector<std::string>{kNone}) return DevicesChoice{{}, "--device none"};
  if (!devices.names.empty()) return devices;
  const auto worker = Worker::start({.device = "cuda:0", .program = ""});
  if (worker.ok()) return DevicesChoice{{"cuda:0"}, ""};
  if (worker.status().code() == StatusCode::kIoError) return worker.status();  // it says nothing of a GPU
  log_debug("{}", worker.status().message());
  SPARSMITH_ASSIGN_OR_RETURN(const bool emulated, emulator_works());
  if (!emulated) return DevicesChoice{{}, "no GPU, and no C++ compiler for the emulator (sparsmith doctor says more)"};
  return DevicesChoice{{kEmulator}, "no usable GPU (sparsmith doctor says why)"};
}

std::string bench_command(const TuneSettings& settings) {
  std::string command = "sparsmith bench " + shell_word(settings.file);
  const auto add = [&command](const char* option, const std::string& value, const std::string& unless) {
    if (value != unless) command += fmt::format(" {} {}", option, shell_word(value));
  };
  add("--dtype", settings.dtype, "");
  add("--layout", settings.layout, "token_major");
  add("--accumulation", settings.accumulation, "fp32");
  add("--memory", settings.memory, "1x");
  if (!settings.devices.empty()) add("--device", settings.devices.front(), "");  // one case goes on one
  add("--cache", settings.cache, "");
  for (const std::string& group : settings.groups) add("--group", group, "");
  if (settings.tuning.transpose) command += " --transpose";
  if (settings.tuning.timing.programmatic) command += " --programmatic";
  if (settings.tuning.timing.layers > 0) command += fmt::format(" --layers {}", settings.tuning.timing.layers);
  if (settings.value_seed != 0) command += fmt::format(" --seed {}", settings.value_seed);
  return command;
}

}  // namespace

void add_tune_options(CLI::App& command, TuneSettings& settings) {
  TuneOptions& tuning = settings.tuning;
  command
      .add_option("file", settings.file,
                  "The model: a Hugging Face folder, .safetensors (dense, or of compressed-tensors), the .json index "
                  "of shards, .smtx, "
                  ".mtx, .npz or .npy")
      ->required();
  add_shown(command, "--tokens", tuning.tokens, "Tokens per call (N) to tune for, ascending, such as 1,8,64")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{std::numeric_limits<std::int32_t>::max()}));
  command
      .add_option("--calls", tuning.calls,
                  "Relative number of calls at each N, which share the memory; default: such that dense takes equally "
                  "long at each")
      ->delimiter(',');
  add_shown(
      command, "--operator", settings.kinds,
      "spmm: Y = W X (inference); spmm_transposed: W^T dY (gradient of the input); sddmm: dY X^T at the nonzeros of W "
      "(gradient of the weight). Several operators share the memory bound, and --epilogue then applies to spmm only")
      ->delimiter(',')
      ->check(CLI::IsMember({"spmm", "spmm_transposed", "sddmm"}));
  command.add_option("--dtype", settings.dtype,
                     "Convert weights to fp32, fp16 or bf16; default: the type of each weight");
  add_shown(command, "--layout", settings.layout, "Layout of X and Y: token_major X[N][K], or feature_major X[K][N]")
      ->check(CLI::IsMember({"token_major", "feature_major"}));
  add_shown(command, "--epilogue", settings.epilogues,
            "Operations fused behind the product: bias, relu, gelu, gelu_tanh, silu, beta, residual, joined by ','; or "
            "none. silu,gated: silu of the first half of the rows, times the second half. PATTERN=bias is for weights "
            "and groups whose names match this shell pattern (repeatable; the last match "
            "wins)")
      ->allow_extra_args(false);
  add_shown(command, "--accumulation", settings.accumulation,
            "Sums of fp16 kernels: fp32; or fp16_chains, which may add four products in fp16: up to 15 % faster, twice "
            "the error, infinite above 65504")
      ->check(CLI::IsMember({"fp32", "fp16_chains"}));
  add_shown(
      command, "--memory", settings.memory,
      "Bound on GPU memory: 1x, each weight at most its dense bytes; 1.5x; or 3GB, all weights together. The "
      "fastest kernels within the bound are chosen. No N is slower than dense, unless there is no room for dense");
  command
      .add_flag("--train", tuning.train,
                "Tune for training: all operators together. In place of --memory, packings are bounded such that "
                "training takes no more GPU memory than dense training under a mask. The output ends with the time of "
                "a step")
      ->excludes("--operator")
      ->excludes("--memory")
      ->needs("--tokens");
  for (const char* removed : {"--packings", "--objective", "--max-slowdown", "--max-bytes"})
    command.add_option(removed)->group("")->each([removed](const std::string&) {
      throw CLI::ValidationError(removed, "there is no such option; give --memory");
    });
  add_max_memory_option(command, settings.max_memory);
  command.add_flag(
      "--programmatic", tuning.timing.programmatic,
      "Programmatic dependent launch (sm_90 and later): a kernel loads its weight while the previous kernel ends");
  command.add_option("--budget", settings.budget, "Time limit of the run, such as 90s, 10m or 2h; default: none");
  add_shown(command, "--strategy", settings.strategy,
            "race: time the best guesses of the cost model, then refine; exhaustive: time all configs, or a random "
            "sample of them")
      ->check(CLI::IsMember({"race", "exhaustive"}));
  command
      .add_option("--candidates", settings.candidates,
                  "Candidates for each weight and N. race: the first round, up to 72 more follow (default 32); "
                  "exhaustive: the limit (default 1000)")
      ->check(CLI::Range(1, 100000));
  command.add_flag("!--no-transfer", tuning.transfer,
                   "Search each weight in full; do not reuse results of similar weights");
  command.add_option("--record", settings.record,
                     "Append each searched space, with the samples of each candidate, to this .jsonl.gz file");
  command
      .add_option("--families", tuning.selection.families,
                  "Kernel families to search, such as rows,panel; default: all")
      ->delimiter(',')
      ->check(CLI::Validator(
          [](const std::string& text) { return family(text) != nullptr ? "" : "there is no family " + text; }, "NAME"));
  command
      .add_option(
          "--device", settings.devices,
          "cuda:0; emulator: choices are predicted, and verified on the CPU; none: predicted, and not verified. "
          "cuda:0,cuda:1,... share the weights. Default: the first GPU, else emulator, else (without a C++ "
          "compiler) none")
      ->delimiter(',');
  command
      .add_option("--arch", tuning.architectures,
                  "Further architectures to compile the chosen kernels for, such as sm_80,sm_100")
      ->delimiter(',')
      ->check(CLI::Validator(
          [](const std::string& text) {
            return text.starts_with("sm_") ? "" : text + " is no architecture, as sm_90 is";
          },
          "sm_NN"));
  command.add_option("--cache", settings.cache, "Cache file; default: $XDG_CACHE_HOME/sparsmith/cache.db");
  command.add_flag("--no-cache", settings.no_cache, "Do not read or write a cache")->excludes("--cache");
  command.add_flag("--transpose", tuning.transpose, "Tune the transposed weights");
  add_selection_options(command, settings.selection);
  command
      .add_option("--group", settings.groups,
                  "Tune weights that read the same input as one weight: NAME:MEMBER,MEMBER,... A * in each member "
                  "makes one group per layer: qkv:*.q_proj.weight,*.k_proj.weight,*.v_proj.weight (repeatable)")
      ->allow_extra_args(false);
  command.add_option(
      "--shard", settings.shard,
      "Tune a part of the weights: 2/8 is the second of eight, of about equal work. Joined caches of all "
      "shards (cache export, cache import) make a run without --shard that searches nothing");
  command
      .add_option(
          "--only", settings.selection.only,
          "Of the selected weights and groups, tune the one of this name, and read no other tensor (repeatable)")
      ->allow_extra_args(false)
      ->excludes("--shard");
  add_shown(command, "--seed", settings.value_seed, "Seed of the values, for files that hold positions only (.smtx)");
  add_shown(command, "--threads", tuning.compile_threads, "Compiler processes; 0: one per core");
  add_shown(command, "--searches", tuning.searches_per_device,
            "Weights that a GPU searches at once: one is timed while the next waits for its kernels. 1 with --budget "
            "or --record, and with less than 16 GiB of host memory for each")
      ->check(CLI::Range(1, 8));
}

void add_rank_options(CLI::App& command, TuneSettings& settings) {
  CLI::Option* const ranks =
      command
          .add_option("--tensor-parallel", settings.selection.ranks,
                      "Cut the weights of --split for so many GPUs that run the model together, and write a tuned file "
                      "for each: model.rank0.tuned.safetensors, ...")
          ->check(CLI::Range(2, 1024));
  CLI::Option* const splits =
      command
          .add_option("--split", settings.splits,
                      "Weights that are cut at common boundaries: NAME:rows=MEMBER,columns=MEMBER,... rows: output "
                      "features; columns: input features. A * is as in --group. NAME/8: between eighths of each "
                      "dimension, for 8 key and value heads: attention/8:rows=*.q_proj.weight,rows=*.k_proj.weight,"
                      "rows=*.v_proj.weight,columns=*.o_proj.weight (repeatable)")
          ->allow_extra_args(false)
          ->needs(ranks)
          ->excludes("--transpose")
          ->excludes("--train");
  ranks->needs(splits);
}

std::vector<OutputFile> outputs_of(const TuneSettings& settings) {
  std::string cache = settings.cache;
  if (cache.empty() && !settings.no_cache) {
    const auto path = Cache::default_path();
    if (path.ok()) cache = *path;
  }
  return {{"--cache", settings.no_cache ? "" : cache, OutputKind::kCache},
          {"--record", settings.record, OutputKind::kRecords}};
}

std::string shell_word(const std::string& text) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_-./=:,@%+").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, plain)) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

Result<WeightEpilogue> parse_weight_epilogue(const std::string& text) {
  const std::size_t end = text.rfind('=');
  WeightEpilogue parsed;
  if (end != std::string::npos) parsed.pattern = text.substr(0, end);
  auto epilogue = Epilogue::parse(std::string_view(text).substr(end == std::string::npos ? 0 : end + 1));
  if (!epilogue.ok()) return epilogue.status().annotate("--epilogue " + text);
  if (end == 0) return invalid_argument(fmt::format("--epilogue {}: there is no pattern in front of the =", text));
  parsed.epilogue = *epilogue;
  return parsed;
}

Status take_memory(const std::string& text, TuneOptions& tuning) {
  constexpr double kMost = 1e15;
  constexpr double kMostTimesDense = 16;
  const double times = number_with_unit(text, {{"x", 1}});
  const double bytes = number_with_unit(text, {{"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}});
  if (times > 0 && times <= kMostTimesDense) {
    tuning.memory = times;
  } else if (bytes >= 1 && bytes <= kMost) {
    tuning.model_bytes = static_cast<std::int64_t>(bytes);
  } else {
    return invalid_argument(fmt::format(
        "--memory {}: give a multiple of dense for each weight, as 1x or 1.5x, and at most {}x, or bytes for "
        "the model, as 500MB or 3GB",
        text, kMostTimesDense));
  }
  return {};
}

Result<double> parse_duration(const std::string& text) {
  const double seconds = number_with_unit(text, {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}});
  if (seconds > 0) return seconds;
  return invalid_argument(fmt::format("\"{}\" is no duration, as 90s, 10m or 1.5h are", text));
}

Result<TuneOutcome> with_tuner(const TuneSettings& settings, bool quiet, const RunWithTuner& run) {
  SPARSMITH_ASSIGN_OR_RETURN(TuneOptions tuning, completed_options(settings));
  TuneOutcome outcome;
  outcome.timing_policy = tuning.timing.name();
  outcome.command = bench_command(settings);
  TuneResources resources;
  SPARSMITH_ASSIGN_OR_RETURN(const DevicesChoice devices, choose_devices(settings.devices));
  outcome.device_note = devices.note;
  for (const std::string& name : devices.names)
    resources.workers.push_back(worker_factory({.device = name, .program = "", .interrupted_at = interrupted_at}));
  CompilerPool::Options pool;
  pool.interrupted_at = interrupted_at;
  const auto compiler = CompilerPool::open(pool);
  if (compiler.ok()) {
    resources.compiler = compiler->get();
    outcome.compiler_version = (*compiler)->version();
  } else if (devices.any_gpu() || compiler.status().code() != StatusCode::kNoDevice) {
    return compiler.status();  // only a missing libnvrtc is something to go on without
  } else {
    log_warning("the tuned file will hold no binaries: {}", compiler.status().message());
  }
  SPARSMITH_ASSIGN_OR_RETURN(std::optional<Cache> cache, open_cache(settings));
  if (cache) {
    resources.cache = &*cache;
    outcome.cache_path = cache->path();
  }
  resources.program_version = SPARSMITH_VERSION;
  resources.interrupted = interrupted;
  if (!settings.record.empty())
    resources.record = [&](const RecordedSpace& space) { return append_space(settings.record, space); };
  ProgressDisplay display(quiet);
  resources.progress = [&](const TuneProgress& progress) { display.update(progress); };
  resources.weight_is_done = [&](const WeightResult& weight) { display.weight_is_done(weight); };

  catch_interrupts();
  SPARSMITH_ASSIGN_OR_RETURN(outcome.report, run(tuning, resources));
  if (cache && cache->damaged() > 0)
    log_warning("{}: {} damaged rows were dropped from the cache", cache->path(), cache->damaged());
  return outcome;
}

Result<TuneOutcome> run_tuning(const TuneSettings& settings, bool quiet) {
  SPARSMITH_ASSIGN_OR_RETURN(const TuneOptions options, completed_options(settings));
  SPARSMITH_ASSIGN_OR_RETURN(const std::unique_ptr<TuneInputs> inputs, open_inputs(settings, options));
  SPARSMITH_ASSIGN_OR_RETURN(
      TuneOutcome outcome, with_tuner(settings, quiet, [&](const TuneOptions& tuning, const TuneResources& resources) {
        auto report = tune(inputs->weights, tuning, resources);
        if (!settings.ablation || !report.ok()) return report;
        const Status ablated = time_ablations(inputs->weights, tuning, resources, *report);
        if (!ablated.ok()) log_warning("kernels were not timed without their parts: {}", ablated.message());
        return report;
      }));
  outcome.rank_parts = inputs->rank_parts;
  for (const SkippedTensor& tensor : inputs->analysis.skipped)
    outcome.report.skipped.push_back({tensor.name, tensor.reason});
  return outcome;
}

}  // namespace sparsmith::tools
