// Figures of one tuning run: its choices, its candidates, and how near to the memory's limit they come.
#pragma once

#include "tools/report/page.h"
#include "tools/report/results.h"

namespace sparsmith::tools {

Section tuning_section(const TuningResults& results);

}  // namespace sparsmith::tools
