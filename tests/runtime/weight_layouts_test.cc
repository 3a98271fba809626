// Every way in which a checkpoint may store a layer's weights: each rank's matrices are the parts of the tensors that
// plain indexing of the whole files gives, for every format whose blocks or scales matter, layout and cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "runtime/program/rank_facts.h"
#include "runtime/weights/rank_weights.h"
#include "runtime/weights/weight_files.h"
#include "schema/fingerprint.h"
#include "schema/float_bits.h"
#include "schema/meaning/shape_facts.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/plan_builder.h"

namespace meshseal::runtime {
namespace {

using support::PlanNumbers;
using support::TempFolder;

// How the tensors of a plan lie in the files.
struct Layout {
  const char* name = "";
  bool stacked = false;      // all experts in one tensor
  bool transposed = false;   // inputs before outputs
  bool interleaved = false;  // rows of fused gate and up alternate
};

Plan WithLayout(Plan plan, const Layout& layout) {
  for (TensorClass& tensor : plan.layer_classes[0].tensors) {
    const meaning::RoleFacts& facts = *meaning::FactsOf(tensor.role);
    if (facts.fused && layout.interleaved) {
      tensor.layout = GateUpLayout::kInterleaved;
      for (SideTensor& side : tensor.sides) {
        if (side.of == ScaleOf::kHalf) side.of = ScaleOf::kFused;
      }
    }
    if (facts.weight && layout.transposed) std::swap(tensor.shape[0], tensor.shape[1]);
    if (!facts.per_expert || !layout.stacked) continue;
    tensor.shape.insert(tensor.shape.begin(), ShapeAxis::kExperts);
    const auto without = [](std::string* name) { *name = absl::StrReplaceAll(*name, {{".{expert}", ""}}); };
    without(&tensor.name);
    for (SideTensor& side : tensor.sides) without(&side.name);
  }
  plan.execution_fingerprint = ExecutionFingerprint(plan);
  return plan;
}

struct File {
  StoredForm form;
  std::string bytes;
};

// Random bytes whose scales are numbers.
std::string RandomBytes(const StoredForm& form, bool scale, std::mt19937& random) {
  const uint64_t size = *BytesOf(form.dtype, *ElementsOf(form.shape));
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  const auto put = [&bytes](uint64_t at, float value) { std::memcpy(bytes.data() + at, &value, sizeof(value)); };
  switch (form.dtype) {
    case DType::kF32:
      for (uint64_t i = 0; i < size; i += 4) put(i, static_cast<float>(static_cast<int32_t>(random() % 2001) - 1000));
      break;
    case DType::kF8E4M3:
      for (char& byte : bytes) byte = static_cast<char>(scale ? byte & 0x3F : (byte & 0x7F) == 0x7F ? 0x11 : byte);
      break;
    case DType::kU8:
      if (!scale) break;
      for (char& byte : bytes) byte = static_cast<char>(120 + (byte & 15));
      break;
    case DType::kQ8_0:
      for (uint64_t i = 0; i < size; i += 34) bytes[i + 1] = static_cast<char>(bytes[i + 1] & 0x3F);
      break;
    default:
      ADD_FAILURE() << DTypeName(form.dtype);
  }
  return bytes;
}

using Files = std::map<std::string, File>;

Files MakeFiles(const Plan& plan, uint32_t seed) {
  std::mt19937 random(seed);
  Files files;
  for (const ReadTensor& read : ReadTensors(plan.hidden, plan.layer_classes)) {
    const SideTensor* const side = read.tensor.side;
    // Gate and up have a scale each.
    const bool both = side != nullptr && side->block_rows == 0 && read.tensor.tensor->layout != GateUpLayout::kInvalid;
    const StoredForm form = StoredForms(read.tensor, plan.weight_source)[both ? 2 : 0];
    files[read.name] = {form, RandomBytes(form, side != nullptr, random)};
  }
  return files;
}

void Write(const Plan& plan, const Files& files, const std::filesystem::path& folder) {
  if (plan.weight_source == WeightSource::kGguf) {
    support::GgufWriter writer;
    for (const auto& [name, file] : files) {
      const std::vector<uint64_t> ne(file.form.shape.rbegin(), file.form.shape.rend());
      writer.Tensor(name, file.form.dtype, ne, file.bytes);
    }
    support::WriteFile(folder / "model.gguf", writer.Bytes());
    return;
  }
  support::RawTensors tensors;
  for (const auto& [name, file] : files) tensors.push_back({name, file.form.dtype, file.form.shape, file.bytes});
  support::WriteFile(folder / "model.safetensors", support::EncodeSafetensors(tensors));
}

unsigned Byte(const std::string& bytes, uint64_t at) { return static_cast<unsigned char>(bytes[at]); }

double E4M3(unsigned code) {
  const int exponent = static_cast<int>(code >> 3 & 15);
  const int fraction = static_cast<int>(code & 7);
  const double value = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return (code & 0x80) != 0 ? -value : value;
}

double E2M1(unsigned code) {
  constexpr double kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return (code & 8) != 0 ? -kValues[code & 7] : kValues[code & 7];
}

// Element number `at` of a stored tensor, without its scale.
double ElementOf(const File& file, uint64_t at, bool packed) {
  const std::string& bytes = file.bytes;
  if (packed) return E2M1(at % 2 == 0 ? Byte(bytes, at / 2) & 15 : Byte(bytes, at / 2) >> 4);
  float value = 0;
  uint16_t half = 0;
  switch (file.form.dtype) {
    case DType::kF32:
      std::memcpy(&value, bytes.data() + 4 * at, 4);
      return static_cast<double>(value);
    case DType::kF8E4M3:
      return E4M3(Byte(bytes, at));
    case DType::kU8:
      return std::ldexp(1, static_cast<int>(Byte(bytes, at)) - 127);
    case DType::kQ8_0:
      std::memcpy(&half, bytes.data() + at / 32 * 34, 2);
      return static_cast<double>(F16ToFloat(half)) * static_cast<int8_t>(Byte(bytes, at / 32 * 34 + 2 + at % 32));
    default:
      return 0;
  }
}

uint64_t CeilDiv(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// Plain indexing of the whole tensors.
class Whole {
 public:
  Whole(const Plan& plan, const Files& files) : plan_(plan), c_(plan.layer_classes[0]), files_(files) {}

  // Output `row`, input `column` of an expert's matrix; of a half of a fused tensor. A vector has its elements in a
  // row.
  float At(TensorRole role, uint32_t half, uint32_t expert, uint64_t row, uint64_t column) const {
    const TensorClass& tensor = *meaning::FindTensor(c_, role);
    const meaning::RoleFacts& facts = *meaning::FactsOf(role);
    const bool vector = facts.inputs == ShapeAxis::kInvalid;
    if (vector) std::swap(row, column);
    const uint64_t outputs = Extent(facts.outputs);
    const uint64_t inputs = vector ? 1 : Extent(facts.inputs);
    const uint64_t own = facts.fused ? outputs / 2 : outputs;  // rows of a half
    const bool interleaved = tensor.layout == GateUpLayout::kInterleaved;
    const uint64_t stored_row = interleaved ? 2 * row + half : half * own + row;
    const bool stacked = tensor.shape.front() == ShapeAxis::kExperts;
    const bool transposed = !vector && tensor.shape.back() != facts.inputs;
    const auto place = [&](uint64_t slow, uint64_t fast, uint64_t rows, uint64_t columns) {
      const uint64_t matrix = stacked ? expert * rows * columns : 0;
      return matrix + (transposed ? fast * rows + slow : slow * columns + fast);
    };
    const File& file = files_.at(NameOf({{plan_.hidden, &c_, &tensor, nullptr}, 0, expert, {}}));
    const bool packed = file.form.dtype != tensor.dtype;
    double value = ElementOf(file, place(stored_row, column, outputs, inputs), packed);
    for (const SideTensor& side : tensor.sides) {
      const File& scales = files_.at(NameOf({{plan_.hidden, &c_, &tensor, &side}, 0, expert, {}}));
      uint64_t at = (stacked ? expert * (facts.fused ? 2 : 1) : 0) + half;
      if (side.block_rows > 0) {
        const bool halves = side.of == ScaleOf::kHalf;
        const uint64_t rows = halves ? 2 * CeilDiv(own, side.block_rows) : CeilDiv(outputs, side.block_rows);
        const uint64_t scale_row =
            halves ? half * CeilDiv(own, side.block_rows) + row / side.block_rows : stored_row / side.block_rows;
        at = place(scale_row, column / side.block_columns, rows, CeilDiv(inputs, side.block_columns));
      }
      value *= ElementOf(scales, at, false);
    }
    return static_cast<float>(value);
  }

 private:
  uint64_t Extent(ShapeAxis axis) const {
    return meaning::ExtentOf(axis, plan_, c_, c_.intermediate, c_.shared_expert.width);
  }

  const Plan& plan_;
  const LayerClass& c_;
  const Files& files_;
};

// Counts what differs, so that a fault is told once.
class Comparison {
 public:
  void Compare(const WeightMatrix& matrix, uint32_t first_row, uint32_t rows, uint32_t first_column, uint32_t columns,
               const std::function<float(uint64_t, uint64_t)>& expected) {
    ++matrices_;
    ASSERT_EQ(matrix.rows, rows);
    ASSERT_EQ(matrix.columns, columns);
    std::vector<float> row(columns);
    for (uint32_t r = 0; r < rows; ++r) {
      matrix.Row(r, absl::MakeSpan(row));
      for (uint32_t c = 0; c < columns; ++c) {
        const float wanted = expected(first_row + r, first_column + c);
        ASSERT_EQ(row[c], wanted) << "row " << r << ", column " << c << " of matrix " << matrices_;
      }
    }
  }
  size_t matrices() const { return matrices_; }

 private:
  size_t matrices_ = 0;
};

void CheckRank(const SealedPlan& sealed, uint32_t rank, const Files& files, const WeightFiles& opened) {
  const Plan& plan = sealed.plan();
  const LayerClass& c = plan.layer_classes[0];
  const Whole whole(plan, files);
  absl::StatusOr<RankWeights> weights = RankWeights::Reserve(sealed, rank);
  ASSERT_TRUE(weights.ok()) << weights.status();
  ASSERT_EQ(weights->resident_bytes(), plan.memory[rank].weights);
  const absl::Status loaded = weights->Load(opened, 1 + rank % 3, nullptr);
  ASSERT_TRUE(loaded.ok()) << loaded;
  const Coordinate at = CoordinateOf(plan.degrees, rank);
  const ColumnRange own = ColumnsOf(c, at.tp);
  const ColumnRange shared = SharedColumnsOf(c, plan.degrees, at);
  const LayerWeights& view = *weights->Layer(0);
  ASSERT_EQ(view.experts[0].down.planes.are_there(), plan.limits.repack != Repack::kNone);
  const std::vector<uint32_t> held = LocalExperts(c, at.ep);
  ASSERT_EQ(view.experts.size(), held.size());
  Comparison comparison;
  const auto has = [&](TensorRole role) { return meaning::FindTensor(c, role) != nullptr; };
  const auto value = [&](TensorRole role, uint32_t half, uint32_t expert) {
    return [&whole, role, half, expert](uint64_t row, uint64_t column) {
      return whole.At(role, half, expert, row, column);
    };
  };
  const bool fused = has(TensorRole::kGateUp);
  const TensorRole gate = fused ? TensorRole::kGateUp : TensorRole::kGate;
  const TensorRole up = fused ? TensorRole::kGateUp : TensorRole::kUp;
  const uint32_t second = fused ? 1 : 0;
  for (size_t local = 0; local < held.size(); ++local) {
    const ExpertWeights& expert = view.experts[local];
    const uint32_t e = held[local];
    comparison.Compare(expert.gate, own.begin, own.size(), 0, plan.hidden, value(gate, 0, e));
    comparison.Compare(expert.up, own.begin, own.size(), 0, plan.hidden, value(up, second, e));
    comparison.Compare(expert.down, 0, plan.hidden, own.begin, own.size(), value(TensorRole::kDown, 0, e));
    if (!has(TensorRole::kDownBias)) continue;
    const TensorRole gate_bias = fused ? TensorRole::kGateUpBias : TensorRole::kGateBias;
    const TensorRole up_bias = fused ? TensorRole::kGateUpBias : TensorRole::kUpBias;
    comparison.Compare(expert.gate_bias, 0, 1, own.begin, own.size(), value(gate_bias, 0, e));
    comparison.Compare(expert.up_bias, 0, 1, own.begin, own.size(), value(up_bias, second, e));
    comparison.Compare(expert.down_bias, 0, 1, 0, plan.hidden, value(TensorRole::kDownBias, 0, e));
  }
  if (c.shared_expert.width > 0) {
    const TensorRole shared_gate = fused ? TensorRole::kSharedGateUp : TensorRole::kSharedGate;
    const TensorRole shared_up = fused ? TensorRole::kSharedGateUp : TensorRole::kSharedUp;
    if (shared.size() == 0) {
      EXPECT_TRUE(view.shared.gate.empty());
      EXPECT_TRUE(view.shared.up.empty());
      EXPECT_TRUE(view.shared.down.empty());
    } else {
      comparison.Compare(view.shared.gate, shared.begin, shared.size(), 0, plan.hidden, value(shared_gate, 0, 0));
      comparison.Compare(view.shared.up, shared.begin, shared.size(), 0, plan.hidden, value(shared_up, second, 0));
      comparison.Compare(view.shared.down, 0, plan.hidden, shared.begin, shared.size(),
                         value(TensorRole::kSharedDown, 0, 0));
    }
  }
  comparison.Compare(view.router, 0, c.experts, 0, plan.hidden, value(TensorRole::kRouter, 0, 0));
  EXPECT_GE(comparison.matrices(), 1 + 3 * held.size());
}

PlanNumbers Format(DType weight, uint32_t hidden, uint32_t intermediate, uint32_t unit) {
  PlanNumbers n;
  n.experts = 4;
  n.hidden = hidden;
  n.intermediate = intermediate;
  n.shared_width = intermediate;
  n.weight_dtype = weight;
  n.column_unit = unit;
  n.biases = true;
  n.decode_tokens = n.prefill_tokens = n.prefill_chunk = 2;
  return n;
}

TEST(WeightLayouts, EveryRankHasItsPartsOfEveryLayout) {
  struct Case {
    const char* name;
    PlanNumbers numbers;
    bool transposes;  // its blocks lie along the inputs, and cannot
  };
  std::vector<Case> cases = {
      {"f32", Format(DType::kInvalid, 6, 11, 1), true},
      {"f32, square", Format(DType::kInvalid, 8, 8, 1), true},
      {"f8_e4m3 in blocks of 4", Format(DType::kF8E4M3, 10, 24, 4), true},
      {"f8_e4m3 with one scale", Format(DType::kF8E4M3, 6, 11, 1), true},
      {"mxfp4", Format(DType::kMxfp4, 32, 96, 32), false},
      {"nvfp4", Format(DType::kNvfp4, 32, 96, 16), false},
      {"q8_0", Format(DType::kQ8_0, 32, 96, 32), false},
      {"q8_0 repacked", Format(DType::kQ8_0, 32, 96, 32), false},
  };
  cases[3].numbers.scale_block = 0;
  cases[6].numbers.weight_source = cases[7].numbers.weight_source = WeightSource::kGguf;
  cases[7].numbers.repack = Repack::kByExpert;
  struct World {
    uint32_t tp;
    uint32_t ep;
    SharedPlacement placement;
  };
  const std::vector<World> worlds = {{1, 1, SharedPlacement::kSplit},
                                     {3, 1, SharedPlacement::kSplit},
                                     {1, 3, SharedPlacement::kSplit},
                                     {3, 2, SharedPlacement::kOwner}};
  size_t ranks = 0;
  for (const Case& c : cases) {
    for (const bool fused : {false, true}) {
      for (const bool stacked : {false, true}) {
        for (const bool transposed : {false, true}) {
          for (const bool interleaved : {false, true}) {
            if ((interleaved && !fused) || (transposed && !c.transposes)) continue;
            for (const World& world : worlds) {
              PlanNumbers n = c.numbers;
              n.fused = fused;
              n.tp = world.tp;
              n.ep = world.ep;
              n.shared_placement = world.placement;
              const Plan plan = WithLayout(support::BuildPlan(n), {c.name, stacked, transposed, interleaved});
              const SealedPlan sealed = support::Seal(plan);
              const Files files = MakeFiles(sealed.plan(), 7);
              const TempFolder folder;
              Write(sealed.plan(), files, folder.path());
              SCOPED_TRACE(absl::StrCat(c.name, fused ? ", fused" : "", stacked ? ", stacked" : "",
                                        transposed ? ", transposed" : "", interleaved ? ", interleaved" : "", ", tp ",
                                        n.tp, " ep ", n.ep));
              const absl::StatusOr<WeightFiles> opened = WeightFiles::Open(sealed, folder.path(), nullptr);
              ASSERT_TRUE(opened.ok()) << opened.status();
              for (uint32_t rank = 0; rank < n.tp * n.ep; ++rank) {
                SCOPED_TRACE(absl::StrCat("rank ", rank));
                ASSERT_NO_FATAL_FAILURE(CheckRank(sealed, rank, files, *opened));
                ++ranks;
              }
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(ranks, 4u * 12 * 13 + 4u * 6 * 13);
}

}  // namespace
}  // namespace meshseal::runtime
