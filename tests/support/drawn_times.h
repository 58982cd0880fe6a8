// Times of known truth for tests: noise as GPUs make it.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace sparsmith {

enum class Noise : std::uint8_t {
  kIndependent,     // each sample on its own
  kAutocorrelated,  // AR(1) with coefficient 0.9
  kBimodal,         // two clocks, each kept for 30 samples on average, and a little noise on top
};

inline const char* noise_name(Noise noise) {
  return noise == Noise::kIndependent ? "independent" : noise == Noise::kAutocorrelated ? "AR(1) 0.9" : "bimodal";
}

// A source of noise that goes on from one sample to the next, whatever is measured.
class DrawnNoise {
 public:
  // `cv`: standard deviation over mean.
  DrawnNoise(Noise noise, double cv, std::uint64_t seed) : noise_(noise), cv_(cv), random_(seed) {
    correlated_ = normal_(random_);
    fast_ = uniform_(random_) < 0.5;
  }

  // A sample of something that takes `us`.
  double sample(double us) { return us * (1 + cv_ * next()); }

  // `count` samples taken in one go.
  std::vector<float> samples(double us, int count) {
    std::vector<float> result;
    for (int i = 0; i < count; ++i) result.push_back(static_cast<float>(sample(us)));
    return result;
  }

 private:
  double next() {  // of variance 1
    switch (noise_) {
      case Noise::kIndependent: return normal_(random_);
      case Noise::kAutocorrelated:
        correlated_ = 0.9 * correlated_ + std::sqrt(1 - 0.81) * normal_(random_);
        return correlated_;
      case Noise::kBimodal:
        if (uniform_(random_) < 1.0 / 30) fast_ = !fast_;
        return (fast_ ? -0.954 : 0.954) + 0.3 * normal_(random_);
    }
    return 0;
  }

  Noise noise_;
  double cv_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
  double correlated_ = 0;
  bool fast_ = false;
};

}  // namespace sparsmith
