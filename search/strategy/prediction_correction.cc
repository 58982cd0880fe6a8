#include "search/strategy/prediction_correction.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

namespace sparsmith {
namespace {

// Standard deviations of ln(measured / predicted), about as they were on devices to which no cost model was fitted.
constexpr double kFamilyError = 0.3;
constexpr double kParametersError = 0.5;  // of all parameters of a config together
constexpr double kRest = 0.1;
constexpr std::size_t kNoFamily = static_cast<std::size_t>(-1);

// Effects by parameter and value: numbers from 1 on, for those parameters that have several values.
using Effects = std::map<std::string_view, std::map<std::int64_t, std::size_t>>;

Effects effects_of(const std::vector<SpacePoint>& points, const std::vector<std::size_t>& members) {
  Effects effects;
  for (const std::size_t point : members)
    for (const auto& [name, value] : points[point].config.values) effects[name].emplace(value, 0);
  std::erase_if(effects, [](const auto& parameter) { return parameter.second.size() < 2; });
  std::size_t number = 0;
  for (auto& [name, values] : effects)
    for (auto& [value, effect] : values) effect = ++number;
  return effects;
}

}  // namespace

PredictionCorrection::PredictionCorrection(const std::vector<SpacePoint>& points) : points_(points.size()) {
  std::map<std::string, std::vector<std::size_t>> members;
  for (std::size_t i = 0; i < points.size(); ++i) {
    points_[i].family = kNoFamily;
    if (points[i].baseline || points[i].predicted_us <= 0) continue;
    points_[i].log_predicted = std::log(points[i].predicted_us);
    members[points[i].config.family].push_back(i);
  }
  for (auto& [name, of_family] : members) add_family(points, std::move(of_family));
}

void PredictionCorrection::add_family(const std::vector<SpacePoint>& points, std::vector<std::size_t> members) {
  const Effects effects = effects_of(points, members);
  Family family;
  family.effects = 1;
  for (const auto& [name, values] : effects) family.effects += values.size();
  family.covariance.resize(family.effects * family.effects);
  family.covariance[0] = kFamilyError * kFamilyError;
  const double of_value =
      effects.empty() ? 0 : kParametersError * kParametersError / static_cast<double>(effects.size());
  for (std::size_t i = 1; i < family.effects; ++i) family.covariance[i * family.effects + i] = of_value;
  for (const std::size_t index : members) {
    Point& point = points_[index];
    point.family = families_.size();
    point.effects.push_back(0);
    for (const auto& [name, value] : points[index].config.values) {
      const auto parameter = effects.find(name);
      if (parameter != effects.end()) point.effects.push_back(parameter->second.at(value));
    }
    point.variance = family.covariance[0] + of_value * static_cast<double>(point.effects.size() - 1);
  }
  family.points = std::move(members);
  families_.push_back(std::move(family));
}

void PredictionCorrection::measured(std::size_t point, double us) { learn(point, std::log(us)); }

void PredictionCorrection::suppose(std::size_t point) {
  learn(point, points_[point].log_predicted + points_[point].guess);
}

// One step of recursive least squares: effects move as far as they vary together with what the point takes.
void PredictionCorrection::learn(std::size_t point, double log_us) {
  const Point at = points_[point];
  if (at.family == kNoFamily) return;
  Family& family = families_[at.family];
  std::vector<double> together(family.effects);  // covariance of each effect with the point
  for (std::size_t i = 0; i < family.effects; ++i)
    for (const std::size_t effect : at.effects) together[i] += family.covariance[i * family.effects + effect];
  const double variance = at.variance + kRest * kRest;
  const double surprise = log_us - at.log_predicted - at.guess;
  for (const std::size_t index : family.points) {
    Point& other = points_[index];
    double shared = 0;
    for (const std::size_t effect : other.effects) shared += together[effect];
    other.guess += shared / variance * surprise;
    other.variance = std::max(0.0, other.variance - shared / variance * shared);
  }
  for (std::size_t i = 0; i < family.effects; ++i)
    for (std::size_t j = 0; j < family.effects; ++j)
      family.covariance[i * family.effects + j] -= together[i] * together[j] / variance;
}

double PredictionCorrection::likely_us(std::size_t point) const {
  const Point& at = points_[point];
  return at.family == kNoFamily ? std::numeric_limits<double>::infinity() : std::exp(at.log_predicted + at.guess);
}

double PredictionCorrection::hoped_us(std::size_t point) const {
  return likely_us(point) * std::exp(-std::sqrt(points_[point].variance));
}

}  // namespace sparsmith
