// For tests that show that a function does not allocate: linking host_allocations.cc replaces operator new by one that
// counts.
#pragma once

#include <cstdint>

// How often this process has allocated with operator new.
std::int64_t host_allocations();
