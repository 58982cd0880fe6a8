#include "generator/ablation.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace sparsmith {

std::string_view ablation_name(Ablation ablation) {
  switch (ablation) {
    case Ablation::kNoDecode: return "no decode";
    case Ablation::kNoMultiply: return "no multiply";
    case Ablation::kCopyOnly: return "copy only";
  }
  return "?";
}

std::string_view ablation_key(Ablation ablation) {
  switch (ablation) {
    case Ablation::kNoDecode: return "no_decode";
    case Ablation::kNoMultiply: return "no_multiply";
    case Ablation::kCopyOnly: return "copy_only";
  }
  return "?";
}

AblatedText::AblatedText(Ablation ablation, KernelText& text) : text_(text) {
  text_.name += fmt::format("_{}", ablation_key(ablation));
  text_.summary += fmt::format(" (ablation: {}; outputs are wrong)", ablation_name(ablation));
}

std::string* AblatedText::declaration_of(std::string_view line) {
  const std::string begin = fmt::format("using {} = ", line);
  const auto found = std::ranges::find_if(
      text_.lines, [&](const KernelText::Line& each) { return each.declaration.starts_with(begin); });
  if (found != text_.lines.end()) return &found->declaration;
  if (status_.ok()) status_ = internal_error(fmt::format("{}: there is no line \"using {}\"", text_.name, line));
  return nullptr;
}

void AblatedText::wrap(std::string_view line, std::string_view type, const char* header) {
  std::string* const declaration = declaration_of(line);
  if (declaration == nullptr) return;
  const std::size_t at = declaration->find('=') + 2;
  *declaration = fmt::format("{}{}<{}>", declaration->substr(0, at), type, declaration->substr(at));
  text_.headers.emplace_back(header);
}

void AblatedText::replace(std::string_view line, std::string_view what, std::string_view by, const char* header) {
  std::string* const declaration = declaration_of(line);
  if (declaration == nullptr) return;
  const std::size_t at = declaration->find(what, declaration->find('='));
  if (at == std::string::npos) {
    status_ = internal_error(fmt::format("{}: there is no {} in \"{}\"", text_.name, what, *declaration));
    return;
  }
  declaration->replace(at, what.size(), by);
  text_.headers.emplace_back(header);
}

void keep_kernel(LaunchPlan& plan, const std::string& kernel) {
  std::erase_if(plan.steps, [&](const PlanStep& step) { return step.kernel != kernel; });
}

}  // namespace sparsmith
