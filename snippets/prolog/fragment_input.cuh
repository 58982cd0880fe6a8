// Loads X from global memory straight into the B fragments of mma.m16n8k16: lane 4 g + t loads 8 neighbouring columns
// of token g with one 16-byte load. They are its share of two multiplications.
//
// W's columns are permuted to match: of 32 columns, 8 t + 4 q + 2 i + e is row 8 i + 2 t + e of B in multiplication q.
// Or W's columns are natural, 16 q + 8 i + 2 t + e of 32 the same row of B: then the lanes of a token exchange words.
// Feature-major X, unaligned X, and X that ends inside a window of columns are loaded element by element.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Value_, bool kTokenMajor_, bool kNatural_ = false>
struct FragmentInput {
  SPARSMITH_ROLE(prolog)
  static_assert(sizeof(Value_) == 2, "tensor cores take 16-bit values");

  using Value = Value_;
  static constexpr bool kTokenMajor = kTokenMajor_;
  static constexpr bool kNatural = kNatural_;  // columns of W
  // Words 2 q and 2 q + 1 are the fragment of multiplication q.
  using Fragment = Vector<u32, 4>;

  const Value* x;
  i64 ldx;
  int cols;
  int n;
  bool aligned;  // and every token begins within 2^32 bytes of x

  SPARSMITH_DEVICE FragmentInput(const Value* x_, i64 ldx_, int cols_, int n_)
      : x(x_),
        ldx(ldx_),
        cols(cols_),
        n(n_),
        aligned(kTokenMajor && (reinterpret_cast<u64>(x_) | static_cast<u64>(ldx_) * sizeof(Value)) % 16 == 0 &&
                n_ * ldx_ < (i64{1} << 31)) {}

  // A lane's part of kTokens tokens by kColumns columns; the window moves along the columns.
  template <int kTokens, int kColumns>
  struct Window {
    Fragment fragments[kTokens / 8][kColumns / 32];

    SPARSMITH_DEVICE Window(const FragmentInput& input_, int first_token_, int column_)
        : input(input_), first_token(first_token_), column(column_) {
      at = reinterpret_cast<const u8*>(input.x + column + thread_index() % 4 * 8);
      SPARSMITH_UNROLL for (int i = 0; i < kTokens / 8; ++i) {
        // The last token takes the place of tokens behind it; their sums go nowhere.
        const int token = first_token + i * 8 + thread_index() % 32 / 4;
        rows[i] = static_cast<u32>((token < input.n ? token : input.n - 1) * input.ldx * 2);
      }
    }

    // Loads the fragments at the next columns.
    SPARSMITH_DEVICE void load() {
      if (input.aligned && column + kColumns <= input.cols) {
        SPARSMITH_UNROLL for (int i = 0; i < kTokens / 8; ++i) {
          const auto* from = reinterpret_cast<const Fragment*>(at + rows[i]);
          SPARSMITH_UNROLL for (int u = 0; u < kColumns / 32; ++u) fragments[i][u] = load_coherent(from + u * 4);
        }
      } else {
        SPARSMITH_UNROLL for (int i = 0; i < kTokens / 8; ++i) {
          SPARSMITH_UNROLL for (int u = 0; u < kColumns / 32; ++u) {
            fragments[i][u] = input.load(first_token + i * 8, column + u * 32);
          }
        }
      }
      skip();
    }
    SPARSMITH_DEVICE void skip() {
      at += kColumns * sizeof(Value);
      column += kColumns;
    }
    // Brings loaded fragments into the order of W's columns. Every lane calls it, once for each load().
    SPARSMITH_DEVICE void turn() {
      if constexpr (kNatural) {
        SPARSMITH_UNROLL for (int i = 0; i < kTokens / 8; ++i) {
          SPARSMITH_UNROLL for (int u = 0; u < kColumns / 32; ++u) turn(fragments[i][u]);
        }
      }
    }

   private:
    // Word w of lane t of a token's four becomes word t of lane w.
    static SPARSMITH_DEVICE void turn(Fragment& words) {
      SPARSMITH_UNROLL for (int bit = 1; bit <= 2; bit *= 2) {
        const bool set = (thread_index() & bit) != 0;
        SPARSMITH_UNROLL for (int w = 0; w < 4; ++w) {
          if ((w & bit) != 0) continue;
          const u32 got = shuffle_xor_word(set ? words[w] : words[w + bit], bit);
          words[w] = set ? got : words[w];
          words[w + bit] = set ? words[w + bit] : got;
        }
      }
    }

    const FragmentInput& input;
    int first_token;
    int column;             // the next one
    const u8* at;           // this lane's next columns of token 0
    u32 rows[kTokens / 8];  // from there to its tokens, in bytes
  };

  // This lane's part of columns [first_column, first_column + 32) of tokens [first_token, first_token + 8). It is 0
  // outside X.
  SPARSMITH_DEVICE Fragment load(int first_token, int first_column) const {
    const int token = first_token + thread_index() % 32 / 4;
    const int column = first_column + thread_index() % 4 * 8;
    Fragment fragment = {};
    if (token < n) {
      if constexpr (kTokenMajor) {
        // Rare: in a loop, so that it costs no registers that the warp needs elsewhere.
        SPARSMITH_ROLLED for (int e = 0; e < 8; ++e) {
          const u32 next = column + e < cols ? at(token, column + e).bits : 0;
          SPARSMITH_UNROLL for (int w = 0; w < 4; ++w) {
            fragment[w] = fragment[w] >> 16 | (w < 3 ? fragment[w + 1] : next) << 16;
          }
        }
      } else {
        SPARSMITH_UNROLL for (int e = 0; e < 8; ++e) {
          if (column + e < cols) fragment[e / 2] |= static_cast<u32>(at(token, column + e).bits) << (16 * (e % 2));
        }
      }
    }
    return fragment;
  }

  // The same, as one vector if X allows it, otherwise by elements whose loads do not wait for one another. Elements
  // outside X are replaced by elements at the end of X.
  SPARSMITH_DEVICE Fragment fetch(int first_token, int first_column) const {
    const int lane_token = first_token + lane_index() / 4;
    const int token = lane_token < n ? lane_token : n - 1;
    const int column = first_column + lane_index() % 4 * 8;
    if (aligned && first_column + 32 <= cols) {
      return load_coherent(reinterpret_cast<const Fragment*>(x + token * ldx + column));
    }
    u32 elements[8];
    SPARSMITH_UNROLL for (int e = 0; e < 8; ++e) {
      elements[e] = at(token, column + e < cols ? column + e : cols - 1).bits;
    }
    Fragment fragment;
    SPARSMITH_UNROLL for (int w = 0; w < 4; ++w) fragment[w] = elements[2 * w] | elements[2 * w + 1] << 16;
    return fragment;
  }

  // Stores kColumns columns of kTokens tokens to shared memory as boxes would (device/tensor_copies.cuh), where X is
  // not aligned for them. Every lane of a warp calls it.
  template <int kTokens, int kColumns>
  SPARSMITH_DEVICE void put_boxes(u8* to, int first_token, int first_column) const {
    // Eight tokens by 32 columns at a time: a lane's fragment is a chunk.
    constexpr int kChunks = kColumns / 8;  // of a line
    SPARSMITH_ROLLED for (int i = 0; i < kTokens / 8; ++i) {
      const int token = i * 8 + lane_index() / 4;
      SPARSMITH_ROLLED for (int u = 0; u < kColumns / 32; ++u) {
        const int chunk = (u * 4 + lane_index() % 4) ^ (token * kChunks / 8 % kChunks);
        *reinterpret_cast<Fragment*>(to + (token * kChunks + chunk) * 16) =
            load(first_token + i * 8, first_column + u * 32);
      }
    }
  }

  // Fills a stage of X, as put_boxes() has it, and arrives at `full`: one lane, by a box (`map`: of the same X); or a
  // warp, by elements, where X is not aligned for boxes.
  template <int kTokens, int kColumns, bool kBox>
  SPARSMITH_DEVICE void bring(u8* to, const TensorMap& map, int first_token, int first_column,
                              ArrivalBarrier* full) const {
    if constexpr (kBox) {
      arrive_expecting(full, kTokens * kColumns * static_cast<int>(sizeof(Value)));
      box_copy(to, map, first_column, first_token, full, 1U << cluster_rank());
    } else {
      put_boxes<kTokens, kColumns>(to, first_token, first_column);
      tensor_reads_follow();
      warp_barrier();
      if (lane_index() == 0) arrive(full);
      warp_barrier();  // it does not stand for what other lanes write from here on
    }
  }

  // One element; it is 0 outside X.
  SPARSMITH_DEVICE float element(int token, int column) const {
    return token < n && column < cols ? to_float(at(token, column)) : 0.0F;
  }

 private:
  SPARSMITH_DEVICE Value at(int token, int column) const {
    return load_coherent(kTokenMajor ? x + token * ldx + column : x + column * ldx + token);
  }
};

}  // namespace sparsmith
