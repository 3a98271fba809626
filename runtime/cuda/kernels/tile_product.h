// A block's products of a tile of a matrix's rows with up to a tile of operands, by tensor cores. For .cu files alone.
//
// Operands are rows of float32, rounded to the basis's 16 bits on the way to shared memory; weights are decoded on the
// way, to as many 16-bit pieces as are exactly them (tile_pieces.h). So the factors are those of the other kinds of
// products. All threads of the block call these functions together.
//
// An element's sum grows by 16 columns at a time, in their order, of each 16 by the weights' pieces in theirs, whatever
// the tile, the operands beside it or the grid: on one kind of device it follows from its row and its operand alone.
// With K columns, P pieces and sums no larger than S, which is the sum of all |weight * x|, its error is at most
// 1.01 * P * K * 2^-23 * S where each addition of an instruction is a float32's, however rounded, which is all that is
// said of them; the host's bodies round once for each instruction: 1.01 * P * ceil(K / 16) * 2^-24 * S.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_TILE_PRODUCT_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_TILE_PRODUCT_H_

#include <cstdint>

#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/device_matrix.h"
#include "runtime/cuda/kernels/product_kind.h"
#include "runtime/cuda/kernels/tensor_code.h"
#include "runtime/cuda/kernels/tile_pieces.h"
#include "runtime/cuda/kernels/weight_reader.h"

namespace meshseal::cuda {

// How much a block takes on: row_warps x operand_warps warps, each with row_tiles of 16 rows and operand_tiles of 8
// operands. `decodes`: the weights; else their own bits are their one piece, and they are on their way while the
// columns before are multiplied.
template <HalfType type, bool decodes, uint32_t row_warps, uint32_t operand_warps, uint32_t row_tiles,
          uint32_t operand_tiles>
struct TileShape {
  static constexpr HalfType kType = type;
  static constexpr bool kDecodes = decodes;
  static constexpr uint32_t kPieces = decodes ? kMostPieces : 1;
  static constexpr uint32_t kRowTiles = row_tiles;
  static constexpr uint32_t kOperandTiles = operand_tiles;
  static constexpr uint32_t kThreads = row_warps * operand_warps * kWarpLanes;
  static constexpr uint32_t kRows = row_warps * row_tiles * 16;
  static constexpr uint32_t kOperands = operand_warps * operand_tiles * 8;
  static constexpr uint32_t kDepth = 32;  // columns that are staged at once
  // What a thread stages: eights of columns, neighbours by neighbouring threads.
  static constexpr uint32_t kEightsInRow = kDepth / 8;
  static constexpr uint32_t kRowsAtOnce = kThreads / kEightsInRow;
  static constexpr uint32_t kRowEights = kRows / kRowsAtOnce;
  static constexpr uint32_t kOperandEights = kOperands / kRowsAtOnce;
  static_assert(kRows % kRowsAtOnce == 0 && kOperands % kRowsAtOnce == 0 && kOperandTiles % 2 == 0);

  // The warp's part.
  MESHSEAL_DEVICE static uint32_t FirstRow() { return Warp() / operand_warps * row_tiles * 16; }
  // The first operand of its n-th tile: warps take turns, so that a few operands are several warps' work.
  MESHSEAL_DEVICE static uint32_t FirstOperand(uint32_t n) { return (n * operand_warps + Warp() % operand_warps) * 8; }
};

// The shape in use. With two blocks on a multiprocessor at once one loads while the other multiplies; decoding takes
// more registers.
template <HalfType type, bool decodes>
using WholeShape = TileShape<type, decodes, 4, 2, 2, 8>;

// A depth of a tile in shared memory. Rows are so far apart that eight of them lie in banks of their own.
template <class Shape>
struct StagedTile {
  static constexpr uint32_t kStride = Shape::kEightsInRow + 1;
  Eight weights[Shape::kPieces][Shape::kRows][kStride];
  Eight operands[Shape::kOperands][kStride];
};

template <HalfType type>
MESHSEAL_DEVICE Eight PackEight(const float (&values)[8]) {
  Eight eight;
  MESHSEAL_UNROLL
  for (uint32_t i = 0; i < 4; ++i) eight.pairs[i] = PackTwo<type>(values[2 * i], values[2 * i + 1]);
  return eight;
}

// What a piece leaves of a weight: nothing of one that is not finite.
template <HalfType type>
MESHSEAL_DEVICE void TakePiece(const Eight& piece, float (&values)[8]) {
  MESHSEAL_UNROLL
  for (uint32_t i = 0; i < 8; ++i) {
    const float taken = NumberOfHalf<type>(piece.pairs[i / 2] >> (16 * (i % 2)) & 0xFFFFu);
    values[i] = IsFinite(taken) ? values[i] - taken : 0;
  }
}

// What is on its way from global to shared memory: operands, and weights that are not decoded.
template <class Shape>
struct FetchedTile {
  float operands[Shape::kOperandEights][8];
  Eight weights[Shape::kDecodes ? 1 : Shape::kRowEights];
};

// Eight elements of a row of `columns` from `column` on: zeros where it has ended, or is not there.
MESHSEAL_DEVICE void FetchEight(const float* row, uint32_t columns, uint32_t column, float (&out)[8]) {
  MESHSEAL_UNROLL
  for (uint32_t i = 0; i < 8; ++i) out[i] = 0;
  if (row == nullptr) return;
  if (column + 8 <= columns && reinterpret_cast<uint64_t>(row + column) % 16 == 0) {
    const auto low = *reinterpret_cast<const float4*>(row + column);
    const auto high = *reinterpret_cast<const float4*>(row + column + 4);
    out[0] = low.x, out[1] = low.y, out[2] = low.z, out[3] = low.w;
    out[4] = high.x, out[5] = high.y, out[6] = high.z, out[7] = high.w;
    return;
  }
  MESHSEAL_UNROLL
  for (uint32_t i = 0; i < 8; ++i) {
    if (column + i < columns) out[i] = row[column + i];
  }
}

// The matrix's row of this thread's i-th eight; the last row again for those that there are not.
template <class Shape>
MESHSEAL_DEVICE uint32_t RowOfEight(const DeviceMatrix& matrix, uint32_t first_row, uint32_t i) {
  const uint32_t row = first_row + threadIdx.x / Shape::kEightsInRow + i * Shape::kRowsAtOnce;
  return row < matrix.rows ? row : matrix.rows - 1;
}

// row_of(operand): its row, or null for one without.
template <class Shape, class RowOf>
MESHSEAL_DEVICE void FetchTile(const DeviceMatrix& matrix, uint32_t first_row, uint32_t depth, uint32_t live,
                               const RowOf& row_of, FetchedTile<Shape>& fetched) {
  const uint32_t column = depth + threadIdx.x % Shape::kEightsInRow * 8;
  MESHSEAL_UNROLL
  for (uint32_t i = 0; i < Shape::kOperandEights; ++i) {
    const uint32_t operand = threadIdx.x / Shape::kEightsInRow + i * Shape::kRowsAtOnce;
    FetchEight(operand < live ? row_of(operand) : nullptr, matrix.columns, column, fetched.operands[i]);
  }
  if constexpr (!Shape::kDecodes) {
    MESHSEAL_UNROLL
    for (uint32_t i = 0; i < Shape::kRowEights; ++i) {
      fetched.weights[i] = {};
      if (column >= matrix.columns) continue;
      const std::byte* const row = matrix.data + RowOfEight<Shape>(matrix, first_row, i) * matrix.row_bytes;
      fetched.weights[i] = *reinterpret_cast<const Eight*>(row + uint64_t{column} * 2);
    }
  }
}

template <class Shape>
MESHSEAL_DEVICE void StageTile(const DeviceMatrix& matrix, uint32_t pieces, uint32_t first_row, uint32_t depth,
                               const FetchedTile<Shape>& fetched, StagedTile<Shape>& staged) {
  const uint32_t at = threadIdx.x / Shape::kEightsInRow;
  const uint32_t place = threadIdx.x % Shape::kEightsInRow;
  MESHSEAL_UNROLL
  for (uint32_t i = 0; i < Shape::kOperandEights; ++i) {
    staged.operands[at + i * Shape::kRowsAtOnce][place] = PackEight<Shape::kType>(fetched.operands[i]);
  }
  if constexpr (!Shape::kDecodes) {
    MESHSEAL_UNROLL
    for (uint32_t i = 0; i < Shape::kRowEights; ++i) {
      staged.weights[0][at + i * Shape::kRowsAtOnce][place] = fetched.weights[i];
    }
  } else {
    const bool is_there = depth + place * 8 < matrix.columns;
    WithReader<ProductKind::kTiles>(matrix, [&](const auto& reader) {
      MESHSEAL_NO_UNROLL
      for (uint32_t i = 0; i < Shape::kRowEights; ++i) {
        float weights[8] = {};
        if (is_there) reader.Eight(RowOfEight<Shape>(matrix, first_row, i), depth + place * 8, weights);
        MESHSEAL_NO_UNROLL
        for (uint32_t piece = 0; piece < pieces; ++piece) {
          const Eight eight = PackEight<Shape::kType>(weights);
          staged.weights[piece][at + i * Shape::kRowsAtOnce][place] = eight;
          TakePiece<Shape::kType>(eight, weights);
        }
      }
    });
  }
}

template <class Shape>
using TileSums = float[Shape::kRowTiles][Shape::kOperandTiles][4];

// Adds a staged depth to the warp's sums.
template <class Shape>
MESHSEAL_DEVICE void AddTile(const StagedTile<Shape>& staged, uint32_t pieces, uint32_t live, TileSums<Shape>& sums) {
  // Which row of a matrix, of four that are loaded at once, this lane says the place of.
  const uint32_t matrix = Lane() / 8;
  const uint32_t row = Lane() % 8;
  MESHSEAL_UNROLL
  for (uint32_t eight = 0; eight < Shape::kEightsInRow; eight += 2) {
    MESHSEAL_NO_UNROLL
    for (uint32_t piece = 0; piece < pieces; ++piece) {
      uint32_t weights[Shape::kRowTiles][4];
      MESHSEAL_UNROLL
      for (uint32_t m = 0; m < Shape::kRowTiles; ++m) {
        const uint32_t first = Shape::FirstRow() + m * 16;
        LoadMatrices(staged.weights[piece][first + matrix % 2 * 8 + row][eight + matrix / 2], weights[m]);
      }
      MESHSEAL_UNROLL
      for (uint32_t n = 0; n < Shape::kOperandTiles; n += 2) {
        if (Shape::FirstOperand(n) >= live) break;
        uint32_t operands[4];
        LoadMatrices(staged.operands[Shape::FirstOperand(n + matrix / 2) + row][eight + matrix % 2], operands);
        MESHSEAL_UNROLL
        for (uint32_t i = 0; i < 2; ++i) {
          if (Shape::FirstOperand(n + i) >= live) break;
          MESHSEAL_UNROLL
          for (uint32_t m = 0; m < Shape::kRowTiles; ++m) {
            MultiplyAdd<Shape::kType>(weights[m], {operands[2 * i], operands[2 * i + 1]}, sums[m][n + i]);
          }
        }
      }
    }
  }
}

// store(operand, row, product, of_row(row)) for rows [first_row, first_row + kRows) of the matrix that there are, and
// for operands below `live`: once each, by one lane. row_of(operand): its elements, as many as the matrix has columns;
// null for one that is zeros. NaN where tensor cores cannot do the product.
template <class Shape, class RowOf, class OfRow, class Store>
MESHSEAL_DEVICE void TileProduct(const DeviceMatrix& matrix, uint32_t first_row, uint32_t live, const RowOf& row_of,
                                 const OfRow& of_row, const Store& store) {
  MESHSEAL_SHARED(staged, StagedTile<Shape>);
  const uint32_t columns = matrix.columns;
  const uint32_t pieces = PiecesOf(Shape::kType, matrix);
  const float start = pieces == 0 ? __uint_as_float(0x7FC00000u) : 0.0f;
  TileSums<Shape> sums;
  MESHSEAL_UNROLL
  for (uint32_t m = 0; m < Shape::kRowTiles; ++m) {
    MESHSEAL_UNROLL
    for (uint32_t n = 0; n < Shape::kOperandTiles; ++n) {
      MESHSEAL_UNROLL
      for (uint32_t i = 0; i < 4; ++i) sums[m][n][i] = start;
    }
  }
  FetchedTile<Shape> fetched;
  FetchTile<Shape>(matrix, first_row, 0, live, row_of, fetched);
  MESHSEAL_NO_UNROLL
  for (uint32_t depth = 0; depth < columns; depth += Shape::kDepth) {
    __syncthreads();
    StageTile<Shape>(matrix, pieces, first_row, depth, fetched, staged);
    __syncthreads();
    if (depth + Shape::kDepth < columns) {
      FetchTile<Shape>(matrix, first_row, depth + Shape::kDepth, live, row_of, fetched);
    }
    AddTile<Shape>(staged, pieces, live, sums);
  }
  MESHSEAL_UNROLL
  for (uint32_t m = 0; m < Shape::kRowTiles; ++m) {
    MESHSEAL_UNROLL
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t row = first_row + Shape::FirstRow() + m * 16 + half * 8 + Lane() / 4;
      if (row >= matrix.rows) continue;
      const float its = of_row(row);
      MESHSEAL_UNROLL
      for (uint32_t n = 0; n < Shape::kOperandTiles; ++n) {
        MESHSEAL_UNROLL
        for (uint32_t i = 0; i < 2; ++i) {
          const uint32_t operand = Shape::FirstOperand(n) + Lane() % 4 * 2 + i;
          if (operand < live) store(operand, row, sums[m][n][half * 2 + i], its);
        }
      }
    }
  }
}

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_TILE_PRODUCT_H_
