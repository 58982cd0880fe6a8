#include "formats/scatter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "formats/scatter_layout.h"
#include "formats/scatter_rounds.h"
#include "tests/support/packing_checks.h"

namespace sparsmith::test {
namespace {

// Rows of up to 60 % nonzeros, and none, a few or many full ones.
CsrMatrix draw_weight(Random& random, std::int64_t rows, std::int64_t cols) {
  const std::uint64_t full = random() % 3;  // of 5 rows
  return draw_matrix(random, rows, cols, [&random, full](std::int64_t) {
    return random() % 5 < full ? 1.0 : static_cast<double>(random() % 60) / 100;
  });
}

ScatterPacking draw_packing(Random& random) {
  return {random() % 2 == 0 ? ScatterEntry::kByte : ScatterEntry::kWord, 16 << random() % 3,
          static_cast<int>(random() % 3 == 0 ? random() % 17 * 4 : 0),
          random() % 2 == 0 ? ScatterColumns::kFragments : ScatterColumns::kNatural};
}

TEST(ScatterTest, UnpackingGivesTheMatrixBack) {
  DrawnRandom random;
  for (int round = 0; round < 150; ++round) {
    const CsrMatrix matrix =
        draw_weight(random, static_cast<std::int64_t>(random() % 90), static_cast<std::int64_t>(1 + random() % 300));
    const ScatterPacking packing = draw_packing(random);
    const auto packed = pack_scatter(matrix, packing, DataType::kFloat16);
    ASSERT_TRUE(packed.ok()) << packed.status().to_string();
    EXPECT_EQ(packed->packing, packing.name());
    expect_unpacks_to(matrix, *packed);
    EXPECT_EQ(packed->facts.at("rounds") * 32 - packed->facts.at("padding"), matrix.nnz());
    EXPECT_GE(packed->facts.at("rounds_p5"), packing.min_rounds * (matrix.rows > 0 ? 1 : 0));
  }
}

TEST(ScatterTest, PackingTwiceGivesTheSameBytes) {
  Random random(3);
  const CsrMatrix matrix = draw_weight(random, 300, 700);
  for (int round = 0; round < 6; ++round) {
    const ScatterPacking packing = draw_packing(random);
    const auto first = pack_scatter(matrix, packing, DataType::kBFloat16);
    const auto second = pack_scatter(matrix, packing, DataType::kBFloat16);
    ASSERT_TRUE(first.ok() && second.ok());
    expect_same_bytes(*first, *second);
  }
}

struct DealtEntry {
  std::uint32_t offset = 0;
  std::uint32_t value = 0;
};

// What a lane stores in a round, as kernels read it.
DealtEntry entry_of(ScatterEntry form, std::span<const std::uint32_t> written, std::int64_t round, std::uint32_t lane) {
  if (form == ScatterEntry::kWord) {
    const std::uint32_t word = written[static_cast<std::size_t>(round * 32 + lane)];
    return {word >> 16, word & 0xFFFFU};
  }
  const std::uint32_t* group = written.data() + round / 4 * 96 + lane;
  const std::uint32_t position = group[0] >> (8 * (round % 4)) & 0xFFU;
  return {(position >> 2) * 128 + (position >> 1 & 1U) * 4 + (position & 1U) * 2 + lane * 4,
          group[32 + round % 4 / 2 * 32] >> (16 * (round % 2)) & 0xFFFFU};
}

// Turns that the stores of a round take: the most words that one bank is asked for.
std::size_t turns_of(ScatterEntry form, std::span<const std::uint32_t> written, std::int64_t round) {
  std::map<std::uint32_t, std::set<std::uint32_t>> words;
  std::size_t most = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t word = entry_of(form, written, round, lane).offset / 4;
    words[word % 32].insert(word);
    most = std::max(most, words[word % 32].size());
  }
  return most;
}

// What kernels rely on: in a tile, no element is stored by two lanes, and a lane of the byte form reaches its position.
TEST(ScatterTest, NoElementIsStoredByTwoLanes) {
  DrawnRandom random;
  for (int round = 0; round < 400; ++round) {
    std::vector<scatter::Entry> entries;
    const std::uint64_t density = random() % 101;
    const std::uint64_t crowded = random() % 33;  // a bank with far more than its share; 32: none
    for (std::uint32_t at = 0; at < scatter::kTileElements; ++at)
      if (random() % 100 < density || (at / 2 % 32 == crowded && random() % 8 != 0))
        entries.push_back(at * 2 << 16 | (1 + random() % 0x7000));
    const ScatterEntry form = random() % 2 == 0 ? ScatterEntry::kByte : ScatterEntry::kWord;
    scatter::RoundDealer dealer(form, static_cast<int>(random() % 5 * 4));
    const std::span<const std::uint32_t> written = dealer.deal(entries);
    EXPECT_EQ(scatter_rounds(form, std::ssize(written) / 32), dealer.rounds());
    std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> elements;  // offset -> lane, value
    for (std::int64_t r = 0; r < dealer.rounds(); ++r) {
      for (std::uint32_t lane = 0; lane < 32; ++lane) {
        const auto [offset, value] = entry_of(form, written, r, lane);
        ASSERT_LT(offset, static_cast<std::uint32_t>(scatter::kTileBytes));
        const auto [place, added] = elements.try_emplace(offset, lane, value);
        ASSERT_EQ(place->second, std::make_pair(lane, value)) << "byte " << offset;
      }
    }
    for (const scatter::Entry entry : entries) {
      ASSERT_TRUE(elements.contains(entry >> 16));
      EXPECT_EQ(elements[entry >> 16].second, entry & 0xFFFFU);
      elements.erase(entry >> 16);
    }
    for (const auto& [offset, lane_and_value] : elements) EXPECT_EQ(lane_and_value.second, 0U);
  }
}

// Bytes and turns at the bank of a tile of uniform sparsity: what the form is for.
TEST(ScatterTest, LanesAndBanksAreEven) {
  Random random(5);
  struct Most {
    std::uint64_t density;
    double byte_turns;
    double word_turns;
  };
  for (const Most& most : {Most{10, 1.47, 1.94}, Most{20, 1.31, 1.475}, Most{30, 1.06, 1.095}}) {
    for (const ScatterEntry form : {ScatterEntry::kByte, ScatterEntry::kWord}) {
      double bytes = 0;
      double count = 0;
      double rounds = 0;
      double turns = 0;
      for (int tile = 0; tile < 200; ++tile) {
        std::vector<scatter::Entry> entries;
        for (std::uint32_t at = 0; at < scatter::kTileElements; ++at)
          if (random() % 100 < most.density) entries.push_back(at * 2 << 16 | 1);
        scatter::RoundDealer dealer(form, 0);
        const std::span<const std::uint32_t> written = dealer.deal(entries);
        bytes += static_cast<double>(written.size_bytes());
        count += static_cast<double>(entries.size());
        rounds += static_cast<double>(dealer.rounds());
        for (std::int64_t round = 0; round < dealer.rounds(); ++round)
          turns += static_cast<double>(turns_of(form, written, round));
      }
      EXPECT_LT(turns / rounds, form == ScatterEntry::kByte ? most.byte_turns : most.word_turns) << most.density;
      EXPECT_LT(bytes / count, form == ScatterEntry::kByte ? 3.6 : 4.2) << most.density;
    }
  }
}

// Rows of uneven length: what makes blocks wait for the fullest one.
TEST(ScatterTest, RowBlocksGetEquallyManyNonzeros) {
  std::mt19937_64 random(6);
  std::lognormal_distribution<double> density(std::log(0.1), 0.7);
  CsrMatrix matrix;
  matrix.rows = 2048;
  matrix.cols = 256;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const double of_row = density(random);
    for (std::int64_t column = 0; column < matrix.cols; ++column) {
      if (std::uniform_real_distribution<double>(0, 1)(random) >= of_row) continue;
      matrix.column_indices.push_back(static_cast<std::uint32_t>(column));
      matrix.values.push_back(1.0F);
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  const auto packed = pack_scatter(matrix, {.tile_rows = 64}, DataType::kFloat16);
  ASSERT_TRUE(packed.ok());
  const auto first_rows = packed->array("row_parts")->as<std::uint32_t>();
  const auto most_of_a_block = [&](bool dealt) {
    std::int64_t most = 0;
    for (std::size_t block = 0; block < first_rows.size() / 4; ++block) {
      std::int64_t nonzeros = 0;
      for (std::size_t part = block * 4; part < block * 4 + 4; ++part) {
        const std::size_t row = dealt ? first_rows[part] : part * 16;
        nonzeros += matrix.row_offsets[row + 16] - matrix.row_offsets[row];
      }
      most = std::max(most, nonzeros);
    }
    return static_cast<double>(most) / (static_cast<double>(matrix.nnz()) / 32);
  };
  EXPECT_GT(most_of_a_block(false), 1.15);
  EXPECT_LT(most_of_a_block(true), 1.05);
}

TEST(ScatterTest, RefusesWhatItCannotHold) {
  CsrMatrix matrix;
  matrix.cols = 5;
  EXPECT_TRUE(pack_scatter(matrix, {}, DataType::kFloat16).ok());
  EXPECT_FALSE(pack_scatter(matrix, {}, DataType::kFloat32).ok());
  EXPECT_FALSE(pack_scatter(matrix, {.tile_rows = 48}, DataType::kFloat16).ok());
  EXPECT_FALSE(pack_scatter(matrix, {.min_rounds = 6}, DataType::kFloat16).ok());
  EXPECT_FALSE(pack_scatter(matrix, {.min_rounds = 68}, DataType::kFloat16).ok());
}

TEST(ScatterTest, DamageIsRefusedOrHarmless) {
  DrawnRandom random;
  expect_damage_is_refused_or_harmless(random, 1000, [&] {
    return pack_scatter(draw_weight(random, 20, 90), draw_packing(random), DataType::kFloat16);
  });
}

}  // namespace
}  // namespace sparsmith::test
