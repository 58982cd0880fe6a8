// Ctrl-C as a wish: work in progress is finished and recorded. A second one ends the program at once.
#pragma once

namespace sparsmith::tools {

void catch_interrupts();
bool interrupted();

}  // namespace sparsmith::tools
