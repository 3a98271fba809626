// Atoms against an enumeration of every element: which cell of the file holds it, and whose it is.
#include "schema/atom_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/reason.h"

namespace meshseal {
namespace {

using Axis = ShapeAxis;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Case {
  std::string name;
  TensorRole role = TensorRole::kGate;
  std::vector<ShapeAxis> shape;
  DType dtype = DType::kBf16;
  WeightSource source = WeightSource::kSafetensors;
  GateUpLayout layout = GateUpLayout::kInvalid;
  std::optional<SideTensor> side;
  size_t form = 0;             // of StoredForms
  std::vector<uint32_t> ends;  // of the cut axis
  uint32_t hidden = 6;
  uint32_t experts = 3;
  uint32_t shared = 0;
};

SideTensor Scale(DType dtype, uint32_t rows, uint32_t columns, ScaleOf of = ScaleOf::kInvalid) {
  SideTensor side;
  side.kind = SideKind::kScale;
  side.dtype = dtype;
  side.name = "scale";
  side.block_rows = rows;
  side.block_columns = columns;
  side.applies = ScaleApplies::kMultiply;
  side.of = of;
  return side;
}

// What stands in the file, element by element.
class Enumerated {
 public:
  explicit Enumerated(const Case& c) : c_(c) {
    layers_.experts = c.experts;
    layers_.intermediate = c.ends.empty() || c.shared > 0 ? 10 : c.ends.back();
    layers_.shared_expert.width = c.shared;
    layers_.top_k = 2;
    layers_.router.vocabulary = 11;
    TensorClass tensor;
    tensor.role = c.role;
    tensor.dtype = c.dtype;
    tensor.name = "t";
    tensor.shape = c.shape;
    tensor.layout = c.layout;
    if (c.side.has_value()) tensor.sides.push_back(*c.side);
    layers_.tensors = {tensor};
    of_ = {c.hidden, &layers_, &layers_.tensors[0], nullptr};
    weight_forms_ = StoredForms(of_, c.source);
    if (c.side.has_value()) of_.side = &layers_.tensors[0].sides[0];
  }

  const LayerTensor& of() const { return of_; }
  StoredForm Form() const { return StoredForms(of_, c_.source).at(c_.form); }

  // Offset and size of each cell of the atom, in order.
  std::vector<std::pair<uint64_t, uint64_t>> Cells(uint64_t expert, const Interval& columns) const {
    std::set<std::pair<uint32_t, uint64_t>> cells;  // part and offset
    uint64_t size = 0;
    std::vector<uint64_t> lengths;
    for (const ShapeAxis axis : c_.shape) lengths.push_back(LengthOf(axis));
    std::vector<uint64_t> at(lengths.size(), 0);
    for (uint64_t element = 0; element < *ElementsOf(lengths); ++element) {
      uint64_t rest = element;
      for (size_t i = lengths.size(); i-- > 0;) {
        at[i] = rest % lengths[i];
        rest /= lengths[i];
      }
      const auto [part, offset] = CellOf(element, at, expert, columns, &size);
      if (part < 2) cells.emplace(part, offset);
    }
    std::vector<std::pair<uint64_t, uint64_t>> in_order;
    for (const auto& [part, offset] : cells) in_order.emplace_back(offset, size);
    return in_order;
  }

 private:
  uint64_t LengthOf(ShapeAxis axis) const {
    switch (axis) {
      case Axis::kHidden:
        return c_.hidden;
      case Axis::kIntermediate:
        return layers_.intermediate;
      case Axis::kTwoIntermediate:
        return uint64_t{2} * layers_.intermediate;
      case Axis::kExperts:
        return c_.experts;
      case Axis::kShared:
        return c_.shared;
      case Axis::kTwoShared:
        return uint64_t{2} * c_.shared;
      case Axis::kTokenIds:
        return 11;
      case Axis::kTopK:
        return 2;
      default:
        return 1;
    }
  }

  // The part (2: none, not of the atom) and the byte of the file where the cell of an element begins.
  std::pair<uint32_t, uint64_t> CellOf(uint64_t element, const std::vector<uint64_t>& at, uint64_t expert,
                                       const Interval& columns, uint64_t* size) const {
    const std::pair<uint32_t, uint64_t> none = {2, 0};
    uint32_t part = 0;
    uint64_t of_expert = 0;
    uint64_t column = 0;
    uint64_t cut_element = 0;
    uint64_t hidden = 0;
    bool stacked = false;
    bool hidden_last = false;
    for (size_t i = 0; i < at.size(); ++i) {
      const ShapeAxis axis = c_.shape[i];
      if (axis == Axis::kExperts && i == 0 && c_.role != TensorRole::kRouter) {
        stacked = true;
        of_expert = at[i];
        if (at[i] != expert) return none;
      } else if (axis == Axis::kIntermediate || axis == Axis::kShared) {
        column = cut_element = at[i];
        if (column < columns.first || column >= columns.last) return none;
      } else if (axis == Axis::kTwoIntermediate || axis == Axis::kTwoShared) {
        cut_element = at[i];
        const uint64_t width = LengthOf(axis) / 2;
        const bool halves = c_.layout == GateUpLayout::kHalves;
        part = halves ? static_cast<uint32_t>(at[i] / width) : 0;
        column = halves ? at[i] % width : at[i] / 2;
        if (column < columns.first || column >= columns.last) return none;
      } else if (axis == Axis::kHidden) {
        hidden = at[i];
        hidden_last = i + 1 == at.size();
      }
    }
    if (!c_.side.has_value()) {
      // Elements share cells along the last axis.
      const DTypeRow& row = *FindDType(Form().dtype);
      const bool packed = Form().dtype != c_.dtype;
      const uint64_t per_cell = packed ? 2 : row.block_elements;
      *size = packed ? 1 : row.block_bits / 8;
      return {part, element / per_cell * *size};
    }
    const SideTensor& side = *c_.side;
    *size = FindDType(side.dtype)->block_bits / 8;
    if (side.block_rows == 0) return {0, stacked ? of_expert * *size : 0};
    // Rows of the grid count outputs, columns of it inputs.
    const bool down = c_.role == TensorRole::kDown || c_.role == TensorRole::kSharedDown;
    const uint64_t cut_block = down ? side.block_columns : side.block_rows;
    const uint64_t hidden_block = down ? side.block_rows : side.block_columns;
    const uint64_t width = c_.shared > 0 ? c_.shared : layers_.intermediate;
    const bool fused = c_.layout != GateUpLayout::kInvalid;
    const auto ceil = [](uint64_t a, uint64_t b) { return (a + b - 1) / b; };
    uint64_t cut_cell = cut_element / cut_block;
    uint64_t cut_cells = ceil(fused ? 2 * width : width, cut_block);
    if (side.of == ScaleOf::kHalf) {
      cut_cell = part * ceil(width, cut_block) + column / cut_block;
      cut_cells = 2 * ceil(width, cut_block);
    }
    const uint64_t hidden_cell = hidden / hidden_block;
    const uint64_t hidden_cells = ceil(c_.hidden, hidden_block);
    const uint64_t cell = hidden_last ? cut_cell * hidden_cells + hidden_cell : hidden_cell * cut_cells + cut_cell;
    return {part, (of_expert * cut_cells * hidden_cells + cell) * *size};
  }

  const Case& c_;
  LayerClass layers_;
  LayerTensor of_;
  std::vector<StoredForm> weight_forms_;
};

// Byte by byte.
std::vector<uint64_t> Expanded(const std::vector<ByteRuns>& runs) {
  std::vector<uint64_t> bytes;
  for (const ByteRuns& run : runs) {
    for (uint64_t row = 0; row < run.count; ++row) {
      for (uint64_t i = 0; i < run.bytes; ++i) bytes.push_back(run.begin + row * run.stride + i);
    }
  }
  return bytes;
}

std::vector<Case> Cases() {
  const std::vector<Axis> by_name = {Axis::kIntermediate, Axis::kHidden};
  const std::vector<Axis> stacked = {Axis::kExperts, Axis::kIntermediate, Axis::kHidden};
  const std::vector<Axis> fused = {Axis::kExperts, Axis::kTwoIntermediate, Axis::kHidden};
  const std::vector<Axis> fused_turned = {Axis::kExperts, Axis::kHidden, Axis::kTwoIntermediate};
  const std::vector<Axis> down = {Axis::kExperts, Axis::kHidden, Axis::kIntermediate};
  const auto st = WeightSource::kSafetensors;
  const auto none = GateUpLayout::kInvalid;
  const auto halves = GateUpLayout::kHalves;
  const auto pairs = GateUpLayout::kInterleaved;
  const auto bf16 = DType::kBf16;
  const auto f8 = DType::kF8E4M3;
  const auto f32 = DType::kF32;
  using Role = TensorRole;
  std::vector<Case> cases = {
      {"gate", Role::kGate, by_name, bf16, st, none, {}, 0, {4, 7, 10}},
      {"gate, square", Role::kGate, by_name, bf16, st, none, {}, 0, {2, 6}},
      {"gate, turned", Role::kGate, {Axis::kHidden, Axis::kIntermediate}, bf16, st, none, {}, 0, {2, 6}},
      {"gate, stacked", Role::kGate, stacked, f32, st, none, {}, 0, {1, 5}, 3},
      {"up, stacked, turned",
       Role::kUp,
       {Axis::kExperts, Axis::kHidden, Axis::kIntermediate},
       f32,
       st,
       none,
       {},
       0,
       {3, 5},
       7},
      {"down", Role::kDown, {Axis::kHidden, Axis::kIntermediate}, bf16, st, none, {}, 0, {4, 7, 10}},
      {"down, square", Role::kDown, {Axis::kHidden, Axis::kIntermediate}, bf16, st, none, {}, 0, {2, 6}},
      {"down, stacked", Role::kDown, down, bf16, st, none, {}, 0, {4, 7, 10}},
      {"down, stacked, turned", Role::kDown, stacked, bf16, st, none, {}, 0, {4, 7, 10}, 5},
      {"down, whole", Role::kDown, down, bf16, st, none, {}, 0, {10}},
      {"halves", Role::kGateUp, fused, bf16, st, halves, {}, 0, {4, 7, 10}},
      {"halves, whole", Role::kGateUp, fused, bf16, st, halves, {}, 0, {7}},
      {"halves, by name", Role::kGateUp, {Axis::kTwoIntermediate, Axis::kHidden}, bf16, st, halves, {}, 0, {4, 7}},
      {"halves, turned", Role::kGateUp, fused_turned, bf16, st, halves, {}, 0, {4, 7, 10}},
      {"halves, turned, whole", Role::kGateUp, fused_turned, bf16, st, halves, {}, 0, {10}},
      {"halves, turned, square", Role::kGateUp, fused_turned, bf16, st, halves, {}, 0, {1, 3}},
      {"pairs", Role::kGateUp, fused, bf16, st, pairs, {}, 0, {4, 7, 10}},
      {"pairs, turned", Role::kGateUp, fused_turned, bf16, st, pairs, {}, 0, {4, 7, 10}},
      {"gate bias", Role::kGateBias, {Axis::kExperts, Axis::kIntermediate}, bf16, st, none, {}, 0, {4, 7}},
      {"gate bias, by name", Role::kGateBias, {Axis::kIntermediate}, bf16, st, none, {}, 0, {4, 7}},
      {"bias in halves", Role::kGateUpBias, {Axis::kExperts, Axis::kTwoIntermediate}, bf16, st, halves, {}, 0, {4, 7}},
      {"bias in pairs", Role::kGateUpBias, {Axis::kExperts, Axis::kTwoIntermediate}, bf16, st, pairs, {}, 0, {4, 7}},
      {"down bias", Role::kDownBias, {Axis::kExperts, Axis::kHidden}, bf16, st, none, {}, 0, {}},
      {"router", Role::kRouter, {Axis::kExperts, Axis::kHidden}, bf16, st, none, {}, 0, {}},
      {"token table", Role::kTokenTable, {Axis::kTokenIds, Axis::kTopK}, DType::kI64, st, none, {}, 0, {}},
      {"shared gate", Role::kSharedGate, {Axis::kShared, Axis::kHidden}, bf16, st, none, {}, 0, {4, 7}, 6, 3, 7},
      {"shared halves",
       Role::kSharedGateUp,
       {Axis::kTwoShared, Axis::kHidden},
       bf16,
       st,
       halves,
       {},
       0,
       {4, 7},
       6,
       3,
       7},
      {"shared down", Role::kSharedDown, {Axis::kHidden, Axis::kShared}, bf16, st, none, {}, 0, {4, 7}, 6, 3, 7},
      {"q8_0 gate", Role::kGate, stacked, DType::kQ8_0, WeightSource::kGguf, none, {}, 0, {3, 5}, 64},
      {"q8_0 down", Role::kDown, down, DType::kQ8_0, WeightSource::kGguf, none, {}, 0, {64, 96}, 5},
      {"q4_k down", Role::kDown, down, DType::kQ4K, WeightSource::kGguf, none, {}, 0, {256, 768}, 2},
      {"mxfp4 blocks, down", Role::kDown, down, DType::kMxfp4, WeightSource::kGguf, none, {}, 0, {32, 96}, 2},
      // Scales of float8, of every grid.
      {"tiles of gate", Role::kGate, by_name, f8, st, none, Scale(bf16, 4, 4), 0, {4, 8, 10}},
      {"tiles of down", Role::kDown, down, f8, st, none, Scale(f32, 4, 4), 0, {4, 8, 10}},
      {"tiles of down, turned", Role::kDown, stacked, f8, st, none, Scale(f32, 4, 2), 0, {4, 8, 10}},
      {"tiles of halves, each", Role::kGateUp, fused, f8, st, halves, Scale(f32, 4, 4, ScaleOf::kHalf), 0, {4, 8, 10}},
      {"tiles of halves, fused",
       Role::kGateUp,
       fused,
       f8,
       st,
       halves,
       Scale(f32, 4, 4, ScaleOf::kFused),
       0,
       {4, 8, 12}},
      {"tiles of halves, turned",
       Role::kGateUp,
       fused_turned,
       f8,
       st,
       halves,
       Scale(f32, 4, 4, ScaleOf::kHalf),
       0,
       {4, 8, 10}},
      {"tiles of pairs", Role::kGateUp, fused, f8, st, pairs, Scale(f32, 4, 4, ScaleOf::kFused), 0, {2, 8, 9}},
      {"a scale a row", Role::kGateUp, fused, f8, st, halves, Scale(f32, 1, 6), 0, {3, 7}},
      {"tiles of shared halves",
       Role::kSharedGateUp,
       {Axis::kTwoShared, Axis::kHidden},
       f8,
       st,
       halves,
       Scale(f32, 4, 4, ScaleOf::kHalf),
       0,
       {4, 7},
       6,
       3,
       7},
  };
  // Scales of 4-bit weights; the weights follow below.
  const SideTensor scale = Scale(DType::kU8, 1, 32);
  cases.push_back({"scales of mxfp4 halves", Role::kGateUp, fused, DType::kMxfp4, st, halves, scale, 0, {3, 5}, 64});
  cases.push_back({"scales of mxfp4 down", Role::kDown, down, DType::kMxfp4, st, none, scale, 0, {32, 96}, 3});
  return cases;
}

void Check(const Case& c, const Enumerated& file, const LayerTensor& of, const StoredForm& form) {
  const absl::StatusOr<StoredTensor> stored = StoredTensor::Of(of, c.source, form);
  ASSERT_TRUE(stored.ok()) << c.name << ": " << stored.status();
  EXPECT_EQ(stored->bytes(), *BytesOf(form.dtype, *ElementsOf(form.shape))) << c.name;
  EXPECT_EQ(stored->columns(), c.ends.empty() ? 0 : c.ends.back()) << c.name;
  std::set<uint64_t> seen;
  for (uint64_t expert = 0; expert < stored->experts(); ++expert) {
    uint32_t first = 0;
    for (const uint32_t end : c.ends.empty() ? std::vector<uint32_t>{1} : c.ends) {
      const Interval columns = {first, end};
      first = end;
      std::vector<uint64_t> expected;
      for (const auto& [offset, size] : file.Cells(expert, columns)) {
        for (uint64_t i = 0; i < size; ++i) expected.push_back(offset + i);
      }
      const auto atom = stored->Atom(expert, columns);
      ASSERT_TRUE(atom.ok()) << c.name << ": " << atom.status();
      EXPECT_LE(atom->size(), 2u);
      EXPECT_EQ(atom->front().bytes, atom->back().bytes) << c.name;
      EXPECT_EQ(Expanded(*atom), expected) << c.name << " expert " << expert << " columns to " << end;
      for (const uint64_t byte : expected) EXPECT_TRUE(seen.insert(byte).second) << c.name << ": byte " << byte;
    }
  }
  EXPECT_EQ(seen.size(), stored->bytes()) << c.name << ": every byte belongs to one atom";
}

TEST(AtomBytes, AreThoseOfTheirElements) {
  for (const Case& c : Cases()) {
    const Enumerated file(c);
    Check(c, file, file.of(), file.Form());
  }
}

// 4-bit weights with their scales apart, in each form: bytes of two, whole elements, blocks as an axis.
TEST(AtomBytes, OfPackedWeightsAreThoseOfTheirElements) {
  size_t checked = 0;
  for (Case c : Cases()) {
    if (c.dtype != DType::kMxfp4 || !c.side.has_value()) continue;
    for (size_t form = 0; form < 4; ++form) {
      const Enumerated with_scale(c);
      LayerTensor of = with_scale.of();
      of.side = nullptr;
      const std::vector<StoredForm> forms = StoredForms(of, c.source);
      ASSERT_EQ(forms.size(), 4u);
      Case alone = c;
      alone.side.reset();
      // The enumeration asks for the form by its number; without the scale there are three, of one geometry.
      alone.form = form == 3 ? 0 : form;
      const Enumerated file(alone);
      Check(alone, file, of, forms[form]);
      ++checked;
    }
  }
  EXPECT_EQ(checked, 8u);
}

StoredTensor Stored(const Enumerated& file, const Case& c) {
  return StoredTensor::Of(file.of(), c.source, file.Form()).value();
}

TEST(AtomBytes, ScalarsBelongToEveryAtomOfTheirExpert) {
  Case c = {"",
            TensorRole::kGateUp,
            {Axis::kExperts, Axis::kTwoIntermediate, Axis::kHidden},
            DType::kF8E4M3,
            WeightSource::kSafetensors,
            GateUpLayout::kHalves,
            Scale(DType::kF32, 0, 0),
            0,
            {4, 8}};
  // [E], [E, 1], [E, 2], and one for all: [], [1].
  const std::vector<uint64_t> experts = {3, 3, 3, 1, 1};
  const std::vector<uint64_t> bytes = {4, 4, 8, 4, 4};
  for (size_t form = 0; form < experts.size(); ++form) {
    c.form = form;
    const Enumerated file(c);
    ASSERT_EQ(StoredForms(file.of(), c.source).size(), experts.size());
    const StoredTensor stored = Stored(file, c);
    EXPECT_EQ(stored.experts(), experts[form]);
    EXPECT_EQ(stored.columns(), 0u);
    const uint64_t begin = experts[form] == 1 ? 0 : 2 * bytes[form];
    EXPECT_THAT(*stored.Atom(2, {4, 8}), ElementsAre(ByteRuns{begin, bytes[form], bytes[form], 1})) << form;
  }
  c.shape.erase(c.shape.begin());
  const Enumerated by_name(c);
  EXPECT_THAT(StoredForms(by_name.of(), c.source),
              ElementsAre(StoredForm{DType::kF32, {}}, StoredForm{DType::kF32, {1}}, StoredForm{DType::kF32, {2}}));
}

TEST(AtomBytes, ATileOfGateAndUpIsForAllColumnsAlone) {
  const Case c = {"",
                  TensorRole::kGateUp,
                  {Axis::kTwoIntermediate, Axis::kHidden},
                  DType::kF8E4M3,
                  WeightSource::kSafetensors,
                  GateUpLayout::kHalves,
                  Scale(DType::kF32, 4, 6, ScaleOf::kFused),
                  0,
                  {10}};
  const Enumerated file(c);
  const StoredTensor stored = Stored(file, c);
  EXPECT_THAT(*stored.Atom(0, {0, 10}), ElementsAre(ByteRuns{0, 4, 4, 5}));
  const absl::Status refused = stored.Atom(0, {0, 4}).status();
  EXPECT_EQ(ReasonOf(refused), Reason::kWeightsTensor);
  EXPECT_EQ(refused.message(), "columns [0,4) of 10 end inside a block of 4 elements");
}

TEST(AtomBytes, ACutInsideABlockIsRefused) {
  const Case c = {"",
                  TensorRole::kDown,
                  {Axis::kHidden, Axis::kIntermediate},
                  DType::kQ8_0,
                  WeightSource::kGguf,
                  GateUpLayout::kInvalid,
                  {},
                  0,
                  {96}};
  const Enumerated file(c);
  const StoredTensor stored = Stored(file, c);
  EXPECT_TRUE(stored.Atom(0, {32, 64}).ok());
  for (const Interval& columns : {Interval{16, 64}, Interval{32, 65}}) {
    const absl::Status refused = stored.Atom(0, columns).status();
    EXPECT_EQ(ReasonOf(refused), Reason::kWeightsTensor);
    EXPECT_EQ(refused.message(),
              absl::StrCat("columns [", columns.first, ",", columns.last, ") of 96 end inside a block of 32 elements"));
  }
}

TEST(AtomBytes, WhatIsNoneOfTheFormsIsRefused) {
  const Case c = {"",
                  TensorRole::kGate,
                  {Axis::kIntermediate, Axis::kHidden},
                  DType::kBf16,
                  WeightSource::kSafetensors,
                  GateUpLayout::kInvalid,
                  {},
                  0,
                  {10}};
  const Enumerated file(c);
  for (const StoredForm& form : {StoredForm{DType::kF16, {10, 6}}, StoredForm{DType::kBf16, {6, 10}},
                                 StoredForm{DType::kBf16, {1, 10, 6}}, StoredForm{DType::kBf16, {60}}}) {
    const absl::StatusOr<StoredTensor> stored = StoredTensor::Of(file.of(), c.source, form);
    EXPECT_EQ(ReasonOf(stored.status()), Reason::kWeightsTensor);
  }
  EXPECT_EQ(StoredTensor::Of(file.of(), c.source, {DType::kBf16, {6, 10}}).status().message(),
            "bf16 [6, 10] in the file, expected bf16 [10, 6]");
}

TEST(AtomBytes, GgufDropsSlowAxesOfLengthOne) {
  const Case c = {"",
                  TensorRole::kGate,
                  {Axis::kExperts, Axis::kIntermediate, Axis::kHidden},
                  DType::kF32,
                  WeightSource::kGguf,
                  GateUpLayout::kInvalid,
                  {},
                  0,
                  {1, 2},
                  6,
                  1};
  const Enumerated file(c);
  const StoredTensor stored = StoredTensor::Of(file.of(), c.source, {DType::kF32, {2, 6}}).value();
  EXPECT_THAT(*stored.Atom(0, {1, 2}), ElementsAre(ByteRuns{24, 24, 24, 1}));
  EXPECT_FALSE(StoredTensor::Of(file.of(), WeightSource::kSafetensors, {DType::kF32, {2, 6}}).ok());
}

TEST(AtomBytes, ExpertsAndColumnsOutsideAreOurOwnFault) {
  const Case c = {"",
                  TensorRole::kGate,
                  {Axis::kExperts, Axis::kIntermediate, Axis::kHidden},
                  DType::kF32,
                  WeightSource::kSafetensors,
                  GateUpLayout::kInvalid,
                  {},
                  0,
                  {10}};
  const Enumerated file(c);
  const StoredTensor stored = Stored(file, c);
  EXPECT_EQ(ReasonOf(stored.Atom(3, {0, 10}).status()), Reason::kBug);
  EXPECT_EQ(ReasonOf(stored.Atom(0, {0, 11}).status()), Reason::kBug);
  EXPECT_EQ(ReasonOf(stored.Atom(0, {4, 4}).status()), Reason::kBug);
}

TEST(AtomBytes, UnknownRolesHaveNoForm) {
  LayerClass layers;
  TensorClass tensor;
  tensor.shape = {Axis::kHidden};
  tensor.dtype = DType::kF32;
  EXPECT_THAT(StoredForms({4, &layers, &tensor, nullptr}, WeightSource::kSafetensors), IsEmpty());
  EXPECT_FALSE(StoredTensor::Of({4, &layers, &tensor, nullptr}, WeightSource::kSafetensors, {DType::kF32, {4}}).ok());
}

}  // namespace
}  // namespace meshseal
