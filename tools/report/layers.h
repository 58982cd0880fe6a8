// Layers of a model, folded: weights of one shape whose names differ in numbers alone. Terminals and pages show them by
// the same tables.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tools/report/results.h"
#include "tools/report/table.h"

namespace sparsmith::tools {

// "layers.*.mlp.weight" of "layers.12.mlp.weight". `numbers`: the replaced numbers, in order.
std::string starred(const std::string& name, std::vector<std::string>* numbers = nullptr);

// "1.31x"; "-" when a time is not known.
std::string ratio_text(double dense_us, double us);

// The time of one call of each of several weights.
struct Sums {
  double us = 0;
  double dense_us = 0;  // 0: not known of all of them
  std::int64_t choices = 0;
  std::int64_t dense = 0;  // of them

  void add(const ResultCase& one);
};

std::map<std::int64_t, Sums> sums_by_tokens(const std::vector<ResultCase>& cases);

// Cases of one operator and N, of weights that are folded. Pointers into the folded cases.
struct Layers {
  std::string name;  // of several weights: with * for the numbers
  std::vector<const ResultCase*> cases{};
  Sums sums{};

  const ResultCase& first() const { return *cases.front(); }
  // The sum of a figure over the cases.
  double sum(double ResultCase::* figure) const;
  std::string zeros() const;    // "90 %", "85-95 %"
  std::string kernels() const;  // "slots"; of several families "30 slots, 2 dense"
};

// In the order of their first cases.
std::vector<Layers> folded_layers(const std::vector<ResultCase>& cases);

// Adds a row for each of `all`, and for those of several weights the rows that it folds, all with the cells of
// `row_of`.
using LayerRow = std::function<std::vector<std::string>(const Layers&)>;
void add_folded(Table& table, const std::vector<Layers>& all, const LayerRow& row_of);

// Bytes and times of the layers at each N.
Table layers_table(const std::vector<ResultCase>& cases);

// The time of the whole model at each N.
Table model_table(const std::vector<ResultCase>& cases);

}  // namespace sparsmith::tools
