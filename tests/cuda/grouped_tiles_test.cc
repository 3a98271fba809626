// Products of grouped rows, and of the shared expert, by tensor cores, under the SIMT shim: inside the bound that
// tile_product.h states of the float64 sum of the very factors, the same bits under every order and beside any other
// rows.
#include "runtime/cuda/kernels/grouped_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/backend/basis.h"
#include "runtime/cuda/kernels/shared_tiles.h"
#include "runtime/cuda/kernels/tile_pieces.h"
#include "tests/cuda/kernel_buffers.h"
#include "tests/cuda/stored_layer.h"

namespace meshseal::cuda {
namespace {

using runtime::ExpertWeights;
using runtime::WeightMatrix;

struct Sizes {
  std::vector<uint32_t> rows;  // of each expert
  uint32_t hidden = 64;
  uint32_t columns = 40;
  uint32_t tile_rows = 8;
  uint32_t spare_rows = 20;  // of the capacity
  bool gated = true;
  bool biases = false;
  Basis basis = Basis::kBf16;
};

std::string TextOf(const Sizes& sizes) {
  return absl::StrCat("rows ", absl::StrJoin(sizes.rows, ","), ", hidden ", sizes.hidden, ", columns ", sizes.columns,
                      ", tiles of ", sizes.tile_rows, ", ", WordOf(sizes.basis));
}

HalfType TypeOf(Basis basis) { return basis == Basis::kBf16 ? HalfType::kBf16 : HalfType::kF16; }

// Experts, and slots that go to them in no order: every third slot is another rank's. What no slot has is NaN.
class Grouped {
 public:
  Grouped(const Storage& gate_up, const Storage& down, const Sizes& given, uint32_t seed = 3)
      : sizes(given), weights_(seed), random_(seed) {
    for (uint32_t local = 0; local < sizes.rows.size(); ++local) {
      ExpertWeights& expert = experts.emplace_back();
      if (sizes.gated) expert.gate = weights_.Add(gate_up, sizes.columns, sizes.hidden);
      expert.up = weights_.Add(gate_up, sizes.columns, sizes.hidden);
      expert.down = weights_.Add(down, sizes.hidden, sizes.columns);
      if (!sizes.biases) continue;
      if (sizes.gated) expert.gate_bias = weights_.AddVector(sizes.columns);
      expert.up_bias = weights_.AddVector(sizes.columns);
      expert.down_bias = weights_.AddVector(sizes.hidden);
    }
    weights_.Upload();
    for (const ExpertWeights& expert : experts) device_experts.push_back(weights_.Device(expert));

    const uint32_t owned = std::accumulate(sizes.rows.begin(), sizes.rows.end(), 0u);
    slots = owned + owned / 2 + (owned > 0 ? 1 : 0);
    std::vector<int32_t> of_rows;
    for (uint32_t slot = 0; slot < slots && of_rows.size() < owned; ++slot) {
      if (slot % 3 != 1) of_rows.push_back(static_cast<int32_t>(slot));
    }
    std::shuffle(of_rows.begin(), of_rows.end(), random_);
    first_row.push_back(0);
    for (const uint32_t count : sizes.rows) {
      for (uint32_t i = 0; i < count; ++i) {
        slot_of_row.push_back(of_rows.back());
        of_rows.pop_back();
      }
      while (slot_of_row.size() % sizes.tile_rows != 0) slot_of_row.push_back(-1);
      first_row.push_back(static_cast<int32_t>(slot_of_row.size()));
    }
    slot_of_row.resize(slot_of_row.size() + sizes.spare_rows, -1);
    rows = Unwritten<float>(capacity() * sizes.hidden);
    activations = Unwritten<float>(uint64_t{slots} * sizes.columns);
    for (uint32_t row = 0; row < capacity(); ++row) {
      if (slot_of_row[row] < 0) continue;
      for (uint32_t i = 0; i < sizes.hidden; ++i) rows[uint64_t{row} * sizes.hidden + i] = Number();
      for (uint32_t i = 0; i < sizes.columns; ++i) Activation(row)[i] = Number();
    }
    step = {5, slots, 0};
  }

  uint64_t capacity() const { return slot_of_row.size(); }
  uint64_t products() const { return uint64_t{sizes.columns} * (sizes.gated ? 2 : 1); }
  float* Activation(uint32_t row) {
    return activations.data() + static_cast<uint64_t>(slot_of_row[row]) * sizes.columns;
  }
  uint32_t ExpertOf(uint32_t row) const {
    return static_cast<uint32_t>(std::upper_bound(first_row.begin(), first_row.end(), static_cast<int32_t>(row)) -
                                 first_row.begin() - 1);
  }
  StepGrid Grid() const { return {&step, slots + 3, 1, sizes.hidden, sizes.columns, sizes.gated}; }
  DeviceGrouping Grouping() const {
    return {static_cast<uint32_t>(capacity()), static_cast<uint32_t>(experts.size()), slot_of_row.data(),
            first_row.data()};
  }
  HalfType type() const { return TypeOf(sizes.basis); }

  GateUpGroupedStep GateUp(std::vector<float>* out, std::vector<uint32_t>* marks) const {
    *out = Unwritten<float>(capacity() * products());
    *marks = Unwritten<uint32_t>(slots + 3);
    bool are_halves = true;
    for (const DeviceExpert& expert : device_experts) {
      are_halves = are_halves && AreHalves(type(), expert.up) && (!sizes.gated || AreHalves(type(), expert.gate));
    }
    return {Grid(),      Grouping(),  sizes.basis,   device_experts.data(),
            rows.data(), out->data(), marks->data(), are_halves};
  }

  DownStep Down(bool adds_bias, std::vector<float>* out, std::vector<uint32_t>* marks) const {
    *out = Unwritten<float>(uint64_t{slots} * sizes.hidden);
    *marks = Unwritten<uint32_t>(slots + 3);
    bool are_halves = true;
    for (const DeviceExpert& expert : device_experts) are_halves = are_halves && AreHalves(type(), expert.down);
    return {Grid(),        {},         adds_bias, sizes.basis, device_experts.data(), activations.data(), out->data(),
            marks->data(), Grouping(), are_halves};
  }

  const Sizes sizes;
  std::vector<ExpertWeights> experts;
  std::vector<DeviceExpert> device_experts;
  uint32_t slots = 0;
  std::vector<int32_t> slot_of_row;
  std::vector<int32_t> first_row;
  std::vector<float> rows;
  std::vector<float> activations;
  StepTokens step;

 private:
  float Number() { return std::normal_distribution<float>()(random_); }

  StoredWeights weights_;
  std::mt19937 random_;
};

// What an element may be: the float64 sum of its factors, and how far from it.
struct Expected {
  double product = 0;
  double tolerance = 0;
};

Expected ProductOf(Basis basis, const WeightMatrix& matrix, const DeviceMatrix& device,
                   const std::vector<float>& weights, const float* x, const WeightMatrix& bias, uint32_t row) {
  std::vector<float> operand(x, x + matrix.columns);
  runtime::ToBasis(basis, absl::MakeSpan(operand));
  Expected expected;
  double magnitudes = 0;
  for (uint32_t i = 0; i < matrix.columns; ++i) {
    const double term = double{weights[i]} * double{operand[i]};
    expected.product += term;
    magnitudes += std::fabs(term);
  }
  const double roundings = 1.01 * PiecesOf(TypeOf(basis), device) * std::ceil(matrix.columns / 16.0);
  expected.tolerance = std::ldexp(roundings * magnitudes, -24);
  if (bias.empty()) return expected;
  std::vector<float> biases(bias.columns);
  bias.Row(0, absl::MakeSpan(biases));
  expected.product += double{biases[row]};
  expected.tolerance += std::ldexp(magnitudes + std::fabs(double{biases[row]}), -24);
  return expected;
}

bool IsUnwritten(float value) { return std::bit_cast<uint32_t>(value) == 0xFFFFFFFFu; }

// Elements of a row of `out` against rows [0, matrix.rows) of the matrix.
void ExpectRow(Basis basis, const WeightMatrix& matrix, const DeviceMatrix& device, const float* x,
               const WeightMatrix& bias, const float* out) {
  std::vector<float> weights(matrix.columns);
  for (uint32_t row = 0; row < matrix.rows; ++row) {
    matrix.Row(row, absl::MakeSpan(weights));
    const Expected expected = ProductOf(basis, matrix, device, weights, x, bias, row);
    ASSERT_LE(std::fabs(double{out[row]} - expected.product), expected.tolerance)
        << "row " << row << ": " << out[row] << ", expected " << expected.product;
  }
}

void ExpectMarks(const Grouped& grouped, const std::vector<uint32_t>& marks) {
  std::vector<uint32_t> expected = Unwritten<uint32_t>(marks.size());
  for (const int32_t slot : grouped.slot_of_row) {
    if (slot >= 0) expected[static_cast<size_t>(slot)] = 1;
  }
  EXPECT_EQ(marks, expected);
}

cudaError_t LaunchAny(const GateUpGroupedStep& step) { return LaunchGateUpGrouped(nullptr, ProductKind::kTiles, step); }
cudaError_t LaunchAny(const DownStep& step) { return LaunchDown(nullptr, ProductKind::kTiles, step); }
cudaError_t LaunchAny(const SharedGateUpStep& step) { return LaunchSharedGateUp(nullptr, ProductKind::kTiles, step); }
cudaError_t LaunchAny(const SharedDownStep& step) { return LaunchSharedDown(nullptr, ProductKind::kTiles, step); }

template <class Step>
void RunStep(uint64_t seed, const Step& step) {
  RunUnder(seed, [&] { return LaunchAny(step); });
}

// The step under every schedule.
template <class Step, class... T>
void RunStepUnderAll(const Step& step, std::vector<T>&... outputs) {
  RunUnderAll([&] { return LaunchAny(step); }, outputs...);
}

void CheckGateUp(const Grouped& grouped) {
  SCOPED_TRACE(absl::StrCat("gate and up, ", TextOf(grouped.sizes)));
  const Sizes& sizes = grouped.sizes;
  std::vector<float> out;
  std::vector<uint32_t> marks;
  RunStepUnderAll(grouped.GateUp(&out, &marks), out, marks);
  ExpectMarks(grouped, marks);
  for (uint32_t row = 0; row < grouped.capacity(); ++row) {
    const float* const its = &out[row * grouped.products()];
    if (grouped.slot_of_row[row] < 0) {
      ASSERT_TRUE(std::all_of(its, its + grouped.products(), IsUnwritten)) << "row " << row;
      continue;
    }
    SCOPED_TRACE(absl::StrCat("grouped row ", row));
    const uint32_t local = grouped.ExpertOf(row);
    const ExpertWeights& expert = grouped.experts[local];
    const float* const x = &grouped.rows[uint64_t{row} * sizes.hidden];
    if (sizes.gated) {
      ASSERT_NO_FATAL_FAILURE(
          ExpectRow(sizes.basis, expert.gate, grouped.device_experts[local].gate, x, expert.gate_bias, its));
    }
    ASSERT_NO_FATAL_FAILURE(ExpectRow(sizes.basis, expert.up, grouped.device_experts[local].up, x, expert.up_bias,
                                      its + (sizes.gated ? sizes.columns : 0)));
  }
}

void CheckDown(Grouped& grouped, bool adds_bias) {
  SCOPED_TRACE(absl::StrCat("down, ", TextOf(grouped.sizes)));
  const Sizes& sizes = grouped.sizes;
  std::vector<float> out;
  std::vector<uint32_t> marks;
  RunStepUnderAll(grouped.Down(adds_bias, &out, &marks), out, marks);
  ExpectMarks(grouped, marks);
  for (uint32_t slot = 0; slot < grouped.slots; ++slot) {
    const float* const its = &out[uint64_t{slot} * sizes.hidden];
    const auto row = std::find(grouped.slot_of_row.begin(), grouped.slot_of_row.end(), static_cast<int32_t>(slot));
    if (row == grouped.slot_of_row.end()) {
      ASSERT_TRUE(std::all_of(its, its + sizes.hidden, IsUnwritten)) << "slot " << slot;
      continue;
    }
    SCOPED_TRACE(absl::StrCat("slot ", slot));
    const auto at = static_cast<uint32_t>(row - grouped.slot_of_row.begin());
    const uint32_t local = grouped.ExpertOf(at);
    const ExpertWeights& expert = grouped.experts[local];
    ASSERT_NO_FATAL_FAILURE(ExpectRow(sizes.basis, expert.down, grouped.device_experts[local].down,
                                      grouped.Activation(at), adds_bias ? expert.down_bias : WeightMatrix(), its));
  }
}

Sizes SizesOf(std::vector<uint32_t> rows, uint32_t hidden, uint32_t columns, uint32_t tile_rows = 8) {
  Sizes sizes;
  sizes.rows = std::move(rows);
  sizes.hidden = hidden;
  sizes.columns = columns;
  sizes.tile_rows = tile_rows;
  return sizes;
}

TEST(GroupedTilesTest, EveryShape) {
  const Sizes edges[] = {
      SizesOf({}, 16, 16),                // a rank without experts
      SizesOf({0, 0}, 16, 16),            // without rows
      SizesOf({1}, 16, 16),               //
      SizesOf({0, 1, 0, 3, 0}, 33, 7),    // experts without rows, K no multiple of 16
      SizesOf({7, 0, 129}, 40, 130, 16),  // more rows and columns than a tile
      SizesOf({261}, 72, 129, 1),         // all tokens to one expert
      SizesOf({8, 8, 8, 8}, 128, 128),    // whole tiles
      SizesOf({2, 1, 5}, 1, 1, 1),        // a column
      SizesOf(
          {0, 5, 0, 9, 1, 0, 2, 3, 4, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 0, 0, 2},
          24, 16, 1),  // more experts than a warp looks at
  };
  for (Sizes sizes : edges) {
    for (const Basis basis : {Basis::kBf16, Basis::kF16}) {
      sizes.basis = basis;
      sizes.biases = basis == Basis::kF16;
      sizes.gated = sizes.columns != 7;
      const Storage storage = StorageNamed(basis == Basis::kBf16 ? "bf16" : "f16");
      Grouped grouped(storage, storage, sizes);
      CheckGateUp(grouped);
      CheckDown(grouped, sizes.biases);
      if (sizes.biases && sizes.rows.size() == 5) CheckDown(grouped, false);
    }
  }
}

TEST(GroupedTilesTest, EveryStorage) {
  for (const Storage& storage : AllStorages()) {
    if (storage.repacked) continue;
    SCOPED_TRACE(storage.name);
    for (const Basis basis : {Basis::kBf16, Basis::kF16}) {
      Sizes sizes = SizesOf({3}, 256, 5);
      sizes.basis = basis;
      sizes.gated = false;
      const Grouped grouped(storage, StorageNamed("bf16"), sizes);
      if (PiecesOf(grouped.type(), grouped.device_experts[0].up) == 0) {
        EXPECT_EQ(basis, Basis::kF16);
        continue;
      }
      CheckGateUp(grouped);
    }
  }
}

TEST(GroupedTilesTest, RepackedWeightsGiveTheBitsOfThoseAsStored) {
  for (const Storage& repacked : AllStorages()) {
    if (!repacked.repacked || repacked.lies != Lies::kInRows) continue;
    SCOPED_TRACE(repacked.name);
    Storage stored = repacked;
    stored.repacked = false;
    const Sizes sizes = SizesOf({3}, 256, 4);
    const Grouped one(stored, StorageNamed("bf16"), sizes);
    const Grouped other(repacked, StorageNamed("bf16"), sizes);
    ASSERT_TRUE(SameBits(one.rows, other.rows));
    std::vector<uint32_t> marks;
    std::vector<float> as_stored;
    std::vector<float> as_repacked;
    RunStep(1, one.GateUp(&as_stored, &marks));
    RunStep(2, other.GateUp(&as_repacked, &marks));
    EXPECT_TRUE(SameBits(as_stored, as_repacked));
  }
}

// Of an operand that is 1 in one column alone, products are the weights themselves: every bit of them.
TEST(GroupedTilesTest, TheFactorsAreTheWeightsThemselves) {
  for (const Storage& storage : AllStorages()) {
    if (storage.repacked) continue;
    for (const Basis basis : {Basis::kBf16, Basis::kF16}) {
      Sizes sizes = SizesOf({16}, 256, 3);
      sizes.gated = false;
      sizes.basis = basis;
      Grouped grouped(storage, StorageNamed("bf16"), sizes);
      if (PiecesOf(grouped.type(), grouped.device_experts[0].up) == 0) continue;
      SCOPED_TRACE(absl::StrCat(storage.name, ", ", WordOf(basis)));
      std::fill(grouped.rows.begin(), grouped.rows.end(), 0.0f);
      const auto column_of = [](uint32_t row) { return row * 89 % 256; };
      for (uint32_t row = 0; row < 16; ++row) grouped.rows[row * 256 + column_of(row)] = 1;
      std::vector<float> out;
      std::vector<uint32_t> marks;
      RunStep(1, grouped.GateUp(&out, &marks));
      for (uint32_t column = 0; column < sizes.columns; ++column) {
        std::vector<float> weights(256);
        grouped.experts[0].up.Row(column, absl::MakeSpan(weights));
        for (uint32_t row = 0; row < 16; ++row) {
          const float weight = weights[column_of(row)] + 0.0f;  // sums begin at +0
          EXPECT_EQ(std::bit_cast<uint32_t>(out[row * sizes.columns + column]), std::bit_cast<uint32_t>(weight))
              << row << ", " << column << ": " << out[row * sizes.columns + column] << ", " << weight;
        }
      }
    }
  }
}

// A row among others, and the same one alone, in another place of a smaller grid.
TEST(GroupedTilesTest, ARowFollowsFromItselfAlone) {
  for (const char* storage : {"bf16", "q8_0"}) {
    const Sizes sizes = SizesOf({3, 131}, 64, 160);
    Grouped batch(StorageNamed(storage), StorageNamed(storage), sizes);
    std::vector<uint32_t> marks;
    std::vector<float> gate_up;
    std::vector<float> down;
    RunStep(1, batch.GateUp(&gate_up, &marks));
    RunStep(1, batch.Down(false, &down, &marks));
    for (const uint32_t row : {8u, 9u, 75u, 136u, 138u}) {  // of the second expert
      ASSERT_GE(batch.slot_of_row[row], 0);
      Sizes few = sizes;
      few.rows = {0, row % 2 + 1};
      few.spare_rows = row % 5;
      Grouped alone(StorageNamed(storage), StorageNamed(storage), few);
      const uint32_t place = row % 2;  // among the few
      ASSERT_GE(alone.slot_of_row[place], 0);
      std::copy_n(&batch.rows[row * sizes.hidden], sizes.hidden, &alone.rows[place * sizes.hidden]);
      std::copy_n(batch.Activation(row), sizes.columns, alone.Activation(place));
      std::vector<float> its;
      RunStep(2, alone.GateUp(&its, &marks));
      EXPECT_EQ(std::memcmp(&its[place * batch.products()], &gate_up[row * batch.products()],
                            batch.products() * sizeof(float)),
                0)
          << storage << ", row " << row;
      RunStep(2, alone.Down(false, &its, &marks));
      EXPECT_EQ(
          std::memcmp(&its[static_cast<size_t>(alone.slot_of_row[place]) * sizes.hidden],
                      &down[static_cast<size_t>(batch.slot_of_row[row]) * sizes.hidden], sizes.hidden * sizeof(float)),
          0)
          << storage << ", row " << row;
    }
  }
}

TEST(GroupedTilesTest, AStepWithoutTokensReadsNothing) {
  Grouped grouped(StorageNamed("bf16"), StorageNamed("bf16"), SizesOf({4, 4}, 32, 32));
  grouped.step.tokens = 0;
  grouped.first_row = Unwritten<int32_t>(3);
  std::vector<float> out;
  std::vector<uint32_t> marks;
  RunStep(1, grouped.GateUp(&out, &marks));
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), IsUnwritten));
  RunStep(1, grouped.Down(false, &out, &marks));
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), IsUnwritten));
}

TEST(GroupedTilesTest, WhatTensorCoresCannotDoIsNoNumber) {
  Sizes sizes = SizesOf({3}, 32, 8);
  sizes.basis = Basis::kF16;
  const Grouped grouped(StorageNamed("bf16"), StorageNamed("bf16"), sizes);  // whose exponents no half has
  std::vector<float> out;
  std::vector<uint32_t> marks;
  RunStep(1, grouped.GateUp(&out, &marks));
  for (size_t i = 0; i < 3 * grouped.products(); ++i) EXPECT_TRUE(std::isnan(out[i])) << i;
  for (const Basis basis : {Basis::kF32, Basis::kQ8, Basis::kRotated}) {
    GateUpGroupedStep step = grouped.GateUp(&out, &marks);
    step.basis = basis;
    EXPECT_EQ(LaunchAny(step), cudaErrorInvalidValue) << WordOf(basis);
  }
}

// Weights at the ends of their range, and operands that are not finite.
TEST(GroupedTilesTest, InfinitiesAndNaNsStayWhatTheyAre) {
  Sizes sizes = SizesOf({2}, 16, 2);
  sizes.gated = false;
  Grouped grouped(StorageNamed("bf16"), StorageNamed("f32"), sizes);
  grouped.rows[3] = INFINITY;
  grouped.rows[16 + 5] = NAN;
  std::vector<float> out;
  std::vector<uint32_t> marks;
  RunStep(1, grouped.GateUp(&out, &marks));
  std::vector<float> weights(16);
  for (uint32_t column = 0; column < 2; ++column) {
    grouped.experts[0].up.Row(column, absl::MakeSpan(weights));
    EXPECT_EQ(out[column], weights[3] * INFINITY);
    EXPECT_TRUE(std::isnan(out[2 + column]));
  }
}

// Tokens and a rank's part of the shared expert. Behind the tokens all is NaN.
class SharedPart {
 public:
  SharedPart(const Storage& gate_up, const Storage& down, uint32_t tokens, uint32_t hidden, uint32_t columns,
             Basis basis_of_both, bool gated = true, bool shares_out = true)
      : basis(basis_of_both), weights_(13) {
    if (columns > 0) {
      if (gated) shared.gate = weights_.Add(gate_up, columns, hidden);
      shared.up = weights_.Add(gate_up, columns, hidden);
      shared.down = weights_.Add(down, hidden, columns);
    }
    weights_.Upload();
    device = weights_.Device(shared);
    step = {5, tokens, 0};
    std::mt19937 random(3);
    const auto fill = [&](uint64_t width) {
      std::vector<float> values = Unwritten<float>(max_tokens() * width);
      for (uint64_t i = 0; i < tokens * width; ++i) values[i] = std::normal_distribution<float>()(random);
      return values;
    };
    x = fill(hidden);
    activations = fill(columns);
    if (shares_out) shares = fill(1);
  }

  uint32_t max_tokens() const { return step.tokens + 3; }
  uint32_t hidden() const { return static_cast<uint32_t>(x.size() / max_tokens()); }
  uint64_t products() const { return uint64_t{shared.gate.rows} + shared.up.rows; }

  SharedGateUpStep GateUp(std::vector<float>* out) const {
    *out = Unwritten<float>(max_tokens() * products());
    return {&step, max_tokens(), basis, device.gate, device.up, x.data(), out->data()};
  }
  SharedDownStep Down(std::vector<float>* out) const {
    *out = Unwritten<float>(uint64_t{max_tokens()} * hidden());
    return {&step,
            max_tokens(),
            hidden(),
            basis,
            device.down,
            activations.data(),
            shares.empty() ? nullptr : shares.data(),
            out->data()};
  }

  const Basis basis;
  runtime::SharedWeights shared;
  DeviceShared device;
  std::vector<float> x;
  std::vector<float> activations;
  std::vector<float> shares;
  StepTokens step;

 private:
  StoredWeights weights_;
};

void CheckShared(const SharedPart& part) {
  std::vector<float> out;
  RunStepUnderAll(part.GateUp(&out), out);
  for (uint64_t token = 0; token < part.max_tokens(); ++token) {
    const float* const its = out.data() + token * part.products();
    if (token >= part.step.tokens) {
      ASSERT_TRUE(std::all_of(its, its + part.products(), IsUnwritten)) << "token " << token;
      continue;
    }
    SCOPED_TRACE(absl::StrCat("gate and up, token ", token));
    const float* const x = &part.x[token * part.hidden()];
    if (!part.shared.gate.empty()) {
      ASSERT_NO_FATAL_FAILURE(ExpectRow(part.basis, part.shared.gate, part.device.gate, x, {}, its));
    }
    ASSERT_NO_FATAL_FAILURE(ExpectRow(part.basis, part.shared.up, part.device.up, x, {}, its + part.shared.gate.rows));
  }
  RunStepUnderAll(part.Down(&out), out);
  std::vector<float> unshared;
  if (!part.shares.empty()) {
    SharedDownStep step = part.Down(&unshared);
    step.shares = nullptr;
    RunStep(1, step);
  }
  for (uint64_t token = 0; token < part.max_tokens(); ++token) {
    float* const its = out.data() + token * part.hidden();
    if (token >= part.step.tokens) {
      ASSERT_TRUE(std::all_of(its, its + part.hidden(), IsUnwritten)) << "token " << token;
      continue;
    }
    SCOPED_TRACE(absl::StrCat("down, token ", token));
    if (!part.shares.empty()) {  // a product of the sum, rounded once
      float* const sums = unshared.data() + token * part.hidden();
      for (uint32_t i = 0; i < part.hidden(); ++i) ASSERT_EQ(its[i], sums[i] * part.shares[token]) << i;
      std::copy_n(sums, part.hidden(), its);
    }
    if (part.shared.down.empty()) {
      ASSERT_TRUE(std::all_of(its, its + part.hidden(), [](float value) { return value == 0; }));
      continue;
    }
    const float* const activation = &part.activations[token * part.shared.down.columns];
    ASSERT_NO_FATAL_FAILURE(ExpectRow(part.basis, part.shared.down, part.device.down, activation, {}, its));
  }
}

TEST(SharedTilesTest, EveryShape) {
  struct Edge {
    uint32_t tokens, hidden, columns;
  };
  // Tokens and columns at the ends of a tile and without any, sums that are no multiple of 16 columns.
  for (const Edge& edge : {Edge{0, 16, 16}, Edge{1, 16, 1}, Edge{7, 33, 9}, Edge{129, 40, 130}, Edge{128, 8, 128},
                           Edge{3, 24, 0}, Edge{5, 1, 5}}) {
    for (const Basis basis : {Basis::kBf16, Basis::kF16}) {
      SCOPED_TRACE(absl::StrCat(edge.tokens, " tokens, ", edge.hidden, " by ", edge.columns, ", ", WordOf(basis)));
      const Storage storage = StorageNamed(basis == Basis::kBf16 ? "bf16" : "f16");
      CheckShared(
          {storage, storage, edge.tokens, edge.hidden, edge.columns, basis, edge.hidden != 33, basis == Basis::kBf16});
    }
  }
}

TEST(SharedTilesTest, DecodedWeights) {
  for (const char* const name : {"q8_0", "q4_k repacked", "f32", "bf16 transposed", "nvfp4 packed"}) {
    SCOPED_TRACE(name);
    CheckShared({StorageNamed(name), StorageNamed(name), 3, 256, 256, Basis::kBf16, false, false});
  }
}

TEST(SharedTilesTest, OtherTokensDoNotMatter) {
  for (const char* const name : {"bf16", "q8_0"}) {
    const Storage storage = StorageNamed(name);
    const SharedPart part(storage, storage, 131, 64, 32, Basis::kBf16);
    std::vector<float> gate_up;
    std::vector<float> down;
    RunStep(0, part.GateUp(&gate_up));
    RunStep(0, part.Down(&down));
    for (const uint32_t token : {0u, 9u, 130u}) {
      SharedPart alone(storage, storage, 1, 64, 32, Basis::kBf16);
      std::copy_n(&part.x[token * 64], 64, alone.x.begin());
      std::copy_n(&part.activations[token * 32], 32, alone.activations.begin());
      alone.shares[0] = part.shares[token];
      std::vector<float> its;
      RunStep(2, alone.GateUp(&its));
      EXPECT_EQ(std::memcmp(its.data(), &gate_up[token * part.products()], part.products() * sizeof(float)), 0);
      RunStep(2, alone.Down(&its));
      EXPECT_EQ(std::memcmp(its.data(), &down[token * 64], 64 * sizeof(float)), 0);
    }
  }
}

TEST(SharedTilesTest, WhatTensorCoresCannotDoIsNoNumber) {
  const SharedPart part(StorageNamed("bf16"), StorageNamed("bf16"), 2, 32, 8, Basis::kF16);
  std::vector<float> out;
  RunStep(1, part.GateUp(&out));
  for (uint64_t i = 0; i < 2 * part.products(); ++i) EXPECT_TRUE(std::isnan(out[i])) << i;
  for (const Basis basis : {Basis::kF32, Basis::kQ8, Basis::kRotated}) {
    SharedGateUpStep gate_up = part.GateUp(&out);
    gate_up.basis = basis;
    EXPECT_EQ(LaunchAny(gate_up), cudaErrorInvalidValue) << WordOf(basis);
    SharedDownStep down = part.Down(&out);
    down.basis = basis;
    EXPECT_EQ(LaunchAny(down), cudaErrorInvalidValue) << WordOf(basis);
  }
}

}  // namespace
}  // namespace meshseal::cuda
