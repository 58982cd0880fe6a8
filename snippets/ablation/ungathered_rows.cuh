// Rows of X that are not gathered: every entry's is the first one, which is in L1.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/prolog/gathered_rows.cuh"

namespace sparsmith {

template <class Input>
struct UngatheredRows : Input {
  SPARSMITH_ROLE(prolog)

  using Entry = typename Input::Entry;

  SPARSMITH_DEVICE void load(const panel::Step& step, typename Input::Rows& rows) const {
    SPARSMITH_UNROLL for (int e = 0; e < Entry::kCount; ++e) {
      const auto* from = reinterpret_cast<const typename Input::Words*>(this->first);
      rows.of[e].words = load_coherent_if(Entry::column(step, e) < this->columns, from);
    }
  }
};

}  // namespace sparsmith
