// Entries of a tile that are loaded and not stored: the tile stays zero, and so there is nothing to clear.
#pragma once

#include "snippets/ablation/kept_words.cuh"
#include "snippets/contract.cuh"
#include "snippets/prolog/scatter_entries.cuh"

namespace sparsmith {

template <class Entries>
struct UnstoredEntries : Entries {
  SPARSMITH_ROLE(prolog)

  // Those words too that are not held are loaded. `base`: of a tile of this warp.
  SPARSMITH_DEVICE void put(const scatter::Weight& weight, i64 tile, u32 base) const {
    KeptWords kept;
    keep(weight, tile, kept);
    kept.end(base);
  }
  SPARSMITH_DEVICE void clear(const scatter::Weight& /*weight*/, u32 /*base*/) const {}

  SPARSMITH_DEVICE void keep(const scatter::Weight& weight, i64 tile, KeptWords& kept) const {
    constexpr int kHeld = Entries::Words::kHeld;
    SPARSMITH_UNROLL for (int i = 0; i < kHeld; ++i) kept.keep(this->list.words[i]);
    SPARSMITH_ROLLED for (int i = kHeld; i < this->list.count; ++i) { kept.keep(this->list.word_at(weight, tile, i)); }
  }
};

}  // namespace sparsmith
