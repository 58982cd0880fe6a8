// A tuned file with three operators of one weight, through the program: W X; W^T X on packings of W^T and on the dense
// weight that both share; and the gradient of W at its pattern.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <list>

#include "base/file.h"
#include "base/temporary_directory.h"
#include "formats/packed_format.h"
#include "generator/search_space.h"
#include "runtime/tuned_file.h"
#include "tests/support/drawn_matrix.h"
#include "tuner/process/child_process.h"

namespace sparsmith::test {
namespace {

class TunedOperatorsTest : public testing::Test {
 protected:
  void SetUp() override {
    Random random(11);
    matrix_ = draw_uneven_matrix(random, 70, 120);
    contents_.provenance.device_class = typical_device(90).device_class();
    TunedWeight& weight = contents_.weights.emplace_back();
    weight.name = "w";
    weight.rows = matrix_.rows;
    weight.cols = matrix_.cols;
    weight.nnz = matrix_.nnz();
    weight.pattern_hash = matrix_.pattern_hash();
    weight.value_hash = matrix_.value_hash();
    for (const OperatorKind kind : kOperatorKinds) {
      OperatorSpec spec{.kind = kind};
      spec.set_weight(matrix_.rows, matrix_.cols, matrix_.nnz());
      weight.operators.push_back({spec, {}});
      add_choice(kind == OperatorKind::kSddmm ? "sampled" : "rows", 4);
      add_choice("dense", 8);
    }
    ASSERT_TRUE(write_tuned_file(path_, contents_).ok()) << write_tuned_file(path_, contents_).to_string();
  }

  // Of the last operator.
  void add_choice(const char* family_name, std::int64_t tokens) {
    TunedWeight& weight = contents_.weights[0];
    TunedOperator& op = weight.operators.back();
    const Problem problem{op.spec, tokens, typical_device(90)};
    const Family& of = *family(family_name);
    const CsrMatrix multiplies = multiplied(op.spec.kind, matrix_);
    const Config config = search_space(of, problem, compute_statistics(multiplies)).configs.at(0).config;
    const PackedWeight& packed = packed_.emplace_back(of.pack(config, problem, matrix_).value());
    Candidate candidate = of.generate(config, problem, packed).value();
    candidate.config = config;
    if (weight.packing(packed.packing) == nullptr) weight.packings.push_back(view_of(packed));
    for (KernelSource& source : candidate.kernels) {
      TunedKernel& kernel = contents_.kernels.emplace_back();
      kernel.name = source.name;
      kernel.max_shared_bytes = source.max_shared_bytes;
      kernel.source = sources_.emplace_back(std::move(source.source));
    }
    TunedChoice& choice = op.choices.emplace_back();
    choice.tokens = tokens;
    choice.packing = candidate.packing;
    choice.plan = candidate.plan;
    choice.config = candidate.config.text();
  }

  // The exit code of `sparsmith ARGUMENTS`; what it printed is in output_.
  int run_program(const std::string& arguments) {
    const std::string file = directory_.file("output");
    const int status = std::system((program_folder() + "/sparsmith " + arguments + " >" + file + " 2>&1").c_str());
    output_ = read_file(file).value();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  CsrMatrix matrix_;
  std::list<PackedWeight> packed_;  // contents_ points into both
  std::list<std::string> sources_;
  TunedContents contents_;
  TemporaryDirectory directory_;
  std::string path_ = directory_.file("model.tuned.safetensors");
  std::string output_;
};

TEST_F(TunedOperatorsTest, AllAreCorrect) {
  for (const char* kind : {"spmm", "spmm_transposed", "sddmm"}) {
    for (const int tokens : {1, 4, 7}) {
      EXPECT_EQ(
          run_program(fmt::format("run {} --operator {} --tokens {} --device emulator --check", path_, kind, tokens)),
          0)
          << output_;
      EXPECT_NE(output_.find("correct"), std::string::npos) << output_;
      const char* const chosen = tokens > 4 ? "dense" : kind == std::string("sddmm") ? "sampled" : "rows";
      EXPECT_NE(output_.find(chosen), std::string::npos) << output_;
    }
  }
  EXPECT_EQ(run_program(fmt::format("run {} --operator spmv --device emulator", path_)), 3);
  EXPECT_NE(output_.find("w has no operator spmv; it has spmm, spmm_transposed, sddmm"), std::string::npos) << output_;
}

TEST_F(TunedOperatorsTest, AllAreShown) {
  EXPECT_EQ(run_program("show " + path_), 0);
  EXPECT_NE(output_.find("spmm_transposed_fp32_token_major_none"), std::string::npos) << output_;
  EXPECT_EQ(run_program("show " + path_ + " --tensor w --why --json"), 0);
  EXPECT_NE(output_.find("\"spmm_transposed\":"), std::string::npos) << output_;
  EXPECT_NE(output_.find("\"sddmm\":"), std::string::npos) << output_;
}

TEST_F(TunedOperatorsTest, TheGradientOfAWeightIsTuned) {
  const std::string model = directory_.file("model.safetensors");
  const std::string tuned = directory_.file("gradient.tuned.safetensors");
  ASSERT_EQ(run_program("synth -o " + model + " --seed 2 --dtype fp16 --weight w:160x512:0.9:lognormal:0.5"), 0)
      << output_;
  const std::string tune = "tune " + model + " -o " + tuned + " --operator sddmm --tokens 1,40 --force --full" +
                           " --device emulator --cache " + directory_.file("cache.db");
  ASSERT_EQ(run_program(tune), 0) << output_;
  ASSERT_EQ(run_program(tune), 0) << output_;
  EXPECT_NE(output_.find("predicted, cached"), std::string::npos) << output_;
  const auto file = TunedFile::open(tuned);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const TunedWeight& weight = file->contents().weights.at(0);
  ASSERT_EQ(weight.operators.size(), 1U);
  EXPECT_EQ(weight.operators[0].spec.kind, OperatorKind::kSddmm);
  EXPECT_EQ(weight.operators[0].spec.nnz, weight.nnz);
  EXPECT_EQ(Config::parse(weight.operators[0].choices.at(0).config)->family, "sampled");
  for (const int tokens : {1, 40}) {
    const std::string command =
        fmt::format("run {} --tokens {} --device emulator --check --model {}", tuned, tokens, model);
    EXPECT_EQ(run_program(command), 0) << output_;
    EXPECT_NE(output_.find("correct"), std::string::npos) << output_;
  }
  EXPECT_EQ(run_program(tune + " --epilogue relu"), 2);
  EXPECT_NE(output_.find("sddmm has none but beta"), std::string::npos) << output_;
}

TEST_F(TunedOperatorsTest, TheTransposedWeightIsTuned) {
  const std::string model = directory_.file("model.safetensors");
  const std::string tuned = directory_.file("transposed.tuned.safetensors");
  ASSERT_EQ(run_program("synth -o " + model + " --seed 2 --weight w:160x512:0.9:lognormal:0.5"), 0) << output_;
  const std::string tune = "tune " + model + " -o " + tuned +
                           " --operator spmm_transposed --tokens 1,8 --force --full" +
                           " --device emulator --epilogue bias,relu --cache " + directory_.file("cache.db");
  ASSERT_EQ(run_program(tune), 0) << output_;
  EXPECT_NE(output_.find("160x512"), std::string::npos) << output_;
  EXPECT_EQ(output_.find("predicted, cached"), std::string::npos) << output_;
  ASSERT_EQ(run_program(tune), 0) << output_;
  EXPECT_NE(output_.find("predicted, cached"), std::string::npos) << output_;
  const auto file = TunedFile::open(tuned);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const TunedWeight& weight = file->contents().weights.at(0);
  EXPECT_EQ(weight.rows, 160);
  ASSERT_EQ(weight.operators.size(), 1U);
  EXPECT_EQ(weight.operators[0].spec.kind, OperatorKind::kSpmmTransposed);
  EXPECT_EQ(weight.operators[0].spec.rows, 512);
  EXPECT_NE(weight.operators[0].choices.at(0).packing, kDensePacking) << "a kernel is faster for one token";
  EXPECT_TRUE(is_transposed(weight.operators[0].choices.at(0).packing));
  for (const int tokens : {1, 8}) {
    const std::string command =
        fmt::format("run {} --tokens {} --device emulator --check --model {}", tuned, tokens, model);
    EXPECT_EQ(run_program(command), 0) << output_;
    EXPECT_NE(output_.find("correct"), std::string::npos) << output_;
  }
}

}  // namespace
}  // namespace sparsmith::test
