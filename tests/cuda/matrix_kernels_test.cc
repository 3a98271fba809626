// The matrix kernels under the SIMT shim, against the reference backend: kReference bit by bit, kLanes inside the bound
// that block_product.h states; for every storage of weights, and shapes at their edges.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/backend/refusals.h"
#include "runtime/cuda/kernels/down.h"
#include "runtime/cuda/kernels/down_exact.h"
#include "runtime/cuda/kernels/gate_up.h"
#include "runtime/cuda/kernels/gate_up_activation.h"
#include "runtime/cuda/kernels/gate_up_grouped.h"
#include "runtime/cuda/kernels/router_logits.h"
#include "runtime/cuda/kernels/shared_down.h"
#include "runtime/cuda/kernels/shared_down_exact.h"
#include "runtime/cuda/kernels/shared_gate.h"
#include "runtime/cuda/kernels/shared_gate_up.h"
#include "runtime/program/rank_facts.h"
#include "runtime/reference/dot.h"
#include "runtime/reference/exact_addends.h"
#include "runtime/reference/router_logits.h"
#include "tests/cuda/kernel_buffers.h"
#include "tests/cuda/stored_layer.h"
#include "tests/runtime/single_steps.h"
#include "tests/simt/direct_launch.h"

namespace meshseal::cuda {
namespace {

using runtime::ExpertPlace;
using runtime::ExpertWeights;
using runtime::SharedWeights;
using runtime::SingleSteps;
using runtime::WeightMatrix;

constexpr ProductKind kKinds[] = {ProductKind::kLanes, ProductKind::kReference};
const char* NameOf(ProductKind kind) { return kind == ProductKind::kLanes ? "lanes" : "reference"; }

template <class T>
bool IsUnwritten(const T& value) {
  const std::vector<T> unwritten = Unwritten<T>(1);
  return std::memcmp(&value, unwritten.data(), sizeof(T)) == 0;
}

struct Sizes {
  uint32_t tokens = 3;
  uint32_t max_tokens = 4;
  uint32_t top_k = 2;
  uint32_t hidden = 256;
  uint32_t columns = 37;
  bool gated = true;
  bool biases = false;
  bool weighs = false;
  Basis basis = Basis::kF32;
};

// One rank's experts, and tokens that select among more than it holds: of expert 3 the second of two copies, of local
// expert 1 no token at all.
class Layer {
 public:
  static constexpr uint32_t kExperts = 6;

  Layer(const Storage& gate_up, const Storage& down, const Sizes& given, uint32_t seed = 5)
      : sizes(given), weights_(seed), random_(seed) {
    places.resize(kExperts);
    places[0].local = 2;
    places[2].local = 0;
    places[3] = {3, 1, 2};
    places[5].local = 1;
    for (int local = 0; local < 4; ++local) {
      ExpertWeights& expert = experts.emplace_back();
      const Lies lies = local % 2 == 0 ? Lies::kInRows : Lies::kInterleaved;
      if (sizes.gated) expert.gate = weights_.Add(gate_up, sizes.columns, sizes.hidden);
      expert.up = weights_.Add(gate_up, sizes.columns, sizes.hidden);
      expert.down = weights_.Add(down, sizes.hidden, sizes.columns);
      if (!sizes.biases) continue;
      if (sizes.gated) expert.gate_bias = weights_.AddVector(sizes.columns, lies);
      expert.up_bias = weights_.AddVector(sizes.columns, lies);
      expert.down_bias = weights_.AddVector(sizes.hidden, lies);
    }
    weights_.Upload();
    for (const ExpertWeights& expert : experts) device_experts.push_back(weights_.Device(expert));

    // What lies behind the tokens is full of NaN, and of experts that there are not.
    x = Unwritten<float>(uint64_t{sizes.max_tokens} * sizes.hidden);
    for (uint64_t i = 0; i < uint64_t{sizes.tokens} * sizes.hidden; ++i) x[i] = Number();
    routed.assign(uint64_t{sizes.max_tokens} * sizes.top_k, 0x7F7F7F7F);
    routing_weights = Unwritten<float>(routed.size());
    constexpr int32_t kSelected[] = {0, 1, 3, 2, 4, 3, 2, 0, 3, 4, 1, 0, 4, 2};
    for (uint64_t slot = 0; slot < slots(); ++slot) {
      routed[slot] = kSelected[slot % std::size(kSelected)];
      routing_weights[slot] = std::fabs(Number());
    }
    activations = Unwritten<float>(uint64_t{sizes.max_tokens} * sizes.top_k * sizes.columns);
    for (uint64_t slot = 0; slot < slots(); ++slot) {
      if (LocalOf(slot) < 0) continue;
      for (uint32_t c = 0; c < sizes.columns; ++c) activations[slot * sizes.columns + c] = Number();
    }
    step = {first_token, sizes.tokens, 0};
  }

  float Number() { return std::normal_distribution<float>()(random_); }

  uint64_t slots() const { return uint64_t{sizes.tokens} * sizes.top_k; }
  uint64_t products() const { return uint64_t{sizes.columns} * (sizes.gated ? 2 : 1); }
  int32_t LocalOf(uint64_t slot) const {
    return runtime::OwnedSlots{HostRouting(), places, first_token, sizes.top_k}.LocalExpert(slot);
  }
  runtime::Routing HostRouting() const {
    return {absl::MakeConstSpan(routed).first(slots()), absl::MakeConstSpan(routing_weights).first(slots())};
  }
  runtime::OwnedSlots HostOwned() const { return {HostRouting(), places, first_token, sizes.top_k}; }
  runtime::StepShape HostShape() const {
    runtime::StepShape shape = runtime::Shape(sizes.tokens, sizes.top_k, sizes.hidden, sizes.columns);
    shape.first_token = first_token;
    shape.gated = sizes.gated;
    return shape;
  }
  StepGrid Grid() const { return {&step, sizes.max_tokens, sizes.top_k, sizes.hidden, sizes.columns, sizes.gated}; }
  DeviceOwned Owned() const { return {routed.data(), routing_weights.data(), places.data()}; }

  const Sizes sizes;
  const uint64_t first_token = 7;
  std::vector<ExpertPlace> places;
  std::vector<ExpertWeights> experts;
  std::vector<DeviceExpert> device_experts;
  std::vector<float> x;
  std::vector<int32_t> routed;
  std::vector<float> routing_weights;
  std::vector<float> activations;
  StepTokens step;

 private:
  StoredWeights weights_;
  std::mt19937 random_;
};

// How far kLanes may be from the product of a row, a bias added: the sum's bound, and the roundings of both to float32.
double Tolerance(const WeightMatrix& matrix, uint32_t row, absl::Span<const float> x, double bias) {
  std::vector<float> weights(matrix.columns);
  matrix.Row(row, absl::MakeSpan(weights));
  double magnitudes = 0;
  for (size_t i = 0; i < weights.size(); ++i) magnitudes += std::fabs(double{weights[i]} * double{x[i]});
  const double steps = 8.0 * std::ceil(matrix.columns / 256.0) + 6;
  return std::ldexp((steps + 2) * magnitudes + 2 * std::fabs(bias), -24);
}

struct Computed {
  std::vector<float> out;
  std::vector<uint32_t> marks;
};

Computed GateUp(const Layer& layer, ProductKind kind) {
  const Sizes& sizes = layer.sizes;
  const uint64_t max_slots = uint64_t{sizes.max_tokens} * sizes.top_k;
  Computed computed = {Unwritten<float>(max_slots * layer.products()), Unwritten<uint32_t>(max_slots)};
  const GateUpStep step = {
      layer.Grid(),   layer.Owned(),       sizes.weighs,         sizes.basis, layer.device_experts.data(),
      layer.x.data(), computed.out.data(), computed.marks.data()};
  RunUnderAll([&] { return LaunchGateUp(nullptr, kind, step); }, computed.out, computed.marks);
  return computed;
}

Computed Down(const Layer& layer, ProductKind kind, bool adds_bias) {
  const Sizes& sizes = layer.sizes;
  const uint64_t max_slots = uint64_t{sizes.max_tokens} * sizes.top_k;
  Computed computed = {Unwritten<float>(max_slots * sizes.hidden), Unwritten<uint32_t>(max_slots)};
  const DownStep step = {layer.Grid(),
                         layer.Owned(),
                         adds_bias,
                         sizes.basis,
                         layer.device_experts.data(),
                         layer.activations.data(),
                         computed.out.data(),
                         computed.marks.data(),
                         {},
                         false};
  RunUnderAll([&] { return LaunchDown(nullptr, kind, step); }, computed.out, computed.marks);
  return computed;
}

// Rows of owned slots are as `expected`, or as near to it as `tolerance(slot, column)` says; all else is unwritten.
void ExpectSlots(const Layer& layer, ProductKind kind, const Computed& computed, const std::vector<float>& expected,
                 uint64_t width, const std::function<double(uint64_t, uint64_t)>& tolerance) {
  for (uint64_t slot = 0; slot < computed.marks.size(); ++slot) {
    const bool owned = slot < layer.slots() && layer.LocalOf(slot) >= 0;
    EXPECT_EQ(computed.marks[slot], owned ? 1u : 0xFFFFFFFFu) << slot;
    for (uint64_t i = 0; i < width; ++i) {
      const float got = computed.out[slot * width + i];
      if (!owned) {
        ASSERT_TRUE(IsUnwritten(got)) << "slot " << slot << ", column " << i;
      } else if (kind == ProductKind::kReference) {
        ASSERT_EQ(std::memcmp(&got, &expected[slot * width + i], 4), 0)
            << "slot " << slot << ", column " << i << ": " << got << ", expected " << expected[slot * width + i];
      } else {
        ASSERT_LE(std::fabs(double{got} - double{expected[slot * width + i]}), tolerance(slot, i))
            << "slot " << slot << ", column " << i << ": " << got << ", expected " << expected[slot * width + i];
      }
    }
  }
}

std::vector<float> Weighed(const Layer& layer, uint64_t slot) {
  const Sizes& sizes = layer.sizes;
  const uint64_t at = slot / sizes.top_k * sizes.hidden;
  std::vector<float> x(layer.x.begin() + static_cast<ptrdiff_t>(at),
                       layer.x.begin() + static_cast<ptrdiff_t>(at + sizes.hidden));
  for (float& value : x) value *= sizes.weighs ? layer.routing_weights[slot] : 1;
  runtime::ToBasis(sizes.basis, absl::MakeSpan(x));
  return x;
}

float BiasAt(const WeightMatrix& bias, uint64_t at) { return bias.empty() ? 0 : runtime::VectorOf(bias)[at]; }

void CheckGateUp(const Layer& layer) {
  const Sizes& sizes = layer.sizes;
  std::vector<float> expected = Unwritten<float>(layer.slots() * layer.products());
  runtime::StepCounters counters;
  ASSERT_TRUE(SingleSteps()
                  .GateUp({layer.HostShape(), layer.HostOwned(), sizes.weighs, sizes.basis, layer.experts,
                           absl::MakeConstSpan(layer.x).first(uint64_t{sizes.tokens} * sizes.hidden),
                           absl::MakeSpan(expected), &counters})
                  .ok());
  for (const ProductKind kind : kKinds) {
    SCOPED_TRACE(NameOf(kind));
    ExpectSlots(layer, kind, GateUp(layer, kind), expected, layer.products(), [&](uint64_t slot, uint64_t i) {
      const ExpertWeights& expert = layer.experts[static_cast<size_t>(layer.LocalOf(slot))];
      const bool up = !sizes.gated || i >= sizes.columns;
      const auto row = static_cast<uint32_t>(up && sizes.gated ? i - sizes.columns : i);
      return Tolerance(up ? expert.up : expert.gate, row, Weighed(layer, slot),
                       double{BiasAt(up ? expert.up_bias : expert.gate_bias, row)});
    });
  }
}

void CheckDown(const Layer& layer, bool adds_bias) {
  const Sizes& sizes = layer.sizes;
  std::vector<float> expected = Unwritten<float>(layer.slots() * sizes.hidden);
  runtime::StepCounters counters;
  ASSERT_TRUE(SingleSteps()
                  .Down({layer.HostShape(), layer.HostOwned(), adds_bias, sizes.basis, layer.experts,
                         absl::MakeConstSpan(layer.activations).first(layer.slots() * sizes.columns),
                         absl::MakeSpan(expected), &counters})
                  .ok());
  for (const ProductKind kind : kKinds) {
    SCOPED_TRACE(NameOf(kind));
    ExpectSlots(layer, kind, Down(layer, kind, adds_bias), expected, sizes.hidden, [&](uint64_t slot, uint64_t row) {
      const ExpertWeights& expert = layer.experts[static_cast<size_t>(layer.LocalOf(slot))];
      std::vector<float> x(sizes.columns);
      std::copy_n(layer.activations.begin() + static_cast<ptrdiff_t>(slot * sizes.columns), sizes.columns, x.begin());
      runtime::ToBasis(sizes.basis, absl::MakeSpan(x));
      return Tolerance(expert.down, static_cast<uint32_t>(row), x,
                       adds_bias ? double{BiasAt(expert.down_bias, row)} : 0);
    });
  }
}

TEST(MatrixKernelsTest, EveryStorage) {
  for (const Storage& storage : AllStorages()) {
    SCOPED_TRACE(storage.name);
    Sizes sizes;
    sizes.tokens = sizes.max_tokens = 2;
    sizes.columns = 5;
    sizes.basis = Basis::kBf16;
    CheckGateUp({storage, StorageNamed("f32"), sizes});
    if (!storage.repacked) continue;
    sizes.columns = 8;  // strips of several rows
    CheckGateUp({storage, StorageNamed("f32"), sizes});
  }
}

// In whatever strips: several rows of them are read at once, or one, or those of a matrix with an odd number.
TEST(MatrixKernelsTest, RepackedWeightsGiveTheBitsOfThoseAsStored) {
  for (const Storage& repacked : AllStorages()) {
    if (!repacked.repacked || repacked.lies != Lies::kInRows) continue;
    Storage stored = repacked;
    stored.repacked = false;
    for (const uint32_t rows : {1u, 7u, 36u}) {
      SCOPED_TRACE(absl::StrCat(repacked.name, ", ", rows, " rows"));
      Sizes sizes;
      sizes.columns = rows;
      const Layer one(stored, StorageNamed("f32"), sizes);
      const Layer other(repacked, StorageNamed("f32"), sizes);
      EXPECT_EQ(GateUp(one, ProductKind::kLanes).marks, GateUp(other, ProductKind::kLanes).marks);
      EXPECT_TRUE(SameBytes(GateUp(one, ProductKind::kLanes).out, GateUp(other, ProductKind::kLanes).out));
    }
    Sizes sizes;
    sizes.tokens = sizes.max_tokens = 1;
    sizes.columns = 256;
    sizes.hidden = 8;
    const Layer one(StorageNamed("f32"), stored, sizes);
    const Layer other(StorageNamed("f32"), repacked, sizes);
    for (const ProductKind kind : kKinds) {
      EXPECT_TRUE(SameBytes(Down(one, kind, false).out, Down(other, kind, false).out)) << repacked.name;
    }
  }
}

TEST(MatrixKernelsTest, PlanesThatLieElsewhereAreSeen) {
  for (const char* const name : {"q8_0 repacked", "q4_k repacked"}) {
    Sizes sizes;
    sizes.columns = 8;
    const Layer right(StorageNamed(name), StorageNamed("f32"), sizes);
    const std::vector<float> expected = GateUp(right, ProductKind::kLanes).out;
    const auto differs = [&](const std::function<void(runtime::RepackedPlanes&)>& change) {
      Layer wrong(StorageNamed(name), StorageNamed("f32"), sizes);
      for (DeviceExpert& expert : wrong.device_experts) change(expert.up.planes);
      return !SameBytes(GateUp(wrong, ProductKind::kLanes).out, expected);
    };
    EXPECT_FALSE(differs([](runtime::RepackedPlanes&) {}));
    EXPECT_TRUE(differs([](runtime::RepackedPlanes& planes) { std::swap(planes.data[0], planes.data[1]); }));
    EXPECT_TRUE(differs([](runtime::RepackedPlanes& planes) { planes.data[0] += 16; }));
    EXPECT_TRUE(differs([](runtime::RepackedPlanes& planes) { planes.data[1] += 64; }));
    EXPECT_TRUE(differs([](runtime::RepackedPlanes& planes) { planes.strip_rows = 1; }));
  }
}

TEST(MatrixKernelsTest, EveryShape) {
  struct Edge {
    const char* storage;
    Sizes sizes;
  };
  const auto sized = [](uint32_t tokens, uint32_t max_tokens, uint32_t top_k, uint32_t hidden, uint32_t columns) {
    Sizes sizes;
    sizes.tokens = tokens;
    sizes.max_tokens = max_tokens;
    sizes.top_k = top_k;
    sizes.hidden = hidden;
    sizes.columns = columns;
    return sizes;
  };
  const Edge edges[] = {
      {"bf16", sized(0, 3, 2, 64, 8)},
      {"bf16", sized(1, 1, 1, 64, 64)},
      {"bf16", sized(5, 9, 3, 40, 33)},
      {"f32", sized(1, 2, 7, 13, 1)},
      {"f32", sized(2, 2, 2, 1, 70)},
      {"f16", sized(3, 3, 2, 2056, 3)},
      {"bf16 transposed", sized(2, 3, 2, 2049, 9)},
      {"q8_0", sized(1, 1, 2, 4128, 32)},
      {"f8_e4m3", sized(2, 2, 1, 24, 96)},
      {"f32", sized(2, 2, 2, 9, 2100)},
  };
  for (const Edge& edge : edges) {
    for (const Basis basis : {Basis::kF32, Basis::kBf16, Basis::kF16, Basis::kQ8}) {
      Sizes sizes = edge.sizes;
      sizes.basis = basis;
      sizes.biases = basis == Basis::kBf16 || basis == Basis::kQ8;
      sizes.weighs = basis == Basis::kF16 || basis == Basis::kQ8;
      sizes.gated = basis != Basis::kF16;
      SCOPED_TRACE(absl::StrCat(edge.storage, ", ", WordOf(basis), ", ", sizes.tokens, " tokens, ", sizes.hidden,
                                " by ", sizes.columns));
      const bool blocks = std::string(edge.storage) == "q8_0";
      const Layer layer(StorageNamed(edge.storage), StorageNamed(blocks ? "q8_0" : "bf16"), sizes);
      if (sizes.columns < 1000) CheckGateUp(layer);
      if (sizes.hidden > 1000) continue;
      CheckDown(layer, sizes.biases);
      if (sizes.biases) CheckDown(layer, false);
    }
  }
}

// Rows of slots grouped by local expert, each group from a multiple of `tile_rows` on.
struct Grouped {
  Grouped(const Layer& layer, uint32_t tile_rows, uint32_t capacity) {
    slot_of_row.assign(capacity, -1);
    first_row.push_back(0);
    for (int32_t local = 0; local < static_cast<int32_t>(layer.experts.size()); ++local) {
      auto row = static_cast<uint32_t>(first_row.back());
      for (uint64_t slot = 0; slot < layer.slots(); ++slot) {
        if (layer.LocalOf(slot) == local) slot_of_row[row++] = static_cast<int32_t>(slot);
      }
      first_row.push_back(static_cast<int32_t>((row + tile_rows - 1) / tile_rows * tile_rows));
    }
    rows = Unwritten<float>(uint64_t{capacity} * layer.sizes.hidden);
    for (uint32_t row = 0; row < capacity; ++row) {
      if (slot_of_row[row] < 0) continue;
      const uint64_t token = static_cast<uint64_t>(slot_of_row[row]) / layer.sizes.top_k;
      std::copy_n(layer.x.begin() + static_cast<ptrdiff_t>(token * layer.sizes.hidden), layer.sizes.hidden,
                  rows.begin() + static_cast<ptrdiff_t>(uint64_t{row} * layer.sizes.hidden));
    }
  }

  std::vector<int32_t> slot_of_row;
  std::vector<int32_t> first_row;
  std::vector<float> rows;
};

TEST(MatrixKernelsTest, GroupedRowsHaveTheBitsOfTheirSlots) {
  for (const uint32_t tile_rows : {1u, 3u, 16u}) {
    for (const uint32_t tokens : {0u, 5u, 13u}) {
      for (const char* storage : {"bf16", "q4_k"}) {
        Sizes sizes;
        sizes.tokens = tokens;
        sizes.max_tokens = 13;
        sizes.columns = 19;
        sizes.biases = true;
        sizes.basis = tile_rows == 1 ? Basis::kQ8 : Basis::kBf16;
        sizes.gated = tile_rows != 3;
        const Layer layer(StorageNamed(storage), StorageNamed("bf16"), sizes);
        const uint32_t capacity = 26 + 4 * tile_rows;
        const Grouped grouped(layer, tile_rows, capacity);
        for (const ProductKind kind : kKinds) {
          SCOPED_TRACE(absl::StrCat(storage, ", ", NameOf(kind), ", ", tokens, " tokens, tiles of ", tile_rows));
          const Computed expected = GateUp(layer, kind);
          Computed computed = {Unwritten<float>(capacity * layer.products()),
                               Unwritten<uint32_t>(expected.marks.size())};
          const GateUpGroupedStep step = {layer.Grid(),
                                          {capacity, static_cast<uint32_t>(layer.experts.size()),
                                           grouped.slot_of_row.data(), grouped.first_row.data()},
                                          sizes.basis,
                                          layer.device_experts.data(),
                                          grouped.rows.data(),
                                          computed.out.data(),
                                          computed.marks.data(),
                                          false};
          RunUnderAll([&] { return LaunchGateUpGrouped(nullptr, kind, step); }, computed.out, computed.marks);
          EXPECT_EQ(computed.marks, expected.marks);
          for (uint32_t row = 0; row < capacity; ++row) {
            const int32_t slot = grouped.slot_of_row[row];
            for (uint64_t i = 0; i < layer.products(); ++i) {
              const float got = computed.out[row * layer.products() + i];
              if (slot < 0) {
                ASSERT_TRUE(IsUnwritten(got)) << "row " << row << ", column " << i;
              } else {
                const float of_slot = expected.out[static_cast<uint64_t>(slot) * layer.products() + i];
                ASSERT_EQ(std::memcmp(&got, &of_slot, 4), 0) << "row " << row << ", column " << i;
              }
            }
          }
        }
      }
    }
  }
}

TEST(MatrixKernelsTest, TheActivationMayFollowInTheSameLaunch) {
  for (const ActivationKind rule : {ActivationKind::kSwiGlu, ActivationKind::kRelu2, ActivationKind::kSwiGluOai}) {
    Sizes sizes;
    sizes.columns = 41;
    sizes.gated = runtime::HasGate(rule);
    sizes.biases = rule == ActivationKind::kSwiGluOai;
    sizes.weighs = rule == ActivationKind::kRelu2;
    sizes.basis = Basis::kBf16;
    const Layer layer(StorageNamed("bf16"), StorageNamed("bf16"), sizes);
    for (const ProductKind kind : kKinds) {
      const Computed products = GateUp(layer, kind);
      Computed computed = {Unwritten<float>(products.marks.size() * sizes.columns),
                           Unwritten<uint32_t>(products.marks.size())};
      GateUpActivationStep step;
      step.grid = layer.Grid();
      step.owned = layer.Owned();
      step.weighs_input = sizes.weighs;
      step.weighs_activation = rule == ActivationKind::kSwiGluOai;
      step.basis = sizes.basis;
      step.rule = {rule, 1.5f, 0.5f};
      step.experts = layer.device_experts.data();
      step.x = layer.x.data();
      step.out = computed.out.data();
      step.computed = computed.marks.data();
      RunUnderAll([&] { return LaunchGateUpActivation(nullptr, kind, step); }, computed.out, computed.marks);
      std::vector<float> expected = Unwritten<float>(computed.out.size());
      runtime::ActivationArgs args;
      args.shape = layer.HostShape();
      args.owned = layer.HostOwned();
      args.weighs = step.weighs_activation;
      args.activation = step.rule;
      args.gate_up = absl::MakeConstSpan(products.out).first(layer.slots() * layer.products());
      args.out = absl::MakeSpan(expected).first(layer.slots() * sizes.columns);
      ASSERT_TRUE(SingleSteps().Activation(args).ok());
      EXPECT_EQ(computed.marks, products.marks);
      EXPECT_TRUE(SameBytes(computed.out, expected)) << WordOf(rule) << ", " << NameOf(kind);
    }
  }
}

// A token's row alone, and the same among others, elsewhere and of a larger grid.
TEST(MatrixKernelsTest, AColumnFollowsFromItsRowAndItsOperandAlone) {
  Sizes sizes;
  sizes.tokens = sizes.max_tokens = 5;
  sizes.top_k = 2;
  const Layer batch(StorageNamed("bf16"), StorageNamed("bf16"), sizes);
  const Computed all = GateUp(batch, ProductKind::kLanes);
  for (uint64_t token = 0; token < 5; ++token) {
    Sizes one = sizes;
    one.tokens = 1;
    one.max_tokens = 1 + static_cast<uint32_t>(token) * 2;
    Layer alone(StorageNamed("bf16"), StorageNamed("bf16"), one);
    std::copy_n(batch.x.begin() + static_cast<ptrdiff_t>(token * sizes.hidden), sizes.hidden, alone.x.begin());
    std::copy_n(batch.routed.begin() + static_cast<ptrdiff_t>(token * 2), 2, alone.routed.begin());
    alone.step.first_token = batch.first_token + token;
    const Computed computed = GateUp(alone, ProductKind::kLanes);
    EXPECT_EQ(std::memcmp(computed.out.data(), all.out.data() + token * 2 * batch.products(),
                          2 * batch.products() * sizeof(float)),
              0)
        << token;
  }
}

// A rank's columns of gate and up are those of the whole matrix.
TEST(MatrixKernelsTest, ACutChangesNoColumn) {
  Sizes sizes;
  sizes.columns = 50;
  Layer whole(StorageNamed("q4_0"), StorageNamed("f32"), sizes);
  const Computed all = GateUp(whole, ProductKind::kLanes);
  Sizes part = sizes;
  part.columns = 17;
  Layer cut(StorageNamed("q4_0"), StorageNamed("f32"), part);
  for (size_t local = 0; local < whole.device_experts.size(); ++local) {
    for (DeviceMatrix DeviceExpert::*const matrix : {&DeviceExpert::gate, &DeviceExpert::up}) {
      cut.device_experts[local].*matrix = whole.device_experts[local].*matrix;
      (cut.device_experts[local].*matrix).data += 21 * (whole.device_experts[local].*matrix).row_bytes;
      (cut.device_experts[local].*matrix).rows = 17;
    }
  }
  cut.x = whole.x;
  const Computed some = GateUp(cut, ProductKind::kLanes);
  for (uint64_t slot = 0; slot < whole.slots(); ++slot) {
    for (uint64_t half = 0; half < 2; ++half) {
      EXPECT_EQ(std::memcmp(&some.out[(slot * 2 + half) * 17], &all.out[(slot * 2 + half) * 50 + 21], 17 * 4), 0)
          << slot;
    }
  }
}

TEST(MatrixKernelsTest, RouterLogits) {
  struct Edge {
    uint32_t tokens, max_tokens, experts, hidden;
    const char* storage;
  };
  for (const Edge& edge : {Edge{0, 2, 4, 64, "f32"}, Edge{1, 1, 60, 96, "bf16"}, Edge{9, 12, 5, 1031, "f16 transposed"},
                           Edge{8, 8, 33, 33, "f32"}}) {
    for (const Basis basis : {Basis::kF32, Basis::kBf16}) {
      StoredWeights weights(11);
      const WeightMatrix weight = weights.Add(StorageNamed(edge.storage), edge.experts, edge.hidden);
      const WeightMatrix bias = basis == Basis::kBf16 ? weights.AddVector(edge.experts) : WeightMatrix{};
      weights.Upload();
      std::mt19937 random(edge.hidden);
      std::vector<float> x = Unwritten<float>(uint64_t{edge.max_tokens} * edge.hidden);
      for (uint64_t i = 0; i < uint64_t{edge.tokens} * edge.hidden; ++i)
        x[i] = std::normal_distribution<float>()(random);
      const StepTokens tokens = {0, edge.tokens, 0};
      for (const ProductKind kind : kKinds) {
        SCOPED_TRACE(absl::StrCat(edge.storage, ", ", edge.tokens, " tokens, ", WordOf(basis), ", ", NameOf(kind)));
        std::vector<float> logits = Unwritten<float>(uint64_t{edge.max_tokens} * edge.experts);
        RunUnderAll(
            [&] {
              return LaunchRouterLogits(nullptr, kind,
                                        {&tokens, edge.max_tokens, weights.Device(weight), weights.Device(bias), basis,
                                         x.data(), logits.data()});
            },
            logits);
        for (uint32_t token = 0; token < edge.max_tokens; ++token) {
          const absl::Span<const float> got =
              absl::MakeConstSpan(logits).subspan(uint64_t{token} * edge.experts, edge.experts);
          if (token >= edge.tokens) {
            for (const float value : got) EXPECT_TRUE(IsUnwritten(value));
            continue;
          }
          const absl::Span<const float> row =
              absl::MakeConstSpan(x).subspan(uint64_t{token} * edge.hidden, edge.hidden);
          const std::vector<float> expected =
              runtime::RouterLogits(basis, weight, runtime::VectorOf(bias), row, token).value();
          for (uint32_t e = 0; e < edge.experts; ++e) {
            if (kind == ProductKind::kReference) {
              EXPECT_EQ(std::memcmp(&got[e], &expected[e], 4), 0) << token << ", " << e;
              continue;
            }
            double tolerance = Tolerance(weight, e, runtime::ToBasis(basis, row), double{BiasAt(bias, e)});
            if (basis == Basis::kBf16) tolerance += std::ldexp(std::fabs(double{expected[e]}), -7);
            EXPECT_LE(std::fabs(double{got[e]} - double{expected[e]}), tolerance) << token << ", " << e;
          }
        }
      }
    }
  }
}

// The shared expert, whole: what gate and up, its own gate and down make of tokens.
struct SharedCase {
  SharedCase(uint32_t tokens_, uint32_t max_tokens_, uint32_t hidden_, uint32_t columns_, bool gated, bool has_gate)
      : tokens(tokens_), max_tokens(max_tokens_), hidden(hidden_), columns(columns_), weights(13) {
    if (columns > 0) {
      if (gated) shared.gate = weights.Add(StorageNamed("bf16"), columns, hidden);
      shared.up = weights.Add(StorageNamed("bf16"), columns, hidden);
      shared.down = weights.Add(StorageNamed("f16"), hidden, columns);
    }
    if (has_gate) shared.expert_gate = weights.AddVector(hidden);
    weights.Upload();
    device = weights.Device(shared);
    std::mt19937 random(3);
    const auto fill = [&](uint64_t width) {
      std::vector<float> values = Unwritten<float>(max_tokens * width);
      for (uint64_t i = 0; i < tokens * width; ++i) values[i] = std::normal_distribution<float>()(random);
      return values;
    };
    x = fill(hidden);
    activations = fill(columns);
    step = {0, tokens, 0};
  }

  absl::Span<const float> HostX() const { return absl::MakeConstSpan(x).first(uint64_t{tokens} * hidden); }
  absl::Span<const float> HostActivations() const {
    return absl::MakeConstSpan(activations).first(uint64_t{tokens} * columns);
  }
  // Of tokens, and null where there is no gate.
  std::vector<float> Shares(ProductKind kind) const {
    std::vector<float> shares = Unwritten<float>(max_tokens);
    if (shared.expert_gate.empty()) return {};
    RunUnderAll(
        [&] {
          return LaunchSharedGate(nullptr, kind, {&step, max_tokens, device.expert_gate, x.data(), shares.data()});
        },
        shares);
    return shares;
  }

  uint32_t tokens;
  uint32_t max_tokens;
  uint32_t hidden;
  uint32_t columns;
  StoredWeights weights;
  SharedWeights shared;
  DeviceShared device;
  std::vector<float> x;
  std::vector<float> activations;
  StepTokens step;
};

std::vector<SharedCase> SharedCases() {
  std::vector<SharedCase> cases;
  cases.emplace_back(0, 3, 64, 8, true, true);
  cases.emplace_back(1, 1, 64, 20, true, true);
  cases.emplace_back(9, 11, 40, 33, true, false);
  cases.emplace_back(5, 5, 70, 7, false, true);
  cases.emplace_back(3, 4, 24, 0, true, true);  // a rank without columns
  return cases;
}

TEST(MatrixKernelsTest, SharedExpert) {
  for (const SharedCase& shared : SharedCases()) {
    runtime::StepShape shape = runtime::Shape(shared.tokens, 1, shared.hidden);
    const uint64_t products = uint64_t{shared.shared.gate.rows} + shared.shared.up.rows;
    std::vector<float> gate_up(shared.tokens * products);
    std::vector<float> down(uint64_t{shared.tokens} * shared.hidden);
    ASSERT_TRUE(
        SingleSteps().SharedGateUp({shape, Basis::kQ8, shared.shared, shared.HostX(), absl::MakeSpan(gate_up)}).ok());
    ASSERT_TRUE(SingleSteps()
                    .SharedDown({shape, Basis::kBf16, shared.shared, shared.HostActivations(), shared.HostX(),
                                 absl::MakeSpan(down)})
                    .ok());
    for (const ProductKind kind : kKinds) {
      SCOPED_TRACE(absl::StrCat(NameOf(kind), ", ", shared.tokens, " tokens, ", shared.columns, " columns"));
      std::vector<float> got_gate_up = Unwritten<float>(shared.max_tokens * products);
      std::vector<float> got_down = Unwritten<float>(uint64_t{shared.max_tokens} * shared.hidden);
      const std::vector<float> shares = shared.Shares(kind);
      RunUnderAll(
          [&] {
            return LaunchSharedGateUp(nullptr, kind,
                                      {&shared.step, shared.max_tokens, Basis::kQ8, shared.device.gate,
                                       shared.device.up, shared.x.data(), got_gate_up.data()});
          },
          got_gate_up);
      RunUnderAll(
          [&] {
            return LaunchSharedDown(
                nullptr, kind,
                {&shared.step, shared.max_tokens, shared.hidden, Basis::kBf16, shared.device.down,
                 shared.activations.data(), shares.empty() ? nullptr : shares.data(), got_down.data()});
          },
          got_down);
      const auto expect = [&](const std::vector<float>& got, const std::vector<float>& expected, double tolerance) {
        for (size_t i = 0; i < got.size(); ++i) {
          if (i >= expected.size()) {
            EXPECT_TRUE(IsUnwritten(got[i])) << i;
          } else if (kind == ProductKind::kReference) {
            EXPECT_EQ(std::memcmp(&got[i], &expected[i], 4), 0) << i << ": " << got[i] << ", " << expected[i];
          } else {
            EXPECT_NEAR(double{got[i]}, double{expected[i]}, tolerance) << i;
          }
        }
      };
      expect(got_gate_up, gate_up, 2e-5);  // 64 products of about 2^-5, 22 roundings
      expect(got_down, down, 2e-5);
    }
  }
}

constexpr runtime::FixedPoint kWide = {30, 1024};

TEST(MatrixKernelsTest, ExactSums) {
  for (const uint32_t tokens : {0u, 1u, 5u}) {
    for (const bool biases : {false, true}) {
      Sizes sizes;
      sizes.tokens = tokens;
      sizes.max_tokens = 5;
      sizes.hidden = 100;
      sizes.columns = 70;
      sizes.biases = biases;
      sizes.basis = biases ? Basis::kQ8 : Basis::kBf16;
      const Layer layer(StorageNamed("bf16"), StorageNamed("bf16"), sizes);
      const std::vector<uint32_t> segments = {1, 32, 64, 65, 70};
      const uint64_t max_slots = uint64_t{sizes.max_tokens} * sizes.top_k;
      std::vector<int64_t> expected = Unwritten<int64_t>(max_slots * sizes.hidden);
      runtime::StepCounters counters;
      ASSERT_TRUE(SingleSteps()
                      .DownExact({layer.HostShape(), layer.HostOwned(), biases, biases, sizes.basis, kWide, segments,
                                  layer.experts, absl::MakeConstSpan(layer.activations).first(layer.slots() * 70),
                                  absl::MakeSpan(expected).first(layer.slots() * sizes.hidden), &counters})
                      .ok());
      std::vector<int64_t> out = Unwritten<int64_t>(max_slots * sizes.hidden);
      std::vector<uint64_t> failures = Unwritten<uint64_t>(max_slots * DownExactFailures(sizes.hidden));
      std::vector<uint32_t> marks = Unwritten<uint32_t>(max_slots);
      RunUnderAll(
          [&] {
            return LaunchDownExact(
                nullptr, {layer.Grid(), layer.Owned(), biases, biases, sizes.basis, kWide, segments.data(),
                          static_cast<uint32_t>(segments.size()), layer.device_experts.data(), layer.activations.data(),
                          out.data(), failures.data(), marks.data()});
          },
          out, failures, marks);
      EXPECT_TRUE(SameBytes(out, expected)) << tokens;
      for (uint64_t i = 0; i < failures.size(); ++i) {
        if (i < layer.slots() * DownExactFailures(sizes.hidden)) {
          EXPECT_EQ(failures[i], 0u) << i;
        } else {
          EXPECT_TRUE(IsUnwritten(failures[i])) << i;
        }
      }
      for (uint64_t slot = 0; slot < max_slots; ++slot) {
        EXPECT_EQ(marks[slot] == 1, slot < layer.slots() && layer.LocalOf(slot) >= 0) << slot;
      }
    }
  }
}

TEST(MatrixKernelsTest, ExactSumsOfTheSharedExpert) {
  for (const SharedCase& shared : SharedCases()) {
    std::vector<uint32_t> segments;
    if (shared.columns > 4) segments.push_back(4);
    if (shared.columns > 0) segments.push_back(shared.columns);
    std::vector<int64_t> expected(uint64_t{shared.tokens} * shared.hidden);
    ASSERT_TRUE(
        SingleSteps()
            .SharedDownExact({runtime::Shape(shared.tokens, 1, shared.hidden), Basis::kBf16, kWide, segments,
                              shared.shared, shared.HostActivations(), shared.HostX(), absl::MakeSpan(expected)})
            .ok());
    expected.resize(uint64_t{shared.max_tokens} * shared.hidden, -1);
    std::vector<int64_t> out = Unwritten<int64_t>(expected.size());
    std::vector<uint64_t> failures = Unwritten<uint64_t>(shared.max_tokens * SharedDownExactFailures(shared.hidden));
    const std::vector<float> shares = shared.Shares(ProductKind::kReference);
    RunUnderAll(
        [&] {
          return LaunchSharedDownExact(
              nullptr, {&shared.step, shared.max_tokens, shared.hidden, Basis::kBf16, kWide, segments.data(),
                        static_cast<uint32_t>(segments.size()), shared.device.down, shared.activations.data(),
                        shares.empty() ? nullptr : shares.data(), out.data(), failures.data()});
        },
        out, failures);
    EXPECT_TRUE(SameBytes(out, expected)) << shared.tokens;
    for (uint64_t i = 0; i < failures.size(); ++i) {
      EXPECT_EQ(failures[i], i < shared.tokens * SharedDownExactFailures(shared.hidden) ? 0 : ~uint64_t{0}) << i;
    }
  }
}

// The text that the first failure word stands for.
std::string FirstFailure(const std::vector<uint64_t>& failures, uint64_t words_of_token, uint64_t first_token,
                         const runtime::FixedPoint& fixed_point) {
  for (uint64_t i = 0; i < failures.size(); ++i) {
    if (failures[i] == 0) continue;
    EXPECT_EQ(FailureKindOf(failures[i]), FailureKind::kBound);
    const uint32_t expert = FailedExpert(failures[i]);
    return std::string(
        runtime::RefuseAddend(fixed_point, first_token + i / words_of_token,
                              expert == kSharedExpert ? "the shared expert" : absl::StrCat("expert ", expert),
                              std::bit_cast<float>(FailureDetail(failures[i])))
            .message());
  }
  return "";
}

TEST(MatrixKernelsTest, AnAddendThatIsNoneIsTheOneThatTheReferenceRefuses) {
  Sizes sizes;
  sizes.tokens = sizes.max_tokens = 4;
  sizes.hidden = 200;
  sizes.columns = 40;
  sizes.biases = true;
  const std::vector<uint32_t> segments = {8, 40};
  const auto check = [&](const Layer& layer, const runtime::FixedPoint& fixed_point) {
    std::vector<int64_t> out(layer.slots() * sizes.hidden);
    runtime::StepCounters counters;
    const absl::Status refused =
        SingleSteps().DownExact({layer.HostShape(), layer.HostOwned(), true, true, sizes.basis, fixed_point, segments,
                                 layer.experts, layer.activations, absl::MakeSpan(out), &counters});
    std::vector<uint64_t> failures = Unwritten<uint64_t>(layer.slots() * DownExactFailures(sizes.hidden));
    RunUnderAll(
        [&] {
          return LaunchDownExact(
              nullptr, {layer.Grid(), layer.Owned(), true, true, sizes.basis, fixed_point, segments.data(), 2,
                        layer.device_experts.data(), layer.activations.data(), out.data(), failures.data(), nullptr});
        },
        out, failures);
    EXPECT_EQ(FirstFailure(failures, sizes.top_k * DownExactFailures(sizes.hidden), layer.first_token, fixed_point),
              refused.message());
    return std::string(refused.message());
  };
  const Storage bf16 = StorageNamed("bf16");
  EXPECT_EQ(check({bf16, bf16, sizes}, kWide), "");
  // Bounds that ever fewer addends reach, the biases among them: about 2^-5.
  std::vector<std::string> refusals;
  for (const double bound : {1e-3, 0.02, 0.05, 0.3, 0.4, 0.5}) {
    refusals.push_back(check({bf16, bf16, sizes}, {30, bound}));
    EXPECT_NE(refusals.back(), "") << bound;
  }
  EXPECT_GT(std::unique(refusals.begin(), refusals.end()) - refusals.begin(), 3);
  Layer infinite(bf16, bf16, sizes);
  const uint64_t at = 5;  // a slot that is owned, an element of its second segment
  ASSERT_GE(infinite.LocalOf(at), 0);
  infinite.activations[at * sizes.columns + 30] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(check(infinite, kWide), "token 9: the output of expert 3 is not finite");
}

TEST(MatrixKernelsTest, TilesAreOfManyRowsOfOneMatrixAlone) {
  EXPECT_EQ(LaunchGateUp(nullptr, ProductKind::kTiles, {}), cudaErrorInvalidValue);
  EXPECT_EQ(LaunchGateUpActivation(nullptr, ProductKind::kTiles, {}), cudaErrorInvalidValue);
  EXPECT_EQ(LaunchRouterLogits(nullptr, ProductKind::kTiles, {}), cudaErrorInvalidValue);
  EXPECT_EQ(LaunchSharedGate(nullptr, ProductKind::kTiles, {}), cudaErrorInvalidValue);
}

TEST(MatrixKernelsTest, MoreBlocksThanAGridHasAreRefused) {
  Sizes sizes;
  Layer layer(StorageNamed("bf16"), StorageNamed("bf16"), sizes);
  GateUpStep step;
  step.grid = layer.Grid();
  step.grid.max_tokens = 1u << 30;
  step.grid.top_k = 64;
  EXPECT_EQ(LaunchGateUp(nullptr, ProductKind::kLanes, step), cudaErrorInvalidConfiguration);
}

}  // namespace
}  // namespace meshseal::cuda
