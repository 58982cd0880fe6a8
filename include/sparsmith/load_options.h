// How a tuned file is loaded. Plain values.
#pragma once

namespace sparsmith {

struct LoadOptions {
  // A file from nobody but yourself. Structure, hashes, plans and sizes are checked in any case; of a file that is not
  // trusted, also every packed array, so that no kernel is led outside of it and the weight is the one that was tuned.
  bool trusted = false;
  int threads = 0;  // that check packed arrays; 0: as many as the machine has cores
};

}  // namespace sparsmith
