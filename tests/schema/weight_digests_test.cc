// Digest lists: the trees against vectors made elsewhere, the leaves of small checkpoints against their bytes, and that
// nothing gets past the seal of a list.
#include "schema/weight_digests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/checkpoint_listing.h"
#include "schema/digests_codec.h"
#include "schema/hash_tensors.h"
#include "schema/reason.h"
#include "schema/seal.h"
#include "schema/sealed_digests.h"
#include "schema/sealed_plan.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/plan_builder.h"
#include "tests/support/sanitized.h"

namespace meshseal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Span<const std::byte> BytesIn(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// From Python's hashlib, with the encoding that weight_digests.h writes down.
TEST(WeightDigests, TreesAreThoseOfAnotherProgram) {
  EXPECT_EQ(HexOf(HashLeaf(BytesIn(""))), "3e7077fd2f66d689e0cee6a7cf5b37bf2dca7c979af356d0a31cbc5c85605c7d");
  EXPECT_EQ(HexOf(HashLeaf(BytesIn("abc"))), "7e47cb99d8e4af79b92f2b180f4c9324720a2d16aa3b2e4aaed908e654902595");
  LeafHasher pieces(3);
  pieces.Update(BytesIn("a"));
  pieces.Update(BytesIn(""));
  pieces.Update(BytesIn("bc"));
  EXPECT_EQ(pieces.Finish(), HashLeaf(BytesIn("abc")));
  const std::vector<std::pair<size_t, const char*>> roots = {
      {1, "fa73f612b116093538a4ffcd012b8b6403ac9d4874f81a610a5e0d8457c8224f"},
      {2, "087e829caeaef130d0d2f859ed268ec870ec4e0c929b143d794682a5cb782f48"},
      {3, "7019eb41386f1d38e4b5fa50dc9c9856a1c6cf13d5596f985a54067e0140e133"},
      {5, "d930f494e28f4e018cdc3a92e3e01fd059d177f0fd2d98e8c72357ad5a7a1162"},
      {8, "0ec58a185b5cb6c8478c2c3520e6fe384e5696da89ac046bd5fb764c9286fe1d"}};
  for (const auto& [count, root] : roots) {
    std::vector<Sha256Digest> leaves;
    for (size_t i = 0; i < count; ++i) leaves.push_back(HashLeaf(BytesIn(std::string(1, static_cast<char>(i)))));
    const std::vector<uint64_t> shape = {count, 4};
    EXPECT_EQ(HexOf(TreeRoot("a.weight", DType::kBf16, shape, leaves)), root) << count;
  }
  const std::vector<Sha256Digest> zeros = {HashLeaf(BytesIn(std::string(4, '\0')))};
  EXPECT_EQ(HexOf(TreeRoot("s", DType::kF32, {}, zeros)),
            "cac96c6cd97c05b1bdb36374f05ac809ab2ca1999e835f5139fd4bbfedb96a57");
}

// A gate_up tensor of one expert whose rows have 2 MiB.
class LongRows {
 public:
  explicit LongRows(GateUpLayout layout) {
    layers_.experts = 2;
    layers_.intermediate = 3;
    TensorClass tensor;
    tensor.role = TensorRole::kGateUp;
    tensor.dtype = DType::kBf16;
    tensor.shape = {ShapeAxis::kExperts, ShapeAxis::kTwoIntermediate, ShapeAxis::kHidden};
    tensor.layout = layout;
    layers_.tensors = {tensor};
  }
  TensorLeaves Leaves(const std::vector<uint32_t>& ends) const {
    const LayerTensor of = {kHidden, &layers_, layers_.tensors.data(), nullptr};
    const StoredTensor stored =
        StoredTensor::Of(of, WeightSource::kSafetensors, {DType::kBf16, {2, 6, kHidden}}).value();
    return TensorLeaves::Of(stored, ends).value();
  }

  static constexpr uint64_t kHidden = uint64_t{1} << 20;
  static constexpr uint64_t kRow = 2 * kHidden;

 private:
  LayerClass layers_;
};

TEST(WeightDigests, AnAtomAboveFourMebibytesIsSeveralLeavesOfWholeRows) {
  constexpr uint64_t kRow = LongRows::kRow;
  const auto rows = [](uint64_t first, uint64_t count) { return ByteRuns{first * kRow, kRow, kRow, count}; };
  const TensorLeaves halves = LongRows(GateUpLayout::kHalves).Leaves({1, 3});
  EXPECT_EQ(halves.segments(), 2u);
  EXPECT_EQ(halves.ColumnsOf(1), (Interval{1, 3}));
  ASSERT_EQ(halves.count(), 6u);
  EXPECT_THAT(halves.BytesOf(0), ElementsAre(rows(0, 1), rows(3, 1)));
  EXPECT_THAT(halves.BytesOf(1), ElementsAre(rows(1, 2)));
  EXPECT_THAT(halves.BytesOf(2), ElementsAre(rows(4, 2)));
  EXPECT_THAT(halves.BytesOf(3), ElementsAre(rows(6, 1), rows(9, 1)));
  EXPECT_THAT(halves.BytesOf(5), ElementsAre(rows(10, 2)));
  EXPECT_EQ(halves.LeavesOf(1, 0).first, 3u);
  EXPECT_EQ(halves.LeavesOf(1, 0).last, 4u);
  EXPECT_EQ(halves.LeavesOf(1, 1).last, 6u);
  // Gate's last row and up's first one are in one leaf.
  const TensorLeaves whole = LongRows(GateUpLayout::kHalves).Leaves({3});
  ASSERT_EQ(whole.count(), 6u);
  EXPECT_THAT(whole.BytesOf(0), ElementsAre(rows(0, 2)));
  EXPECT_THAT(whole.BytesOf(1), ElementsAre(rows(2, 1), rows(3, 1)));
  EXPECT_THAT(whole.BytesOf(2), ElementsAre(rows(4, 2)));
  EXPECT_EQ(SizeOf(whole.BytesOf(1)), kLeafBytes);
}

TEST(WeightDigests, SegmentsAreAllColumns) {
  LayerClass layers;
  layers.intermediate = 6;
  TensorClass tensor;
  tensor.role = TensorRole::kDown;
  tensor.dtype = DType::kF32;
  tensor.shape = {ShapeAxis::kHidden, ShapeAxis::kIntermediate};
  layers.tensors = {tensor};
  const LayerTensor of = {4, &layers, layers.tensors.data(), nullptr};
  const StoredTensor stored = StoredTensor::Of(of, WeightSource::kSafetensors, {DType::kF32, {4, 6}}).value();
  EXPECT_EQ(TensorLeaves::Of(stored, std::vector<uint32_t>{2, 5}).status().message(), "segments up to column 5 of 6");
  EXPECT_EQ(TensorLeaves::Of(stored, {}).status().message(), "segments up to column 0 of 6");
  TensorDigests digests;
  digests.leaves.resize(3);
  const absl::Status other = LeavesInList(stored, digests, std::vector<uint32_t>{2, 6}).status();
  EXPECT_EQ(ReasonOf(other), Reason::kWeightsDigest);
  EXPECT_EQ(other.message(), "3 leaves in the digest list, expected 2");
}

// A small model of every kind of tensor, in bf16, whose digests have the plan's own segments.
Plan SmallPlan() {
  support::PlanNumbers numbers;
  numbers.tp = 2;
  numbers.ep = 2;
  numbers.layers = 2;
  numbers.hidden = 6;
  numbers.intermediate = 10;
  numbers.experts = 4;
  numbers.dtype = DType::kBf16;
  numbers.shared_width = 8;
  numbers.shared_gate = SharedGate::kSigmoid;
  numbers.selection_bias = true;
  return support::BuildPlan(numbers);
}

absl::StatusOr<WeightDigests> DigestFolder(const Plan& plan, const std::filesystem::path& folder,
                                           unsigned threads = 2) {
  std::vector<RegularFile> files;
  absl::StatusOr<CheckpointListing> listing = CheckpointListing::Open(folder, &files);
  if (!listing.ok()) return listing.status();
  return DigestCheckpoint(plan.model_name, plan.hidden, plan.layer_classes, *listing, files, threads,
                          [](const HashProgress&) {});
}

absl::Status VerifyFolder(const WeightDigests& digests, const Plan& plan, const std::filesystem::path& folder) {
  std::vector<RegularFile> files;
  absl::StatusOr<CheckpointListing> listing = CheckpointListing::Open(folder, &files);
  if (!listing.ok()) return listing.status();
  return VerifyCheckpoint(digests, plan.hidden, plan.layer_classes, *listing, files, 2, [](const HashProgress&) {});
}

// `count` rows of `bytes`, the first at `begin`, one after the other.
std::string Pieces(const std::string& data, size_t begin, size_t bytes, size_t stride, size_t count) {
  std::string pieces;
  for (size_t i = 0; i < count; ++i) pieces += data.substr(begin + i * stride, bytes);
  return pieces;
}

TEST(WeightDigests, LeavesAreTheAtomsOfTheCheckpoint) {
  const Plan plan = SmallPlan();
  const support::TempFolder temp;
  support::Checkpoint checkpoint = support::RandomCheckpoint(plan, 1);
  const std::filesystem::path folder = support::WriteCheckpoint(temp.path() / "a", checkpoint);
  const absl::StatusOr<WeightDigests> digests = DigestFolder(plan, folder);
  ASSERT_TRUE(digests.ok()) << digests.status();
  EXPECT_EQ(digests->tensors.size(), checkpoint.size());
  EXPECT_EQ(digests->model_name, plan.model_name);
  ASSERT_EQ(digests->layers.size(), 1u);
  EXPECT_EQ(digests->layers[0].segment_ends, (std::vector<uint32_t>{5, 10}));
  EXPECT_EQ(digests->layers[0].shared_ends, (std::vector<uint32_t>{2, 4, 6, 8}));

  const auto data_of = [&checkpoint](const std::string& name) {
    support::Checkpoint alone = {support::Tensor(checkpoint, name)};
    const std::string file = support::EncodeSafetensors(alone);
    uint64_t header = 0;
    std::memcpy(&header, file.data(), sizeof(header));
    return file.substr(8 + header);
  };
  const auto leaves_of = [&digests](const std::string& name) { return digests->Find(name)->leaves; };
  const std::string gate = data_of("layers.1.experts.3.gate");
  EXPECT_THAT(leaves_of("layers.1.experts.3.gate"),
              ElementsAre(HashLeaf(BytesIn(gate.substr(0, 60))), HashLeaf(BytesIn(gate.substr(60)))));
  const std::string down = data_of("layers.1.experts.3.down");
  EXPECT_THAT(leaves_of("layers.1.experts.3.down"), ElementsAre(HashLeaf(BytesIn(Pieces(down, 0, 10, 20, 6))),
                                                                HashLeaf(BytesIn(Pieces(down, 10, 10, 20, 6)))));
  EXPECT_THAT(leaves_of("layers.0.router"), ElementsAre(HashLeaf(BytesIn(data_of("layers.0.router")))));
  EXPECT_EQ(digests->Find("layers.2.router"), nullptr);
  EXPECT_EQ(digests->SegmentsOf(2), nullptr);
  for (const TensorDigests& tensor : digests->tensors) {
    EXPECT_EQ(tensor.root, TreeRoot(tensor.name, tensor.dtype, tensor.shape, tensor.leaves));
  }
  for (const unsigned threads : {1u, 5u}) EXPECT_EQ(*DigestFolder(plan, folder, threads), *digests);
}

void WriteShards(const std::filesystem::path& folder, const support::Checkpoint& checkpoint, size_t first_has) {
  std::filesystem::create_directories(folder);
  const auto middle = checkpoint.begin() + static_cast<std::ptrdiff_t>(first_has);
  const support::Checkpoint shards[] = {{checkpoint.begin(), middle}, {middle, checkpoint.end()}};
  std::vector<std::string> map;
  for (size_t i = 0; i < 2; ++i) {
    const std::string name = absl::StrCat("model-0000", i + 1, "-of-00002.safetensors");
    support::WriteFile(folder / name, support::EncodeSafetensors(shards[i]));
    for (const support::NamedTensor& tensor : shards[i])
      map.push_back(absl::StrCat("\"", tensor.name, "\":\"", name, "\""));
  }
  support::WriteFile(folder / "model.safetensors.index.json",
                     absl::StrCat("{\"metadata\":{\"total_size\":1},\"weight_map\":{", absl::StrJoin(map, ","), "}}"));
}

TEST(WeightDigests, RegroupingShardsKeepsTheListsId) {
  const Plan plan = SmallPlan();
  const support::TempFolder temp;
  const support::Checkpoint checkpoint = support::RandomCheckpoint(plan, 1);
  const auto id_of = [&](const std::filesystem::path& folder) {
    const absl::StatusOr<WeightDigests> digests = DigestFolder(plan, folder);
    return digests.ok() ? HexOf(FactsOf(*SealDigests(*digests)).plan_id) : std::string(digests.status().message());
  };
  const std::string id = id_of(support::WriteCheckpoint(temp.path() / "a", checkpoint));
  WriteShards(temp.path() / "b", checkpoint, 7);
  WriteShards(temp.path() / "c", checkpoint, 20);
  EXPECT_EQ(id_of(temp.path() / "b"), id);
  EXPECT_EQ(id_of(temp.path() / "c"), id);
}

// The same numbers, and `down` turned: other bytes, another list.
TEST(WeightDigests, AnotherPackingIsAnotherDigest) {
  Plan plan = SmallPlan();
  const support::TempFolder temp;
  support::Checkpoint checkpoint = support::RandomCheckpoint(plan, 1);
  const WeightDigests before = *DigestFolder(plan, support::WriteCheckpoint(temp.path() / "a", checkpoint));
  const std::string name = "layers.0.experts.0.down";
  for (support::NamedTensor& tensor : checkpoint) {
    if (tensor.name.find(".down") == std::string::npos || tensor.name.find("experts") == std::string::npos) continue;
    const std::vector<float> values = tensor.values;
    const uint64_t rows = tensor.shape[0];
    const uint64_t columns = tensor.shape[1];
    for (uint64_t i = 0; i < rows; ++i) {
      for (uint64_t j = 0; j < columns; ++j) tensor.values[j * rows + i] = values[i * columns + j];
    }
    std::swap(tensor.shape[0], tensor.shape[1]);
  }
  for (TensorClass& tensor : plan.layer_classes[0].tensors) {
    if (tensor.role == TensorRole::kDown) std::swap(tensor.shape[0], tensor.shape[1]);
  }
  const absl::StatusOr<WeightDigests> after =
      DigestFolder(plan, support::WriteCheckpoint(temp.path() / "b", checkpoint));
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_NE(after->Find(name)->root, before.Find(name)->root);
  EXPECT_EQ(after->Find("layers.0.experts.0.gate")->root, before.Find("layers.0.experts.0.gate")->root);
}

TEST(WeightDigests, AChangedBitIsFoundWithItsLeaf) {
  const Plan plan = SmallPlan();
  const support::TempFolder temp;
  support::Checkpoint checkpoint = support::RandomCheckpoint(plan, 1);
  const std::filesystem::path folder = support::WriteCheckpoint(temp.path() / "a", checkpoint);
  const WeightDigests digests = *DigestFolder(plan, folder);
  EXPECT_TRUE(VerifyFolder(digests, plan, folder).ok()) << VerifyFolder(digests, plan, folder);

  // The last element is in the last leaf: of the last row's piece.
  support::NamedTensor& down = support::Tensor(checkpoint, "layers.1.experts.2.down");
  down.values.back() = down.values.back() == 0.25F ? 0.5F : 0.25F;
  const absl::Status changed = VerifyFolder(digests, plan, support::WriteCheckpoint(temp.path() / "b", checkpoint));
  EXPECT_EQ(ReasonOf(changed), Reason::kWeightsDigest);
  EXPECT_THAT(
      std::string(changed.message()),
      testing::MatchesRegex("tensor 'layers.1.experts.2.down': leaf 1 of 2 hashes to [0-9a-f]{64}, in the digest "
                            "list it is [0-9a-f]{64}"));

  WeightDigests other = digests;
  other.tensors.erase(other.tensors.begin());
  EXPECT_EQ(VerifyFolder(other, plan, folder).message(),
            absl::StrCat("tensor '", digests.tensors[0].name, "': is not in the digest list"));
  other = digests;
  auto& router = *std::find_if(other.tensors.begin(), other.tensors.end(),
                               [](const TensorDigests& t) { return t.name == "layers.0.router"; });
  router.dtype = DType::kF16;
  EXPECT_EQ(VerifyFolder(other, plan, folder).message(),
            "tensor 'layers.0.router': bf16 [4, 6] in the file, f16 [4, 6] in the digest list");
}

WeightDigests SmallList() {
  WeightDigests list;
  list.model_name = "m";
  list.source = WeightSource::kSafetensors;
  list.layers = {{{{0, 1}}, {2, 4}, {3}}};
  for (const char* name : {"a", "b"}) {
    TensorDigests tensor;
    tensor.name = name;
    tensor.dtype = DType::kF32;
    tensor.shape = {2, 2};
    tensor.bytes = 16;
    tensor.leaves = {HashLeaf(BytesIn("1")), HashLeaf(BytesIn("2"))};
    tensor.root = TreeRoot(tensor.name, tensor.dtype, tensor.shape, tensor.leaves);
    list.tensors.push_back(tensor);
  }
  return list;
}

TEST(SealedDigests, HoldWhatWasSealed) {
  const std::string file = *SealDigests(SmallList());
  const absl::StatusOr<SealedDigests> opened = SealedDigests::Open(file);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->digests(), SmallList());
  EXPECT_EQ(opened->id(), FactsOf(file).plan_id);
  EXPECT_EQ(EncodeDigests(SmallList()), PayloadOf(file));
}

TEST(SealedDigests, EveryChangeOfAByteIsRefused) {
  const std::string file = *SealDigests(SmallList());
  std::string changed = file;
  size_t accepted = 0;
  for (size_t at = 0; at < file.size(); ++at) {
    for (int by = 1; by < 256; by += support::kSanitized ? 51 : 1) {
      changed[at] = static_cast<char>(static_cast<uint8_t>(file[at]) ^ by);
      if (SealedDigests::Open(changed).ok()) ++accepted;
    }
    changed[at] = file[at];
  }
  EXPECT_EQ(accepted, 0u);
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(SealedDigests::Open(absl::string_view(file).substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(SealedDigests::Open(file + std::string(1, '\0')).ok());
}

// A list that somebody seals again is another list, whatever they change.
TEST(SealedDigests, AChangedPayloadIsRefusedOrAnotherList) {
  const std::string file = *SealDigests(SmallList());
  const WeightDigests list = SmallList();
  std::string payload(PayloadOf(file));
  size_t refused = 0;
  for (size_t at = 0; at < payload.size(); ++at) {
    const char before = payload[at];
    for (const int by : {1, 128, 255}) {
      payload[at] = static_cast<char>(static_cast<uint8_t>(before) ^ by);
      const auto opened =
          SealedDigests::Open(SealPayload(payload, PayloadType::kWeightDigests, 0, StreamOf(list.model_name)));
      if (!opened.ok()) {
        ++refused;
      } else {
        EXPECT_FALSE(opened->digests() == list) << at;
      }
    }
    payload[at] = before;
  }
  EXPECT_GT(refused, 3 * payload.size() * 8 / 10);
}

TEST(SealedDigests, APlanIsNoDigestListAndTheOtherWayRound) {
  const std::string list = *SealDigests(SmallList());
  const std::string plan = *SealPlan(support::BuildPlan({}), 0);
  EXPECT_EQ(SealedPlan::Open(list, {}).status().message(),
            "refused at gate 'format': payload type 2 (weights digest list), expected 1 (plan)");
  EXPECT_EQ(SealedDigests::Open(plan).status().message(),
            "refused at gate 'format': payload type 1 (plan), expected 2 (weights digest list)");
}

TEST(SealedDigests, IncoherentListsAreRefused) {
  const auto flip = [](WeightDigests& l) { l.tensors[1].leaves[0][31] ^= 1; };
  struct Mutant {
    const char* text;
    void (*change)(WeightDigests&);
  };
  const Mutant mutants[] = {
      {"tensor 'b' has root ", flip},
      {"tensor 'a' has root ", [](WeightDigests& l) { std::swap(l.tensors[0].leaves[0], l.tensors[0].leaves[1]); }},
      {"tensor 'a' has root ", [](WeightDigests& l) { l.tensors[0].leaves.pop_back(); }},
      {"tensor 'a' has root ", [](WeightDigests& l) { l.tensors[0].root[0] ^= 1; }},
      {"tensor 'a' has root ",
       [](WeightDigests& l) {
         l.tensors[0].shape = {4, 1};
       }},
      {"tensor 'a' has root ", [](WeightDigests& l) { l.tensors[0].dtype = DType::kI32; }},
      {"tensor 'a' after 'b', names ascend", [](WeightDigests& l) { std::swap(l.tensors[0], l.tensors[1]); }},
      {"tensor 'b' after 'b', names ascend", [](WeightDigests& l) { l.tensors[0] = l.tensors[1]; }},
      {"tensor 'a' has 15 bytes, which is not the size of its f32 elements",
       [](WeightDigests& l) { l.tensors[0].bytes = 15; }},
      {"tensor 'a' has 16 bytes, which is not the size of its invalid elements",
       [](WeightDigests& l) { l.tensors[0].dtype = DType::kInvalid; }},
      {"tensor 'a' has 0 bytes, which is not the size of its f32 elements",
       [](WeightDigests& l) {
         l.tensors[0].shape = {0};
         l.tensors[0].bytes = 0;
       }},
      {"tensor 'a' has 0 leaves of 16 bytes", [](WeightDigests& l) { l.tensors[0].leaves.clear(); }},
      {"tensor 'a' has 17 leaves of 16 bytes", [](WeightDigests& l) { l.tensors[0].leaves.resize(17); }},
      {"there are no tensors", [](WeightDigests& l) { l.tensors.clear(); }},
      {"there are no layers", [](WeightDigests& l) { l.layers.clear(); }},
      {"segments of no layers", [](WeightDigests& l) { l.layers[0].layers.clear(); }},
      {"layers [1,1) after layer 0",
       [](WeightDigests& l) {
         l.layers[0].layers = {{1, 1}};
       }},
      {"layers [1,3) after layer 2",
       [](WeightDigests& l) {
         l.layers[0].layers = {{0, 2}, {1, 3}};
       }},
      {"segments of layer 0 after those of layer 0", [](WeightDigests& l) { l.layers.push_back(l.layers[0]); }},
      {"layer 3 has segments twice",
       [](WeightDigests& l) {
         l.layers[0].layers = {{0, 1}, {3, 5}};
         l.layers.push_back({{{2, 4}}, {4}, {}});
       }},
      {"the segments of layer 0 do not ascend",
       [](WeightDigests& l) {
         l.layers[0].segment_ends = {4, 4};
       }},
      {"the segments of layer 0 do not ascend", [](WeightDigests& l) { l.layers[0].segment_ends.clear(); }},
      {"the segments of layer 0 do not ascend", [](WeightDigests& l) { l.layers[0].shared_ends = {0}; }},
      {"the model's name '' is not printable", [](WeightDigests& l) { l.model_name = ""; }},
      {"the model's name 'a\\nb' is not printable", [](WeightDigests& l) { l.model_name = "a\nb"; }},
      {"weights of source synthetic", [](WeightDigests& l) { l.source = WeightSource::kSynthetic; }},
  };
  for (const Mutant& mutant : mutants) {
    WeightDigests list = SmallList();
    mutant.change(list);
    const absl::Status refused = SealDigests(list).status();
    EXPECT_EQ(ReasonOf(refused), Reason::kMeaning) << mutant.text;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(absl::StrCat("refused at gate 'meaning': ", mutant.text)));
  }
  const std::string payload = EncodeDigests(SmallList());
  EXPECT_EQ(SealedDigests::Open(SealPayload(payload, PayloadType::kWeightDigests, 0, StreamOf("n"))).status().message(),
            "refused at gate 'meaning': the sealed stream is not that of model 'm'");
  EXPECT_EQ(SealedDigests::Open(SealPayload(payload, PayloadType::kWeightDigests, 3, StreamOf("m"))).status().message(),
            "refused at gate 'meaning': serial 3, a digest list has 0");
}

TEST(SealedDigests, AreBoundByOnePlan) {
  const SealedDigests digests = SealedDigests::Open(*SealDigests(SmallList())).value();
  Plan plan;
  EXPECT_EQ(ReasonOf(CheckBound(digests, plan)), Reason::kWeightsUnverified);
  plan.weights_digest = digests.id();
  EXPECT_TRUE(CheckBound(digests, plan).ok());
  plan.weights_digest[0] ^= 1;
  const absl::Status other = CheckBound(digests, plan);
  EXPECT_EQ(ReasonOf(other), Reason::kWeightsDigest);
  EXPECT_EQ(other.message(),
            absl::StrCat("the digest list is ", HexOf(digests.id()), ", the plan binds ", HexOf(plan.weights_digest)));
}

}  // namespace
}  // namespace meshseal
