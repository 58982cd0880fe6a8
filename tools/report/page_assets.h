// The texts that every report page carries: D3, and the page's own style and scripts from this folder.
#pragma once

#include <string_view>

namespace sparsmith::tools {

std::string_view page_style();          // page.css
std::string_view page_errors_script();  // page_errors.js
std::string_view chart_library();       // d3_license.js and d3.min.js
std::string_view scales_script();       // scales.js
std::string_view marks_script();        // marks.js
std::string_view chart_script();        // chart.js
std::string_view page_script();         // page.js

}  // namespace sparsmith::tools
