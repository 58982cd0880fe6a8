// Every rule of every family against an example: a config that this rule refuses and no other. The examples stand in
// families/FAMILY/rule_examples.txt, a line each: problem, config, reason. So a rule that is taken out, or that lets
// through more than before, is seen. For a rule without an example the test prints one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "generator/family.h"
#include "generator/search_space.h"
#include "matrix/synthesis.h"

namespace sparsmith {
namespace {

// Where examples are looked for: operator, weight, tokens, device.
const char* const kProblems[] = {
    "spmm_fp16_token_major_none 512x2048 uniform 0.8 N=1 sm_90",
    "spmm_fp16_token_major_none 512x2048 uniform 0.8 N=16 sm_90",
    "spmm_fp16_token_major_none 1024x1024 lognormal:1 0.95 N=8 sm_90",
    "spmm_fp16_feature_major_none 512x1024 uniform 0.6 N=64 sm_90",
    "spmm_fp32_token_major_none 512x1024 power:1 0.97 N=32 sm_90",
    "spmm_bf16_feature_major_none 1024x512 lognormal:0.5 0.9 N=128 sm_90",
    "spmm_fp16_token_major_none 512x1024 2:4 0.5 N=8 sm_90",
    "spmm_fp16_token_major_none 16x70000 uniform 0.95 N=4 sm_90",
    "spmm_fp16_token_major_none 512x512 uniform 0.3 N=300 sm_90",
    "spmm_fp16_token_major_none 64x16384 uniform 0.999 N=16 sm_90",
    "spmm_bf16_token_major_none 8192x256 lognormal:0.3 0.8 N=64 sm_80",
    "spmm_fp16_token_major_none 2048x2048 block:32 0.9 N=32 sm_80",
    "spmm_fp32_feature_major_none 256x8192 uniform 0.99 N=1 sm_90",
    "spmm_fp16_token_major_none 1024x4096 uniform 0.5 N=24 sm_90",
    "spmm_fp16_token_major_beta+residual 512x1024 uniform 0.9 N=16 sm_90",
    "spmm_fp16_token_major_none 512x128 uniform 0.8 N=8 sm_90",
    "spmm_fp16_token_major_none 1024x2048 uniform 0.8 N=300 sm_90",
    "spmm_fp16_token_major_none 1024x2052 uniform 0.8 N=300 sm_90",
    "spmm_fp16_token_major_none 1024x2048 uniform 0.3 N=64 sm_90",
    "spmm_fp16_token_major_none 16384x512 uniform 0.8 N=64 sm_90",
    "spmm_fp16_token_major_none 128x8192 uniform 0.8 N=64 sm_90",
    "spmm_fp16_token_major_none 512x1024 2:4 0.5 N=8 sm_75",
    "spmm_fp16_token_major_none 512x1024 2:4 0.5 N=64 sm_80",
    "spmm_fp16_token_major_none 8192x1024 2:4 0.5 N=64 sm_90",
    "spmm_fp16_token_major_none 256x4096 2:4 0.5 N=1 sm_90",
    "spmm_fp16_feature_major_none 2048x2048 lognormal:0.5 0.9 N=1000 sm_90",
    "spmm_fp16_feature_major_none 2048x4096 uniform 0.8 N=8 sm_90",
    "spmm_fp32_feature_major_none 4096x2048 uniform 0.9 N=4 sm_90",
    "spmm_fp16_feature_major_none 512x1024 2:4 0.5 N=4 sm_90",
    "spmm_fp32_token_major_none 512x1024 2:4 0.5 N=8 sm_90",
    "spmm_fp16_token_major_none 16384x1024 uniform 0.9 N=64 sm_86",
    "spmm_fp16_token_major_none 2048x512 uniform 0.9 N=1 sm_86",
    "spmm_fp32_token_major_none 300000x64 uniform 0.9 N=64 sm_86",
    "spmm_fp16_token_major_none 8192x4096 2:4 0.5 N=8 sm_90",
    "spmm_fp16_token_major_none 1024x1024 block:32+uniform:0.001 0.9 N=64 sm_90",
    "spmm_fp16_token_major_none 1024x1024 2:4+uniform:0.001 0.5 N=64 sm_90",
    "sddmm_fp16_token_major_none 512x1024 uniform 0.9 N=16 sm_90",
    "sddmm_fp16_feature_major_none 512x1024 uniform 0.99 N=64 sm_90",
    "sddmm_bf16_token_major_none 1024x1024 block:64 0.9 N=512 sm_90",
    "sddmm_fp32_feature_major_none 16x70000 uniform 0.95 N=32 sm_90",
};

struct Searched {
  Problem problem;
  CsrMatrix matrix;
  SparsityStatistics statistics;
};

Searched searched(const std::string& text) {
  std::istringstream words(text);
  std::string operator_name, shape, pattern, sparsity, tokens, architecture;
  words >> operator_name >> shape >> pattern >> sparsity >> tokens >> architecture;
  Searched made;
  made.problem.spec = OperatorSpec::parse(operator_name).value();
  SynthesisSpec spec{.sparsity = std::stod(sparsity), .data_type = made.problem.spec.type, .seed = 1};
  EXPECT_TRUE(parse_shape(shape, spec).ok()) << text;
  spec.pattern = parse_synthesis_pattern(pattern).value();
  made.problem.spec.rows = spec.rows;
  made.problem.spec.cols = spec.cols;
  made.problem.tokens = std::stoll(tokens.substr(2));
  const int capability = std::stoi(architecture.substr(3));
  made.problem.device = typical_device(capability);
  made.problem.device.compute_capability = capability;
  if (capability == 86) {  // a small one
    made.problem.device.max_threads_per_sm = 1536;
    made.problem.device.shared_bytes_per_block = 99 << 10;
    made.problem.device.shared_bytes_per_sm = 100 << 10;
  }
  made.matrix = synthesize(spec).value();
  made.statistics = compute_statistics(made.matrix);
  return made;
}

const Searched& problem_of(const std::string& text) {
  static std::map<std::string, Searched> all;
  const auto found = all.find(text);
  return found != all.end() ? found->second : all.emplace(text, searched(text)).first->second;
}

// The rules beside which `reason` is the only one to refuse its example, in the order in which a search asks them: a
// rule is due when its last parameter has been chosen. Legal rules are asked without the others, too.
std::vector<Rule> rules_around(const Family& of, const std::string& reason) {
  std::vector<std::string> names;
  for (const Parameter& parameter : of.parameters) names.push_back(parameter.name);
  const auto due = [&](const Rule& rule) {
    std::ptrdiff_t last = rule.parameters.empty() ? std::ssize(names) - 1 : 0;
    for (const std::string& name : rule.parameters)
      last = std::max(last, std::ranges::find(names, name) - names.begin());
    return last;
  };
  std::vector<Rule> rules = of.rules;
  if (std::ranges::find(rules, reason, &Rule::reason)->kind == Rule::Kind::kLegal)
    std::erase_if(rules, [](const Rule& rule) { return rule.kind != Rule::Kind::kLegal; });
  std::ranges::stable_sort(rules, {}, due);
  return rules;
}

// How many rules let `config` through until one refuses it, that called `but` left aside, and whether that one does.
struct Asked {
  std::size_t passed = 0;
  bool refused_by_it = false;
};
Asked ask(const std::vector<Rule>& rules, const Config& config, const Searched& where, const std::string& but) {
  Asked asked;
  for (const Rule& rule : rules) {
    const bool holds = rule.holds({config, where.problem, where.statistics});
    if (rule.reason == but && !holds) asked.refused_by_it = true;
    if (rule.reason != but && !holds) break;
    ++asked.passed;
  }
  return asked;
}

struct Example {
  std::string problem;
  std::string config;
  std::string reason;
};

std::vector<Example> examples_of(const Family& of) {
  if (of.rules.empty()) return {};
  std::ifstream file(std::string(SPARSMITH_EXAMPLES "/") + of.name + "/rule_examples.txt");
  EXPECT_TRUE(file.good()) << of.name << ": " SPARSMITH_EXAMPLES " has no file of it";
  std::vector<Example> all;
  for (std::string line; std::getline(file, line);) {
    Example each;
    std::istringstream fields(line);
    for (std::string* field : {&each.problem, &each.config, &each.reason}) std::getline(fields, *field, '|');
    all.push_back(each);
  }
  return all;
}

// A config that `reason` alone rules out, from a walk that changes a parameter at a time.
std::string find_example(const Family& of, const std::string& reason) {
  const std::vector<Parameter> parameters = of.parameters;
  const std::vector<Rule> rules = rules_around(of, reason);
  std::mt19937 random(1);
  const auto draw = [&](const Parameter& parameter) { return parameter.values[random() % parameter.values.size()]; };
  for (int walk = 0; walk < 10; ++walk) {
    for (const char* problem : kProblems) {
      const Searched& where = problem_of(problem);
      if (!of.serves(where.problem.spec)) continue;
      const auto badness = [&](const Config& config) {
        const Asked asked = ask(rules, config, where, reason);
        return rules.size() - asked.passed + (asked.refused_by_it ? 0 : 3);
      };
      Config config{of.name, {}};
      for (const Parameter& parameter : parameters) config.values[parameter.name] = draw(parameter);
      std::size_t bad = badness(config);
      for (int step = 0; step < 2000 && bad > 0; ++step) {
        Config other = config;
        for (int change = 0; change < 1 + static_cast<int>(random() % 2); ++change) {
          const Parameter& parameter = parameters[random() % parameters.size()];
          other.values[parameter.name] = draw(parameter);
        }
        const std::size_t other_bad = badness(other);
        if (other_bad <= bad) {
          config = other;
          bad = other_bad;
        }
      }
      if (bad == 0) return fmt::format("{}|{}|{}", problem, config.text(), reason);
    }
  }
  return "none was found: other rules may make it superfluous";
}

// Rules that no config of today's values breaks without breaking another one, on the devices that are known.
const std::set<std::pair<std::string, std::string>> kWithoutExample = {
    {"slots", "the blocks exceed the threads of a multiprocessor"},
    {"gather", "the sums exceed the shared memory of a block"},
    {"two_four_wgmma_rest", "a group of four columns has more than two nonzeros"},  // in the structured part
};

TEST(FamilyRulesTest, EachRuleAloneRefusesItsExample) {
  for (const auto& of : families()) {
    std::set<std::string> shown;
    for (const Example& each : examples_of(*of)) {
      SCOPED_TRACE(fmt::format("{}: {}; {}", of->name, each.reason, each.config));
      const auto config = Config::parse(each.config);
      ASSERT_TRUE(config.ok() && config->family == of->name);
      ASSERT_NE(std::ranges::count(of->rules, each.reason, &Rule::reason), 0) << "the rule is gone";
      const std::vector<Rule> rules = rules_around(*of, each.reason);
      const Asked asked = ask(rules, *config, problem_of(each.problem), each.reason);
      EXPECT_TRUE(asked.refused_by_it);
      EXPECT_EQ(asked.passed, rules.size()) << "refused as well: " << rules[asked.passed % rules.size()].reason;
      shown.insert(each.reason);
    }
    for (const Rule& rule : of->rules) {
      if (shown.contains(rule.reason) || kWithoutExample.contains({of->name, rule.reason})) continue;
      ADD_FAILURE() << of->name << ": no example for \"" << rule.reason << "\"; this may be one:\n"
                    << find_example(*of, rule.reason);
    }
  }
}

TEST(FamilyRulesTest, AWeightInAnotherPackingIsRefused) {
  for (const auto& each : families()) {
    SCOPED_TRACE(each->name);
    for (const char* problem : kProblems) {
      const Searched& where = problem_of(problem);
      const SearchSpace space = search_space(*each, where.problem, where.statistics);
      if (space.configs.empty()) continue;
      const Config& config = space.configs.front().config;
      auto packed = each->pack(config, where.problem, where.matrix);
      ASSERT_TRUE(packed.ok()) << packed.status().to_string();
      EXPECT_TRUE(each->generate(config, where.problem, *packed).ok()) << config.text();
      packed->packing += "x";
      EXPECT_FALSE(each->generate(config, where.problem, *packed).ok()) << config.text();
      break;
    }
  }
}

// So that a config stands once in a space, and searches that go from a value to the next one meet each.
TEST(FamilyRulesTest, ValuesOfAParameterAscend) {
  for (const auto& each : families()) {
    for (const Parameter& parameter : each->parameters)
      EXPECT_TRUE(std::ranges::is_sorted(parameter.values, std::ranges::less_equal{}))
          << each->name << " " << parameter.name;
  }
}

// Where a legal rule forgets some of the shared memory, a config that is let through has no kernel that launches.
TEST(FamilyRulesTest, LegalConfigsFitTheSharedMemoryOfABlock) {
  constexpr std::int64_t kMostElements = 1'200'000;
  std::mt19937 random(1);
  for (const auto& each : families()) {
    const std::vector<Parameter> parameters = each->parameters;
    int generated = 0;
    for (const char* problem : kProblems) {
      const Searched& where = problem_of(problem);
      if (where.matrix.rows * where.matrix.cols > kMostElements) continue;
      for (int attempt = 0; attempt < 400; ++attempt) {
        Config config{each->name, {}};
        for (const Parameter& parameter : parameters)
          config.values[parameter.name] = parameter.values[random() % parameter.values.size()];
        if (!each->check(config, where.problem, where.statistics).ok()) continue;
        const auto packed = each->pack(config, where.problem, where.matrix);
        ASSERT_TRUE(packed.ok()) << config.text() << ": " << packed.status().to_string();
        const auto candidate = each->generate(config, where.problem, *packed);
        EXPECT_TRUE(candidate.ok()) << problem << ": " << config.text() << ": " << candidate.status().to_string();
        if (++generated % 6 == 0) break;
      }
    }
    EXPECT_GT(generated, 10) << each->name;
  }
}

}  // namespace
}  // namespace sparsmith
