// The bsr_strips format, for the packer and the kernels. Freestanding: includes nothing.
//
// A weight pruned in blocks, cut into panels of 16 R rows. Chunks are 8 neighbouring columns; those of a panel that
// hold a nonzero are listed in pairs, a step: the A operand of mma.m16n8k16 for each of the panel's R tiles. Both
// chunks of a step are from the same strip of 128 columns. A step that lacks the second one names the first one again,
// and holds nothing there. An element that the weight does not hold is kNothing, -0; a -0 of the weight is stored as 0.
//
//   values      fp16 or bf16 [steps][R][32][8]: of each lane the operand as the PTX ISA has it. Value a of lane 4 g + t
//               is row g + 8 (a / 2 % 2) of the tile, column 2 t + a % 2 of chunk a / 4 of the step
//   steps       uint32[steps]: bits 0 to 3 and 4 to 7: chunks of the strip; from bit 8 on: the strip. The steps of a
//               panel ascend by strips
//   part_steps  uint32[4 panels + 1]: where the steps of each quarter of a place begin. A quarter has ceil(strips / 4)
//               strips, or what is left of them
//   panels      uint32[panels]: the panel of each place; those with the most steps come first
#pragma once

namespace sparsmith::bsr_strips {

constexpr int kTileRows = 16;
constexpr int kChunkColumns = 8;
constexpr int kStepColumns = 16;
constexpr int kStripColumns = 128;
constexpr int kStripChunks = kStripColumns / kChunkColumns;
constexpr int kChunkBits = 4;   // of a chunk in a step's word
constexpr int kStripShift = 8;  // of the strip
constexpr int kQuarters = 4;    // of the strips
constexpr int kTileElements = kTileRows * kStepColumns;
constexpr unsigned short kNothing = 0x8000;

// The place of an element in its tile.
constexpr int element_index(int row, int column) {
  const int lane = 4 * (row % 8) + column % 8 / 2;
  return lane * 8 + column / 8 * 4 + row / 8 * 2 + column % 2;
}

}  // namespace sparsmith::bsr_strips
