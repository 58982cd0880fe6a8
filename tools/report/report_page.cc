#include "tools/report/report_page.h"

#include "tools/report/analysis_figures.h"

namespace sparsmith::tools {

Page report_page(const std::string& title, const ReportInputs& inputs) {
  Page page{.title = title};
  for (const LayerAnalysis& analysis : inputs.analyses) page.sections.push_back(analysis_section(analysis));
  return page;
}

}  // namespace sparsmith::tools
