// A block's products of some rows of a matrix with one or a few operands, which is what the matrix kernels are made of.
// For .cu files alone.
//
// An operand is a row of x: it is staged in shared memory a chunk of columns at a time, weighed and rounded to its
// basis on the way. All threads of the block call these functions together, and none of them returns before.
//
// kLanes: a warp owns kRowsPerWarp rows. Columns c to c + 7 are those of lane c / 8 % 32, whatever the format: a lane
// adds them to its float32 sum in column order, each by an fma, and then a butterfly adds up the lanes. So an element
// follows from its row and its operand alone. With K columns and sums no larger than S, which is the sum of all
// |weight * x|, its error is at most (8 * ceil(K / 256) + 6) * 2^-24 * S.
//
// kReference: a lane owns a row and adds float64 products in column order, a segment at a time, as the reference
// backend.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_BLOCK_PRODUCT_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_BLOCK_PRODUCT_H_

#include <cstdint>

#include "runtime/backend/basis_rounding.h"
#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/device_matrix.h"
#include "runtime/cuda/kernels/product_kind.h"
#include "runtime/cuda/kernels/weight_reader.h"
#include "schema/vocabularies.h"

namespace meshseal::cuda {

// How much a block takes on.
template <ProductKind kind, uint32_t operands, uint32_t warps, uint32_t rows_per_warp>
struct BlockShape {
  static constexpr ProductKind kKind = kind;
  static constexpr uint32_t kOperands = operands;
  static constexpr uint32_t kWarps = warps;
  static constexpr uint32_t kThreads = warps * kWarpLanes;
  static constexpr uint32_t kRowsPerWarp = rows_per_warp;
  static constexpr uint32_t kRows = warps * rows_per_warp;
  // Columns that are staged at once.
  static constexpr uint32_t kChunk = kind == ProductKind::kReference ? 64 : operands == 1 ? 2048 : 1024;
};

// The shapes in use: of one operand for each block (a slot), and of as many as share a matrix (tokens, grouped rows).
template <ProductKind kind>
using SlotShape =
    BlockShape<kind, 1, kind == ProductKind::kReference ? 2 : 8, kind == ProductKind::kReference ? 32 : 4>;
template <ProductKind kind>
using SharedShape =
    BlockShape<kind, 8, kind == ProductKind::kReference ? 2 : 8, kind == ProductKind::kReference ? 32 : 2>;

// Operands of a chunk in shared memory. Of eight neighbours the first and the last four lie in halves of their own, so
// that lanes which read them four at a time do not get into each other's way.
template <class Shape>
struct StagedOperands {
  static constexpr uint32_t kHalf = Shape::kChunk / 8 + 4;  // in float4
  float4 fours[Shape::kOperands][2 * kHalf];

  MESHSEAL_HOST_DEVICE float* At(uint32_t operand, uint32_t column) {
    const uint32_t four = (column % 8 / 4) * kHalf + column / 8;
    return reinterpret_cast<float*>(&fours[operand][four]) + column % 4;
  }
};

// Stages columns [first, first + kChunk) of the operands below `live`; `load` gives an operand's element, weighed.
// Those from `columns` on are zeros up to a multiple of 32, and are not read.
template <class Shape, class Load>
MESHSEAL_DEVICE void StageOperands(Basis basis, uint32_t first, uint32_t columns, uint32_t live, const Load& load,
                                   StagedOperands<Shape>& staged) {
  static_assert(runtime::kQ8Elements == kWarpLanes, "a warp holds one q8 block");
  const uint32_t left = columns - first;
  const uint32_t end = left < Shape::kChunk ? (left + kWarpLanes - 1) / kWarpLanes * kWarpLanes : Shape::kChunk;
  for (uint32_t operand = 0; operand < live; ++operand) {
    for (uint32_t i = threadIdx.x; i < end; i += Shape::kThreads) {  // by whole warps
      float value = i < left ? load(operand, first + i) : 0.0f;
      if (basis == Basis::kQ8) {
        float largest = runtime::LargerMagnitude(0, value);
        for (uint32_t offset = kWarpLanes / 2; offset > 0; offset /= 2) {
          largest = runtime::LargerMagnitude(largest, __shfl_xor_sync(kWholeWarp, largest, static_cast<int>(offset)));
        }
        value = runtime::Q8Step(largest).Rounded(value);
      } else {
        value = runtime::RoundedTo(basis, value);
      }
      *staged.At(operand, i) = value;
    }
  }
}

// Eight staged columns of an operand, from 8 * unit on.
template <class Shape>
struct EightOperands {
  MESHSEAL_DEVICE EightOperands(const StagedOperands<Shape>& staged, uint32_t operand, uint32_t unit)
      : low(staged.fours[operand][unit]), high(staged.fours[operand][unit + StagedOperands<Shape>::kHalf]) {}

  // `sum` plus the products with `weights`, in column order.
  MESHSEAL_DEVICE float AddTo(float sum, const float (&weights)[8]) const {
    const float x[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    MESHSEAL_UNROLL
    for (uint32_t i = 0; i < 8; ++i) sum = fmaf(weights[i], x[i], sum);
    return sum;
  }

  float4 low;
  float4 high;
};

// Adds the products of a chunk's columns to this lane's sums of rows [first_row, first_row + kRowsPerWarp), the last
// row again for those that there are not.
template <class Shape, class Reader>
MESHSEAL_DEVICE void AddChunk(const Reader& reader, uint32_t rows, uint32_t columns, uint32_t first_row, uint32_t chunk,
                              uint32_t live, const StagedOperands<Shape>& staged,
                              float (&sums)[Shape::kOperands][Shape::kRowsPerWarp]) {
  for (uint32_t unit = Lane(); unit < Shape::kChunk / 8; unit += kWarpLanes) {
    const uint32_t column = chunk + unit * 8;
    if (column >= columns) return;
    const auto row_of = [&](uint32_t r) { return first_row + r < rows ? first_row + r : rows - 1; };
    if constexpr (Reader::kIsSmall) {
      float weights[Shape::kRowsPerWarp][8];  // so all loads are on their way at once
      if constexpr (Reader::kReadsRows && runtime::kStripRows % Shape::kRowsPerWarp == 0) {
        reader.template Rows<Shape::kRowsPerWarp>(first_row, column, weights);
      } else {
        MESHSEAL_UNROLL
        for (uint32_t r = 0; r < Shape::kRowsPerWarp; ++r) reader.Eight(row_of(r), column, weights[r]);
      }
      MESHSEAL_UNROLL
      for (uint32_t operand = 0; operand < Shape::kOperands; ++operand) {
        if (operand >= live) break;
        const EightOperands<Shape> x(staged, operand, unit);
        MESHSEAL_UNROLL
        for (uint32_t r = 0; r < Shape::kRowsPerWarp; ++r) sums[operand][r] = x.AddTo(sums[operand][r], weights[r]);
      }
    } else {
      MESHSEAL_NO_UNROLL
      for (uint32_t r = 0; r < Shape::kRowsPerWarp; ++r) {
        float weights[8];
        reader.Eight(row_of(r), column, weights);
        MESHSEAL_UNROLL
        for (uint32_t operand = 0; operand < Shape::kOperands; ++operand) {
          if (operand >= live) break;
          const EightOperands<Shape> x(staged, operand, unit);
          float sum = 0;  // sums[operand][r], by constant indices
          MESHSEAL_UNROLL
          for (uint32_t i = 0; i < Shape::kRowsPerWarp; ++i) sum = i == r ? sums[operand][i] : sum;
          sum = x.AddTo(sum, weights);
          MESHSEAL_UNROLL
          for (uint32_t i = 0; i < Shape::kRowsPerWarp; ++i) sums[operand][i] = i == r ? sum : sums[operand][i];
        }
      }
    }
  }
}

// store(operand, row, product) for rows [first_row, first_row + kRows) of the matrix that there are, and for operands
// below `live`: once each, by one lane.
template <class Shape, class Load, class Store>
MESHSEAL_DEVICE void LanesProduct(const DeviceMatrix& matrix, uint32_t first_row, Basis basis, uint32_t live,
                                  const Load& load, const Store& store) {
  MESHSEAL_SHARED(staged, StagedOperands<Shape>);
  float sums[Shape::kOperands][Shape::kRowsPerWarp] = {};
  const uint32_t rows = matrix.rows;
  const uint32_t columns = matrix.columns;
  const uint32_t own = first_row + Warp() * Shape::kRowsPerWarp;
  for (uint32_t chunk = 0; chunk < columns; chunk += Shape::kChunk) {
    __syncthreads();
    StageOperands<Shape>(basis, chunk, columns, live, load, staged);
    __syncthreads();
    if (own >= rows) continue;
    WithReader<Shape::kKind>(
        matrix, [&](const auto& reader) { AddChunk<Shape>(reader, rows, columns, own, chunk, live, staged, sums); });
  }
  if (own >= rows) return;
  MESHSEAL_UNROLL
  for (uint32_t operand = 0; operand < Shape::kOperands; ++operand) {
    MESHSEAL_UNROLL
    for (uint32_t r = 0; r < Shape::kRowsPerWarp; ++r) {
      const float product = WarpSum(sums[operand][r]);
      if (Lane() == 0 && operand < live && own + r < rows) store(operand, own + r, product);
    }
  }
}

// One segment: all columns.
struct WholeRow {
  MESHSEAL_DEVICE uint32_t EndAfter(uint32_t) const { return 0xFFFFFFFFu; }
};

// Segments of the columns, by their ends; the last one is the number of columns.
struct Segments {
  const uint32_t* ends = nullptr;  // in device memory
  uint32_t count = 0;
  // The first end after `column`.
  MESHSEAL_DEVICE uint32_t EndAfter(uint32_t column) const {
    for (uint32_t i = 0; i < count; ++i) {
      if (ends[i] > column) return ends[i];
    }
    return 0xFFFFFFFFu;
  }
};

// Weights of a warp's rows and a chunk's columns, in shared memory.
template <class Shape>
using StagedWeights = float[kWarpLanes][Shape::kChunk + 1];

// Stages rows [first_row, first_row + 32) of columns [chunk, chunk + kChunk): neighbouring lanes read neighbouring
// columns. The last row again for those that there are not.
template <class Shape, class Reader>
MESHSEAL_DEVICE void StageWeights(const Reader& reader, uint32_t rows, uint32_t columns, uint32_t first_row,
                                  uint32_t chunk, StagedWeights<Shape>& staged) {
  constexpr uint32_t kUnits = Shape::kChunk / 8;
  constexpr uint32_t kRowsAtOnce = kWarpLanes / kUnits;
  constexpr uint32_t kBatch = Reader::kIsSmall ? 4 : 1;  // eights on their way at once
  const uint32_t column = Lane() % kUnits * 8;
  if (chunk + column >= columns) return;
  MESHSEAL_NO_UNROLL
  for (uint32_t row = Lane() / kUnits; row < kWarpLanes; row += kBatch * kRowsAtOnce) {
    float weights[kBatch][8];
    MESHSEAL_UNROLL
    for (uint32_t i = 0; i < kBatch; ++i) {
      const uint32_t at = first_row + row + i * kRowsAtOnce;
      reader.Eight(at < rows ? at : rows - 1, chunk + column, weights[i]);
    }
    MESHSEAL_UNROLL
    for (uint32_t i = 0; i < kBatch; ++i) {
      MESHSEAL_UNROLL
      for (uint32_t j = 0; j < 8; ++j) staged[row + i * kRowsAtOnce][column + j] = weights[i][j];
    }
  }
}

// add(operand, product) on the lane of row first_row + Warp() * 32 + Lane(), if there is one, for every operand below
// `live` and every segment in turn.
template <class Shape, class Load, class SegmentsOf, class Add>
MESHSEAL_DEVICE void ReferenceProduct(const DeviceMatrix& matrix, uint32_t first_row, Basis basis, uint32_t live,
                                      const SegmentsOf& segments, const Load& load, const Add& add) {
  static_assert(Shape::kRowsPerWarp == kWarpLanes);
  MESHSEAL_SHARED(staged, StagedOperands<Shape>);
  MESHSEAL_SHARED(weights, StagedWeights<Shape>[Shape::kWarps]);
  double sums[Shape::kOperands] = {};
  const uint32_t rows = matrix.rows;
  const uint32_t columns = matrix.columns;
  const uint32_t warp_row = first_row + Warp() * kWarpLanes;
  uint32_t end = segments.EndAfter(0);
  for (uint32_t chunk = 0; chunk < columns; chunk += Shape::kChunk) {
    __syncthreads();
    StageOperands<Shape>(basis, chunk, columns, live, load, staged);
    if (warp_row < rows) {
      WithReader<Shape::kKind>(matrix, [&](const auto& reader) {
        StageWeights<Shape>(reader, rows, columns, warp_row, chunk, weights[Warp()]);
      });
    }
    __syncthreads();
    if (warp_row + Lane() >= rows) continue;
    const uint32_t last = columns - chunk < Shape::kChunk ? columns : chunk + Shape::kChunk;
    MESHSEAL_NO_UNROLL
    for (uint32_t column = chunk; column < last; ++column) {
      // float64 holds the product, so that an fma rounds as a sum does.
      const double weight = double{weights[Warp()][Lane()][column - chunk]};
      MESHSEAL_UNROLL
      for (uint32_t operand = 0; operand < Shape::kOperands; ++operand) {
        if (operand < live) sums[operand] = fma(double{*staged.At(operand, column - chunk)}, weight, sums[operand]);
      }
      if (column + 1 != end && column + 1 != columns) continue;
      end = segments.EndAfter(column + 1);
      MESHSEAL_UNROLL
      for (uint32_t operand = 0; operand < Shape::kOperands; ++operand) {
        if (operand < live) add(operand, static_cast<float>(sums[operand]));
        sums[operand] = 0;
      }
    }
  }
}

// The products of a block with whole rows, by either kind: store(operand, row, product) as LanesProduct says.
template <class Shape, class Load, class Store>
MESHSEAL_DEVICE void BlockProduct(const DeviceMatrix& matrix, uint32_t first_row, Basis basis, uint32_t live,
                                  const Load& load, const Store& store) {
  if constexpr (Shape::kKind == ProductKind::kReference) {
    const uint32_t row = first_row + threadIdx.x;
    ReferenceProduct<Shape>(matrix, first_row, basis, live, WholeRow{}, load,
                            [&](uint32_t operand, float product) { store(operand, row, product); });
  } else {
    LanesProduct<Shape>(matrix, first_row, basis, live, load, store);
  }
}

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_BLOCK_PRODUCT_H_
