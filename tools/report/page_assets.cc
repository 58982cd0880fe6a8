#include "tools/report/page_assets.h"

#include <cstddef>

namespace sparsmith::tools {
namespace {

// Made by the build from the files they are named after.
constexpr unsigned char kPageStyle[] = {
#include "page.css.inc"
};
constexpr unsigned char kPageErrorsScript[] = {
#include "page_errors.js.inc"
};
constexpr unsigned char kChartLibrary[] = {
#include "d3.min.js.inc"
#include "d3_license.js.inc"
};
constexpr unsigned char kScalesScript[] = {
#include "scales.js.inc"
};
constexpr unsigned char kMarksScript[] = {
#include "marks.js.inc"
};
constexpr unsigned char kChartScript[] = {
#include "chart.js.inc"
};
constexpr unsigned char kPageScript[] = {
#include "page.js.inc"
};

template <std::size_t kSize>
std::string_view text_of(const unsigned char (&bytes)[kSize]) {
  return {reinterpret_cast<const char*>(bytes), kSize};
}

}  // namespace

std::string_view page_style() { return text_of(kPageStyle); }
std::string_view page_errors_script() { return text_of(kPageErrorsScript); }
std::string_view chart_library() { return text_of(kChartLibrary); }
std::string_view scales_script() { return text_of(kScalesScript); }
std::string_view marks_script() { return text_of(kMarksScript); }
std::string_view chart_script() { return text_of(kChartScript); }
std::string_view page_script() { return text_of(kPageScript); }

}  // namespace sparsmith::tools
