// Where a window of a row lies. Freestanding.
#pragma once

namespace sparsmith::window {

constexpr int kAlignment = 16;  // bytes

}  // namespace sparsmith::window
