#include "tools/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace sparsmith::tools {
namespace {

TEST(InterruptTest, TheFirstOneIsAWishAndTheSecondEndsTheProgram) {
  const auto interrupt_twice = [](int signal) {
    catch_interrupts();
    if (interrupted() || interrupted_at()) std::exit(1);
    struct sigaction action{};
    sigaction(signal, nullptr, &action);
    if ((action.sa_flags & SA_RESTART) == 0) std::exit(2);  // reads and writes go on
    std::raise(signal);
    if (!interrupted() || !interrupted_at()) std::exit(3);
    std::raise(signal);
    std::exit(4);
  };
  for (const int signal : {SIGINT, SIGTERM}) EXPECT_EXIT(interrupt_twice(signal), testing::KilledBySignal(signal), "");
}

}  // namespace
}  // namespace sparsmith::tools
