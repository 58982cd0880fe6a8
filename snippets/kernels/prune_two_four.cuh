// Prunes a dense weight such that each aligned 4 x 4 tile keeps two elements in every row and in every column, and
// writes the packing two_four of the weight and that of its transpose. Of the 90 patterns that do so, a tile keeps the
// one of the greatest sum of magnitudes (two_four_tiles_layout.h).
//
// A block takes 64 x 64 elements, which are one strip of each packing. Each thread prunes two tiles, 32 rows apart:
// they share the bytes of metadata of the transpose; those of the weight are shared with the lane of the tile 32
// columns apart. Shared memory collects the two strips, which leave it as whole lines.
#pragma once

#include "formats/two_four_layout.h"
#include "formats/two_four_tiles_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// Source: the type of the dense weight. Stored: of the packings, half or bfloat16.
template <class Source, class Stored, int kThreads>
struct PruneTwoFourKernel {
  SPARSMITH_ROLE(kernel)
  static_assert(kThreads == 128, "a thread for every two tiles of a block");
  static_assert(sizeof(Stored) == 2, "sparse tensor cores multiply elements of 16 bits");

  static constexpr int kSharedBytes = 4 * two_four::kStripBytes + two_four::kPatternCodes * 16;

  // weight: [rows][cols], both multiples of 4; tiles, transposed: the arrays of the packings.
  static SPARSMITH_DEVICE void run(const Source* weight, u8* tiles, u8* transposed, int rows, int cols) {
    launch_dependents();
    u8* const shared = shared_memory();
    auto* const choices = reinterpret_cast<Choice*>(shared + 4 * two_four::kStripBytes);
    for (int code = thread_index(); code < two_four::kPatternCodes; code += kThreads) choices[code] = choice_of(code);
    wait_for_previous();
    block_barrier();
    const int down = (rows + 63) / 64;
    const int across = (cols + 63) / 64;
    const i64 count = static_cast<i64>(down) * across;
    int turn = 0;
    Tiles next = load(weight, rows, cols, block_index_x(), across, count);
    for (i64 at = block_index_x(); at < count; at += grid_size_x()) {
      const Tiles present = next;
      next = load(weight, rows, cols, at + grid_size_x(), across, count);  // while these are pruned
      u8* const strips = shared + turn * 2 * two_four::kStripBytes;        // of the weight and of its transpose
      turn = 1 - turn;
      prune(present, choices, strips);
      block_barrier();  // the next one is in front of the next use of these strips
      copy(strips, tiles + at * two_four::kStripBytes);
      const int block_row = static_cast<int>(at / across);
      const int block_column = static_cast<int>(at % across);
      copy(strips + two_four::kStripBytes,
           transposed + (static_cast<i64>(block_column) * down + block_row) * two_four::kStripBytes);
    }
  }

 private:
  // What a pattern keeps: for each row, then for each column, a selector of permute_bytes() for its two elements of
  // four; two selectors a word.
  using Choice = Vector<u32, 4>;
  using Piece = Vector<u32, 4>;

  using Line = Vector<u32, sizeof(Source)>;  // four elements
  struct Tiles {
    Line lines[2][4];  // of a tile, and of the one 32 rows below
    bool there[2];
  };
  struct Tile {
    u32 words[4][2];  // two elements each
    float magnitudes[4][4];
  };

  static SPARSMITH_DEVICE u32 selector(int first, int second) {
    return 0x1010U + 0x22U * static_cast<u32>(first) + (0x22U * static_cast<u32>(second) << 8);
  }

  static SPARSMITH_DEVICE Choice choice_of(int code) {
    Choice choice;
    const unsigned pattern = two_four::pattern_of(code);
    SPARSMITH_UNROLL for (int line = 0; line < 8; ++line) {
      int first = 4;
      int second = 0;
      SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) {
        const int bit = line < 4 ? 4 * line + i : 4 * i + line - 4;
        const bool kept = (pattern >> bit & 1U) != 0;
        first = kept && i < first ? i : first;
        second = kept ? i : second;
      }
      const u32 chosen = selector(first, second);
      choice[line / 2] = line % 2 == 0 ? chosen : choice[line / 2] | chosen << 16;
    }
    return choice;
  }

  // The tiles of this thread in a block of the weight; nothing beyond the last one.
  static SPARSMITH_DEVICE Tiles load(const Source* weight, int rows, int cols, i64 block, int across, i64 count) {
    Tiles tiles;
    const i64 column = block % across * 64 + thread_index() % 16 * 4;
    SPARSMITH_UNROLL for (int t = 0; t < 2; ++t) {
      const i64 row = block / across * 64 + thread_index() / 16 * 4 + 32 * t;
      tiles.there[t] = block < count && row < rows && column < cols;
      SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) {
        tiles.lines[t][i] = {};
        if (tiles.there[t])
          tiles.lines[t][i] = load_coherent(reinterpret_cast<const Line*>(weight + (row + i) * cols + column));
      }
    }
    return tiles;
  }

  static SPARSMITH_DEVICE void prune(const Tiles& tiles, const Choice* choices, u8* strips) {
    const int down = thread_index() / 16;  // of the 16 x 16 tiles: this one, and the one 8 below
    const int across = thread_index() % 16;
    const bool(&there)[2] = tiles.there;
    Tile tile[2];
    SPARSMITH_UNROLL for (int t = 0; t < 2; ++t) tile[t] = tile_of(tiles.lines[t], there[t]);
    u32 of_rows[2];  // the metadata of each line in a byte
    u32 of_columns[2];
    SPARSMITH_UNROLL for (int t = 0; t < 2; ++t) {
      Choice choice = choices[two_four::best_code(scaled(tile[t].magnitudes))];
      if (!there[t]) SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) choice[i] = selector(0, 1) * 0x10001U;
      of_rows[t] = metadata(choice[0], choice[1]);
      of_columns[t] = metadata(choice[2], choice[3]);
      const auto place = two_four::place_of_group(4 * down % 16, 4 * across);
      const auto turned = two_four::place_of_group(4 * across % 16, 4 * down + 32 * t);
      u8* const to = strips + (down / 4 + 2 * t) * two_four::kTileBytes + 2 * place.values;
      u8* const to_turned = strips + two_four::kStripBytes + across / 4 * two_four::kTileBytes + 2 * turned.values;
      SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) {
        const u32 shift = i % 2 == 0 ? 0 : 16;
        const u32(&words)[4][2] = tile[t].words;
        store(to + kNextValues * i, permute_bytes(words[i][0], words[i][1], choice[i / 2] >> shift));
        const u32 halves = i % 2 == 0 ? 0x5410U : 0x7632U;
        const u32 upper = permute_bytes(words[0][i / 2], words[1][i / 2], halves);
        const u32 lower = permute_bytes(words[2][i / 2], words[3][i / 2], halves);
        store(to_turned + kNextValues * i, permute_bytes(upper, lower, choice[2 + i / 2] >> shift));
      }
    }
    // Of the lane whose group stands in the same byte: the lower 32 columns have the lower bits.
    const bool left = across < 8;
    const u32 other = shuffle_xor_word(left ? of_rows[1] : of_rows[0], 8);
    const u32 bytes = left ? of_rows[0] | other << 4 : other | of_rows[1] << 4;
    store_metadata(bytes, two_four::place_of_group(4 * down % 16, 4 * across),
                   strips + (down / 4 + (left ? 0 : 2)) * two_four::kTileBytes);
    store_metadata(of_columns[0] | of_columns[1] << 4, two_four::place_of_group(4 * across % 16, 4 * down),
                   strips + two_four::kStripBytes + across / 4 * two_four::kTileBytes);
  }

  // From the values, and the word of metadata, of a row to those of the next of four.
  static constexpr int kNextValues = 64;
  static constexpr int kNextWord = 16;

  static SPARSMITH_DEVICE Tile tile_of(const Line (&lines)[4], bool there) {
    Tile tile;
    SPARSMITH_UNROLL for (int row = 0; row < 4; ++row) {
      const Line& line = lines[row];
      SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) tile.magnitudes[row][i] =
          float_from_bits(bits_of_float(element(line, i)) & 0x7FFFFFFFU);
      SPARSMITH_UNROLL for (int i = 0; i < 2; ++i) tile.words[row][i] =
          there ? without_negative_zeros(stored(line, i)) : two_four::kNothing * 0x10001U;
    }
    return tile;
  }

  // Of four elements of the weight: one as a number, and two as they are stored.
  static SPARSMITH_DEVICE float element(const Vector<u32, 2>& line, int i) {
    return to_float(Stored{static_cast<u16>(line[i / 2] >> (i % 2 == 0 ? 0 : 16))});
  }
  static SPARSMITH_DEVICE float element(const Vector<u32, 4>& line, int i) { return float_from_bits(line[i]); }
  static SPARSMITH_DEVICE u32 stored(const Vector<u32, 2>& line, int i) { return line[i]; }
  static SPARSMITH_DEVICE u32 stored(const Vector<u32, 4>& line, int i) {
    return from_float<Stored>(element(line, 2 * i)).bits |
           static_cast<u32>(from_float<Stored>(element(line, 2 * i + 1)).bits) << 16;
  }

  // In the packing -0 says that there is no value.
  static SPARSMITH_DEVICE u32 without_negative_zeros(u32 word) {
    return word & (((word & 0x7FFF7FFFU) + 0x7FFF7FFFU) | 0x7FFF7FFFU);
  }

  // Integers of the magnitudes, above the bits of codes: relative to the greatest of them, so that the sum of a pattern
  // is exact for elements of 16 bits that are not below 2^-8 of it.
  static SPARSMITH_DEVICE two_four::Magnitudes scaled(const float (&magnitudes)[4][4]) {
    int most = 0;  // as bits: those of magnitudes sort as these do
    SPARSMITH_UNROLL for (int i = 0; i < 16; ++i) most =
        two_four::larger(static_cast<int>(bits_of_float(magnitudes[i / 4][i % 4])), most);
    const float scale = float_from_bits(two_four::scale_bits(static_cast<u32>(most)));
    two_four::Magnitudes integers;
    SPARSMITH_UNROLL for (int i = 0; i < 16; ++i) integers.of[i / 4][i % 4] = static_cast<int>(
        bits_of_float(multiply_add(magnitudes[i / 4][i % 4], scale, two_four::kToInteger)) << two_four::kCodeBits);
    return integers;
  }

  // Of four lines, from their selectors.
  static SPARSMITH_DEVICE u32 metadata(u32 first, u32 second) {
    return permute_bytes(places_of(first), places_of(second), 0x6420U);
  }
  static SPARSMITH_DEVICE u32 places_of(u32 selectors) {
    return (selectors >> 1 & 0x00030003U) | (selectors >> 7 & 0x000C000CU);
  }

  static SPARSMITH_DEVICE void store(u8* to, u32 word) { *reinterpret_cast<u32*>(to) = word; }

  static SPARSMITH_DEVICE void store_metadata(u32 bytes, const two_four::GroupPlace& place, u8* tile) {
    u8* const to = tile + two_four::kValueBytes + 4 * place.word + place.bit / 8;
    SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) to[kNextWord * i] = static_cast<u8>(bytes >> (8 * i));
  }

  static SPARSMITH_DEVICE void copy(const u8* strip, u8* to) {
    const auto* const from = reinterpret_cast<const Piece*>(strip);
    for (int i = thread_index(); i < two_four::kStripBytes / 16; i += kThreads)
      store_whole(reinterpret_cast<Piece*>(to) + i, from[i]);
  }
};

}  // namespace sparsmith
