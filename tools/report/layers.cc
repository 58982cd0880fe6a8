#include "tools/report/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runtime/operator_spec.h"
#include "tools/report/speedups.h"

namespace sparsmith::tools {
namespace {

// " (sddmm)" for weights with several operators; " (bias)" where operators of a kind differ in it.
std::string operator_note(const std::set<std::string>& operators, const std::string& name) {
  if (operators.size() == 1) return "";
  const Result<OperatorSpec> spec = OperatorSpec::parse(name);
  if (!spec.ok()) return fmt::format(" ({})", name);
  std::set<OperatorKind> kinds;
  std::set<std::string> epilogues;  // of this kind
  for (const std::string& each : operators) {
    const Result<OperatorSpec> other = OperatorSpec::parse(each);
    if (!other.ok()) continue;
    kinds.insert(other->kind);
    if (other->kind == spec->kind) epilogues.insert(other->epilogue.name());
  }
  if (epilogues.size() == 1) return fmt::format(" ({})", operator_kind_name(spec->kind));
  return kinds.size() == 1 ? fmt::format(" ({})", spec->epilogue.name())
                           : fmt::format(" ({}, {})", operator_kind_name(spec->kind), spec->epilogue.name());
}

Layers one_layer(const Layers& all, const ResultCase* one) {
  Layers layer{.name = all.name, .cases = {one}};
  layer.name.replace(0, starred(one->weight).size(), one->weight);  // and the note on the operator behind it
  layer.sums.add(*one);
  return layer;
}

std::string megabytes(double bytes) { return bytes > 0 ? fmt::format("{:.2f}", bytes / 1e6) : "-"; }

}  // namespace

std::string starred(const std::string& name, std::vector<std::string>* numbers) {
  std::string text;
  bool number = false;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9' && (number || text.empty() || text.back() == '.' || text.back() == '_');
    if (digit && !number) text += '*';
    if (digit && numbers != nullptr) {
      if (!number) numbers->emplace_back();
      numbers->back() += c;
    }
    if (!digit) text += c;
    number = digit;
  }
  return text;
}

std::string ratio_text(double dense_us, double us) {
  return dense_us > 0 && us > 0 ? fmt::format("{:.2f}x", dense_us / us) : "-";
}

void Sums::add(const ResultCase& one) {
  const bool known = choices == 0 || dense_us > 0;
  us += one.us;
  dense_us = known && one.cublas_us > 0 ? dense_us + one.cublas_us : 0;
  ++choices;
  dense += one.dense() ? 1 : 0;
}

std::map<std::int64_t, Sums> sums_by_tokens(const std::vector<ResultCase>& cases) {
  std::map<std::int64_t, Sums> sums;
  for (const ResultCase& one : cases) sums[one.tokens].add(one);
  return sums;
}

double Layers::sum(double ResultCase::* figure) const {
  double total = 0;
  for (const ResultCase* one : cases) total += one->*figure;
  return total;
}

std::string Layers::zeros() const {
  const auto [least, most] = std::ranges::minmax(cases, {}, [](const ResultCase* one) { return one->sparsity; });
  const std::string from = percent(least->sparsity, 0);
  const std::string to = percent(most->sparsity, 0);
  return from == to ? to : fmt::format("{:.0f}-{}", 100 * least->sparsity, to);
}

std::string Layers::kernels() const {
  std::map<std::string, int> families;
  for (const ResultCase* one : cases) ++families[one->family];
  if (families.size() == 1) return families.begin()->first;
  std::vector<std::pair<int, std::string>> sorted;
  for (const auto& [family, weights] : families) sorted.emplace_back(-weights, family);
  std::ranges::sort(sorted);
  std::string text;
  for (const auto& [weights, family] : sorted)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", -weights, family);
  return text;
}

std::vector<Layers> folded_layers(const std::vector<ResultCase>& cases) {
  std::map<std::string, std::set<std::string>> operators;  // by name
  for (const ResultCase& one : cases) operators[starred(one.weight)].insert(one.operator_name);
  std::vector<Layers> all;
  for (const ResultCase& one : cases) {
    std::string name = starred(one.weight);
    name += operator_note(operators[name], one.operator_name);
    const auto same = [&](const Layers& each) {
      const ResultCase& first = each.first();
      return each.name == name && first.operator_name == one.operator_name && first.rows == one.rows &&
             first.cols == one.cols && first.tokens == one.tokens;
    };
    auto layers = std::ranges::find_if(all, same);
    if (layers == all.end()) layers = all.insert(all.end(), {.name = name});
    layers->cases.push_back(&one);
    layers->sums.add(one);
  }
  for (Layers& each : all)
    if (each.cases.size() == 1) each = one_layer(each, each.cases.front());
  return all;
}

void add_folded(Table& table, const std::vector<Layers>& all, const LayerRow& row_of) {
  for (const Layers& layers : all) {
    table.rows.push_back(row_of(layers));
    std::vector<std::vector<std::string>>& folded = table.folded.emplace_back();
    if (layers.cases.size() == 1) continue;
    for (const ResultCase* one : layers.cases) folded.push_back(row_of(one_layer(layers, one)));
  }
}

Table layers_table(const std::vector<ResultCase>& cases) {
  const auto measured = std::ranges::count_if(cases, &ResultCase::measured);
  const bool mixed = measured > 0 && measured < static_cast<std::ptrdiff_t>(cases.size());
  Table table{.columns = {"weights", ">layers", "shape", ">zeros", ">N", "kernels", ">MB dense", ">MB", ">us dense",
                          ">us", ">speedup"}};
  if (mixed) table.columns.emplace_back("evidence");
  add_folded(table, folded_layers(cases), [&](const Layers& layers) {
    const ResultCase& first = layers.first();
    std::vector<std::string> row = {layers.name,
                                    std::to_string(layers.cases.size()),
                                    fmt::format("{}x{}", first.rows, first.cols),
                                    layers.zeros(),
                                    std::to_string(first.tokens),
                                    layers.kernels(),
                                    megabytes(layers.sum(&ResultCase::dense_bytes)),
                                    megabytes(layers.sum(&ResultCase::packed_bytes)),
                                    us_text(layers.sums.dense_us),
                                    fmt::format("{:.2f}", layers.sums.us),
                                    ratio_text(layers.sums.dense_us, layers.sums.us)};
    const auto of_these = std::ranges::count_if(layers.cases, [](const ResultCase* one) { return one->measured; });
    if (mixed)
      row.push_back(of_these == 0                                                  ? "predicted"
                    : of_these == static_cast<std::ptrdiff_t>(layers.cases.size()) ? "measured"
                                                                                   : "partly predicted");
    return row;
  });
  return table;
}

Table model_table(const std::vector<ResultCase>& cases) {
  Table table{.columns = {">N", ">us dense", ">us tuned", ">speedup", ">us a token", ">faster"}};
  for (const auto& [tokens, sum] : sums_by_tokens(cases)) {
    table.add(tokens, us_text(sum.dense_us), fmt::format("{:.2f}", sum.us), ratio_text(sum.dense_us, sum.us),
              fmt::format("{:.2f}", sum.us / static_cast<double>(tokens)),
              fmt::format("{} of {}", sum.choices - sum.dense, sum.choices));
  }
  return table;
}

}  // namespace sparsmith::tools
