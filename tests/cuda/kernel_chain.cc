#include "tests/cuda/kernel_chain.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/backend/basis.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/kernels/add_into.h"
#include "runtime/cuda/kernels/tile_pieces.h"
#include "runtime/program/rank_facts.h"
#include "schema/status_macros.h"

namespace meshseal::cuda {
namespace {

using runtime::ExpertWeights;
using runtime::WeightMatrix;

constexpr uint32_t kExperts = 9;
constexpr uint32_t kTopK = 2;
constexpr uint32_t kHidden = 256;
constexpr uint32_t kShared = 24;  // columns of the shared expert
constexpr uint32_t kTileRows = 8;
constexpr uint32_t kMembers = 3;
constexpr runtime::FixedPoint kFixedPoint = {30, 1 << 20};

ProductKind KindOfSlots(ProductKind kind) { return kind == ProductKind::kTiles ? ProductKind::kLanes : kind; }

template <class T>
std::vector<T> As(const std::vector<ChainOutput>& outputs, const std::string& name) {
  for (const ChainOutput& output : outputs) {
    if (output.name != name) continue;
    std::vector<T> values(output.bytes.size() / sizeof(T));
    std::memcpy(values.data(), output.bytes.data(), output.bytes.size());
    return values;
  }
  return {};
}

}  // namespace

std::vector<ChainSpec> AllChains() {
  std::vector<ChainSpec> chains;
  const auto add = [&chains](const std::string& what, ChainSpec spec) {
    const char* const kind = spec.kind == ProductKind::kLanes       ? "lanes"
                             : spec.kind == ProductKind::kReference ? "reference"
                                                                    : "tiles";
    spec.name = absl::StrCat(kind, ", ", what);
    chains.push_back(std::move(spec));
  };
  const Storage bf16 = StorageNamed("bf16");
  for (const ProductKind kind : {ProductKind::kLanes, ProductKind::kReference, ProductKind::kTiles}) {
    for (const Storage& storage : AllStorages()) {
      const bool is_among = storage.dtype == DType::kBf16 || storage.dtype == DType::kQ4K || storage.packed;
      if (storage.lies != Lies::kInRows && !is_among) continue;  // the same code reads them
      if (storage.lies == Lies::kAtOddPlaces && storage.repacked) continue;
      ChainSpec spec = {"", storage, bf16, kind};
      spec.tokens = 1;
      spec.columns = storage.repacked && storage.lies == Lies::kInRows ? 12 : 9;  // repacked in strips, or row by row
      spec.whole = false;
      add(absl::StrCat("gate and up ", storage.name), spec);
    }
    for (const char* const name : {"q4_k", "q4_k repacked", "q8_0", "q8_0 repacked", "f32", "f16"}) {
      ChainSpec spec = {"", bf16, StorageNamed(name), kind};
      spec.columns = 256;
      add(absl::StrCat("down ", name), spec);
    }
    for (const uint32_t tokens : {0u, 1u, 33u, 70u}) {
      ChainSpec spec = {"", bf16, bf16, kind};
      spec.tokens = tokens;
      add(absl::StrCat(tokens, " tokens"), spec);
      spec.integers = true;
      if (kind == ProductKind::kTiles) add(absl::StrCat(tokens, " tokens of integers"), spec);
    }
  }
  for (const Basis basis : {Basis::kF32, Basis::kF16, Basis::kQ8}) {
    ChainSpec spec = {"", StorageNamed("f16"), StorageNamed("f16")};
    spec.basis = basis;
    add(absl::StrCat("basis ", WordOf(basis)), spec);
  }
  ChainSpec halves = {"", StorageNamed("f16"), StorageNamed("f16"), ProductKind::kTiles};
  halves.basis = Basis::kF16;
  add("basis f16", halves);
  for (const Scoring scoring : {Scoring::kSigmoid, Scoring::kSqrtSoftplus, Scoring::kSparsemixer}) {
    ChainSpec spec = {"", bf16, bf16};
    spec.scoring = scoring;
    add(absl::StrCat("router ", WordOf(scoring)), spec);
  }
  for (const ActivationKind activation :
       {ActivationKind::kGeGlu, ActivationKind::kRelu2, ActivationKind::kSwiGluOai, ActivationKind::kSwiGluPreclamp}) {
    ChainSpec spec = {"", bf16, bf16};
    spec.activation = activation;
    add(absl::StrCat("activation ", WordOf(activation)), spec);
  }
  return chains;
}

KernelChain::KernelChain(const ChainSpec& spec, cudaStream_t stream)
    : spec_(spec), stream_(stream), random_(11), weights_(5) {
  MakeInputs();
  if (status_.ok()) MakeSteps();
}

void KernelChain::Do(cudaError_t error, const char* what) { status_.Update(FromCuda(error, what)); }

std::byte* KernelChain::Reserve(uint64_t bytes, const char* what, std::vector<Array>* arrays) {
  absl::StatusOr<DeviceMemory> memory = DeviceMemory::Reserve(bytes, what);
  status_.Update(memory.status());
  if (!memory.ok()) return nullptr;
  arrays->push_back({what, *std::move(memory)});
  return arrays->back().memory.bytes().data();
}

template <class T>
const T* KernelChain::Put(const std::vector<T>& values) {
  const uint64_t bytes = values.size() * sizeof(T);
  std::byte* const device = Reserve(bytes, "an input", &inputs_);
  if (device == nullptr || bytes == 0) return reinterpret_cast<const T*>(device);
  Do(cudaMemcpyAsync(device, values.data(), bytes, cudaMemcpyHostToDevice, stream_), "an input");
  Do(cudaStreamSynchronize(stream_), "an input");
  return reinterpret_cast<const T*>(device);
}

template <class T>
T* KernelChain::Out(const char* name, uint64_t count) {
  return reinterpret_cast<T*>(Reserve(count * sizeof(T), name, &outputs_));
}

std::vector<float> KernelChain::Floats(uint64_t count, bool integers) {
  std::vector<float> values(count);
  for (float& value : values) {
    value = integers ? static_cast<float>(static_cast<int>(random_() % 15) - 7)
                     : static_cast<float>(static_cast<int>(random_() % 40001) - 20000) / 8192;
  }
  return values;
}

void KernelChain::MakeInputs() {
  const uint32_t max_tokens = spec_.tokens + 2;
  const bool gated = runtime::HasGate(spec_.activation);
  for (uint32_t local = 0; local < kExperts; ++local) {
    ExpertWeights& expert = experts_.emplace_back();
    const auto add = [&](const Storage& storage, uint32_t rows, uint32_t columns) {
      return spec_.integers ? weights_.AddIntegers(rows, columns) : weights_.Add(storage, rows, columns);
    };
    if (gated) expert.gate = add(spec_.gate_up, spec_.columns, kHidden);
    expert.up = add(spec_.gate_up, spec_.columns, kHidden);
    expert.down = add(spec_.down, kHidden, spec_.columns);
    if (local % 2 == 1 || spec_.integers) continue;
    if (gated) expert.gate_bias = weights_.AddVector(spec_.columns);
    expert.up_bias = weights_.AddVector(spec_.columns);
    expert.down_bias = weights_.AddVector(kHidden);
  }
  const Storage bf16 = StorageNamed("bf16");
  const WeightMatrix router = weights_.Add(bf16, kExperts, kHidden);
  const WeightMatrix selection = weights_.AddVector(kExperts);
  if (gated) shared_.gate = weights_.Add(bf16, kShared, kHidden);
  shared_.up = weights_.Add(bf16, kShared, kHidden);
  shared_.down = weights_.Add(bf16, kHidden, kShared);
  shared_.expert_gate = weights_.AddVector(kHidden);
  weights_.Upload();
  const std::byte* const device = Put(weights_.uploaded());
  const auto on_device = [&](const auto& one) { return weights_.On(one, device); };
  std::vector<DeviceExpert> experts;
  for (const ExpertWeights& expert : experts_) experts.push_back(on_device(expert));

  x_ = Floats(uint64_t{max_tokens} * kHidden, spec_.integers);
  down_x_ = Floats(uint64_t{max_tokens} * kTopK * spec_.columns, spec_.integers);
  std::vector<runtime::ExpertPlace> places(kExperts);
  for (uint32_t expert = 0; expert < kExperts; ++expert) {
    if (expert % 4 != 3) places[expert].local = static_cast<int32_t>((expert * 5 + 2) % kExperts);
  }
  grid_ = {Put<StepTokens>({{3, spec_.tokens, 0}}), max_tokens, kTopK, kHidden, spec_.columns, gated};
  const float* const x = Put(x_);
  const DeviceExpert* const table = Put(experts);

  logits_ = {grid_.step, max_tokens, on_device(router), {}, Basis::kF32, x, nullptr};
  route_.rule.scoring = spec_.scoring;
  route_.rule.order = RouteOrder::kScoreThenTopK;
  route_.rule.renormalize = Renormalize::kSum;
  route_.rule.epsilon = spec_.scoring == Scoring::kSparsemixer ? 0.05f : 0;
  route_.rule.scale = 1.5f;
  route_.experts = kExperts;
  if (spec_.scoring == Scoring::kSigmoid) route_.selection_bias = on_device(selection);
  owned_.places = Put(places);
  scatter_.x = gate_up_.x = fused_.x = shared_gate_up_.x = shared_gate_.x = to_basis_.in = x;
  gate_up_.experts = grouped_.experts = fused_.experts = down_.experts = down_tiles_.experts = down_exact_.experts =
      table;
  down_tiles_.activations = Put(down_x_);
  shared_gate_up_.gate = on_device(shared_.gate);
  shared_gate_up_.up = on_device(shared_.up);
  shared_gate_.expert_gate = on_device(shared_.expert_gate);
  shared_down_.down = shared_down_exact_.down = on_device(shared_.down);
  residual_.input = x;
  spread_.from = reinterpret_cast<const uint32_t*>(x);
  const uint64_t first = spec_.tokens - spec_.tokens / 3;
  spread_.rows = Put<runtime::Piece>({{0, first}, {first, 0}, {first, spec_.tokens / 3}});
  to_float_.piece = Put<runtime::Piece>({{5, uint64_t{spec_.tokens} * kHidden / 2}});
  ranks_.addends = Put(Floats(uint64_t{max_tokens} * kHidden * kMembers, false));
  std::vector<int64_t> fixed(uint64_t{max_tokens} * kHidden * kMembers);
  for (int64_t& value : fixed) value = static_cast<int64_t>(random_()) << 20;
  fixed_ranks_.addends = Put(fixed);
  down_exact_.segment_ends = Put<uint32_t>({spec_.columns / 2, spec_.columns});
  shared_down_exact_.segment_ends = Put<uint32_t>({kShared / 2, kShared});

  const HalfType type = spec_.basis == Basis::kF16 ? HalfType::kF16 : HalfType::kBf16;
  grouped_.are_halves = down_tiles_.are_halves = true;
  for (const DeviceExpert& expert : experts) {
    grouped_.are_halves = grouped_.are_halves && AreHalves(type, expert.up) && (!gated || AreHalves(type, expert.gate));
    down_tiles_.are_halves = down_tiles_.are_halves && AreHalves(type, expert.down);
  }
}

void KernelChain::MakeSteps() {
  const uint32_t max_tokens = grid_.max_tokens;
  const uint64_t slots = grid_.max_slots();
  const auto capacity = static_cast<uint32_t>(slots + kExperts * (kTileRows - 1));
  const uint64_t products = grid_.products();
  const Activation rule = {spec_.activation, 1.5f, 0.75f};

  logits_.logits = Out<float>("logits", uint64_t{max_tokens} * kExperts);
  route_.grid = grid_;
  route_.logits = logits_.logits;
  route_.out = {Out<int32_t>("experts", slots), Out<float>("weights", slots), Out<uint32_t>("computed", slots),
                Out<uint64_t>("route failures", max_tokens)};
  owned_.experts = route_.out.experts;
  owned_.weights = route_.out.weights;

  scatter_.grid = grid_;
  scatter_.owned = owned_;
  scatter_.local_experts = kExperts;
  scatter_.tile_rows = kTileRows;
  scatter_.capacity = capacity;
  scatter_.rows = Out<float>("rows", uint64_t{capacity} * kHidden);
  scatter_.slot_of_row = Out<int32_t>("slot_of_row", capacity);
  scatter_.row_of_slot = Out<int32_t>("row_of_slot", slots);
  scatter_.first_row = Out<int32_t>("first_row", kExperts + 1);
  scatter_.failure = Out<uint64_t>("scatter failure", 1);
  scatter_.local_of_slot = Out<int32_t>("local_of_slot", slots);
  scatter_.counts = Out<uint32_t>("counts", kExperts);
  const DeviceGrouping grouping = {capacity, kExperts, scatter_.slot_of_row, scatter_.first_row};

  gate_up_.grid = grid_;
  gate_up_.owned = owned_;
  gate_up_.weighs = true;
  gate_up_.basis = spec_.basis;
  gate_up_.out = Out<float>("gate_up", slots * products);
  grouped_.grid = grid_;
  grouped_.grouping = grouping;
  grouped_.basis = spec_.basis;
  grouped_.rows = scatter_.rows;
  grouped_.out = Out<float>("gate_up_grouped", capacity * products);
  unscatter_ = {grid_, scatter_.row_of_slot, products, grouped_.out,
                // What tiles may give slightly otherwise is compared once.
                Out<float>(spec_.kind == ProductKind::kTiles ? "" : "unscattered", slots * products)};
  activation_ = {grid_, owned_, true, rule, gate_up_.out, Out<float>("activation", slots * spec_.columns)};
  fused_.grid = grid_;
  fused_.owned = owned_;
  fused_.weighs_activation = true;
  fused_.basis = spec_.basis;
  fused_.rule = rule;
  fused_.experts = gate_up_.experts;
  fused_.out = Out<float>("gate_up_activation", slots * spec_.columns);
  to_basis_.step = grid_.step;
  to_basis_.max_tokens = max_tokens;
  to_basis_.width = kHidden;
  to_basis_.basis = spec_.basis;
  to_basis_.out = Out<float>("to_basis", uint64_t{max_tokens} * kHidden);

  down_.grid = grid_;
  down_.owned = owned_;
  down_.adds_bias = true;
  down_.basis = spec_.basis;
  down_.activations = activation_.out;
  down_.out = Out<float>("down", slots * kHidden);
  down_.computed = route_.out.computed;
  down_tiles_.grid = grid_;
  down_tiles_.owned = owned_;
  down_tiles_.adds_bias = true;
  down_tiles_.basis = spec_.basis;
  down_tiles_.grouping = grouping;
  if (spec_.kind == ProductKind::kTiles) down_tiles_.out = Out<float>("down of tiles", slots * kHidden);
  down_exact_.grid = grid_;
  down_exact_.owned = owned_;
  down_exact_.weighs = true;
  down_exact_.adds_bias = true;
  down_exact_.basis = spec_.basis;
  down_exact_.fixed_point = kFixedPoint;
  down_exact_.segments = 2;
  down_exact_.activations = activation_.out;
  down_exact_.out = Out<int64_t>("down_exact", slots * kHidden);
  down_exact_.failures = Out<uint64_t>("down_exact failures", slots * DownExactFailures(kHidden));

  const uint64_t shared_products = uint64_t{kShared} * (grid_.gated ? 2 : 1);
  shared_gate_up_.tokens = shared_gate_.tokens = shared_down_.tokens = shared_down_exact_.tokens = grid_.step;
  shared_gate_up_.max_tokens = shared_gate_.max_tokens = shared_down_.max_tokens = shared_down_exact_.max_tokens =
      max_tokens;
  shared_gate_up_.basis = shared_down_.basis = shared_down_exact_.basis = Basis::kBf16;
  shared_gate_up_.out = Out<float>("shared_gate_up", max_tokens * shared_products);
  StepGrid of_shared = grid_;
  of_shared.columns = kShared;
  shared_activation_ = {of_shared, rule, shared_gate_up_.out,
                        Out<float>("shared_activation", uint64_t{max_tokens} * kShared)};
  shared_gate_.shares = Out<float>("shares", max_tokens);
  shared_down_.hidden = shared_down_exact_.hidden = kHidden;
  shared_down_.activations = shared_down_exact_.activations = shared_activation_.out;
  shared_down_.shares = shared_down_exact_.shares = shared_gate_.shares;
  shared_down_.out = Out<float>("shared_down", uint64_t{max_tokens} * kHidden);
  shared_gate_up_tiles_ = shared_gate_up_;
  shared_down_tiles_ = shared_down_;
  if (spec_.kind == ProductKind::kTiles) {
    shared_gate_up_tiles_.out = Out<float>("shared_gate_up of tiles", max_tokens * shared_products);
    shared_down_tiles_.out = Out<float>("shared_down of tiles", uint64_t{max_tokens} * kHidden);
  }
  shared_down_exact_.fixed_point = kFixedPoint;
  shared_down_exact_.segments = 2;
  shared_down_exact_.out = Out<int64_t>("shared_down_exact", uint64_t{max_tokens} * kHidden);
  shared_down_exact_.failures =
      Out<uint64_t>("shared_down_exact failures", max_tokens * SharedDownExactFailures(kHidden));

  combine_.grid = grid_;
  combine_.owned = owned_;
  combine_.weighs = true;
  combine_.slots = down_.out;
  combine_.shared = shared_down_.out;
  combine_.out = Out<float>("combine", uint64_t{max_tokens} * kHidden);
  combine_.failures = Out<uint64_t>("combine failures", uint64_t{max_tokens} * CombineChunks(kHidden));
  combine_.shared_failures = Out<uint64_t>("combine shared failures", uint64_t{max_tokens} * CombineChunks(kHidden));
  combine_exact_ = {grid_, owned_, down_exact_.out, shared_down_exact_.out,
                    Out<int64_t>("combine_exact", uint64_t{max_tokens} * kHidden)};

  lane_.step = grid_.step;
  lane_.top_k = kTopK;
  lane_.experts = route_.out.experts;
  lane_.weights = route_.out.weights;
  lane_.computed = route_.out.computed;
  lane_.lists = 3;
  lane_.failures[0] = {route_.out.failures, 1, 1};
  lane_.failures[1] = {combine_.failures, 1, CombineChunks(kHidden)};
  lane_.failures[2] = {down_exact_.failures, kTopK, static_cast<uint32_t>(DownExactFailures(kHidden))};
  lane_.report = Out<LaneReport>("lane", 1);
  zero_ = {grid_.step, max_tokens, kHidden, lane_.report, reinterpret_cast<uint32_t*>(combine_.out)};
  residual_.own = grid_.step;
  residual_.max_tokens = max_tokens;
  residual_.hidden = kHidden;
  residual_.reduced = combine_.out;
  residual_.out = Out<float>("residual", uint64_t{max_tokens} * kHidden);
  spread_.groups = 3;
  spread_.max_rows = max_tokens;
  spread_.words_per_row = kHidden;
  spread_.words_per_group = uint64_t{max_tokens} * kHidden;
  spread_.to = Out<uint32_t>("spread_rows", 3 * spread_.words_per_group);
  pack_ = spread_;
  pack_.from = spread_.to;
  pack_.to = Out<uint32_t>("pack_rows", spread_.words_per_group);
  added_ = Out<float>("add_into", uint64_t{max_tokens} * kHidden);

  const uint64_t elements = uint64_t{max_tokens} * kHidden;
  ranks_.piece = fixed_ranks_.piece = to_float_.piece;
  ranks_.max_elements = fixed_ranks_.max_elements = to_float_.max_elements = elements;
  ranks_.members = fixed_ranks_.members = kMembers;
  ranks_.member_stride = fixed_ranks_.member_stride = elements;
  ranks_.sum = Out<float>("rank_order_sum", elements + 5);
  fixed_ranks_.sum = Out<int64_t>("rank_order_sum of fixed point", elements + 5);
  to_float_.fixed_point = kFixedPoint;
  to_float_.fixed = fixed_ranks_.sum;
  to_float_.out = Out<float>("fixed_to_float", elements);
}

absl::Status KernelChain::Enqueue() {
  MESHSEAL_RETURN_IF_ERROR(status_);
  for (const Array& array : outputs_) {
    Do(cudaMemsetAsync(array.memory.bytes().data(), 0xFF, array.memory.bytes().size(), stream_), "filling an array");
  }
  return EnqueueKernels();
}

absl::Status KernelChain::EnqueueKernels() {
  MESHSEAL_RETURN_IF_ERROR(status_);
  const ProductKind kind = KindOfSlots(spec_.kind);
  Do(LaunchRouterLogits(stream_, kind, logits_), "router_logits");
  Do(LaunchRoute(stream_, route_), "route");
  Do(LaunchScatter(stream_, scatter_), "scatter");
  Do(LaunchGateUp(stream_, kind, gate_up_), "gate_up");
  Do(LaunchGateUpGrouped(stream_, spec_.kind, grouped_), "gate_up_grouped");
  Do(LaunchUnscatter(stream_, unscatter_), "unscatter");
  if (!spec_.whole) return status_;
  Do(LaunchActivation(stream_, activation_), "activation");
  Do(LaunchGateUpActivation(stream_, kind, fused_), "gate_up_activation");
  Do(LaunchToBasis(stream_, to_basis_), "to_basis");
  Do(LaunchDown(stream_, kind, down_), "down");
  if (spec_.kind == ProductKind::kTiles) Do(LaunchDown(stream_, spec_.kind, down_tiles_), "down of tiles");
  Do(LaunchDownExact(stream_, down_exact_), "down_exact");
  Do(LaunchSharedGateUp(stream_, kind, shared_gate_up_), "shared_gate_up");
  Do(LaunchSharedActivation(stream_, shared_activation_), "shared_activation");
  Do(LaunchSharedGate(stream_, kind, shared_gate_), "shared_gate");
  Do(LaunchSharedDown(stream_, kind, shared_down_), "shared_down");
  if (spec_.kind == ProductKind::kTiles) {
    Do(LaunchSharedGateUp(stream_, spec_.kind, shared_gate_up_tiles_), "shared_gate_up of tiles");
    Do(LaunchSharedDown(stream_, spec_.kind, shared_down_tiles_), "shared_down of tiles");
  }
  Do(LaunchSharedDownExact(stream_, shared_down_exact_), "shared_down_exact");
  Do(LaunchCombine(stream_, combine_), "combine");
  Do(LaunchCombineExact(stream_, combine_exact_), "combine_exact");
  Do(LaunchLane(stream_, lane_), "lane");
  Do(LaunchZeroOnError(stream_, zero_), "zero_on_error");
  Do(LaunchResidual(stream_, residual_), "residual");
  Do(LaunchSpreadRows(stream_, spread_), "spread_rows");
  Do(LaunchPackRows(stream_, pack_), "pack_rows");
  const uint64_t elements = uint64_t{grid_.max_tokens} * kHidden;
  Do(cudaMemcpyAsync(added_, residual_.input, elements * sizeof(float), cudaMemcpyDeviceToDevice, stream_), "add_into");
  Do(LaunchAddInto(added_, ranks_.addends, elements, stream_), "add_into");
  Do(LaunchRankOrderSum(stream_, ranks_), "rank_order_sum");
  Do(LaunchRankOrderSum(stream_, fixed_ranks_), "rank_order_sum");
  Do(LaunchFixedToFloat(stream_, to_float_), "fixed_to_float");
  return status_;
}

absl::StatusOr<std::vector<ChainOutput>> KernelChain::Read() const {
  std::vector<ChainOutput> read;
  for (const Array& array : outputs_) {
    if (array.name.empty()) continue;
    ChainOutput& output = read.emplace_back();
    output.name = array.name;
    output.bytes.resize(array.memory.bytes().size());
    if (output.bytes.empty()) continue;
    MESHSEAL_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(output.bytes.data(), array.memory.bytes().data(), output.bytes.size(),
                                                  cudaMemcpyDeviceToHost, stream_),
                                  array.name);
  }
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_), "the kernels");
  if (spec_.kind != ProductKind::kTiles || spec_.tokens == 0) return read;
  for (ChainOutput& output : read) {
    if (output.name == "shared_gate_up of tiles" || output.name == "shared_down of tiles") {
      AddSharedTolerance(read, &output);
    }
    if (spec_.integers) continue;
    if (output.name == "gate_up_grouped" || output.name == "down of tiles") AddTolerance(read, &output);
  }
  return read;
}

// Two that are each within tile_product.h's bound of the same sum.
void KernelChain::AddTolerance(const std::vector<ChainOutput>& read, ChainOutput* output) const {
  const bool is_down = output->name != "gate_up_grouped";
  const auto slot_of_row = As<int32_t>(read, "slot_of_row");
  const auto first_row = As<int32_t>(read, "first_row");
  const uint64_t width = is_down ? kHidden : grid_.products();
  output->tolerance.assign(output->bytes.size() / sizeof(float), 0);
  for (uint32_t local = 0; local < kExperts; ++local) {
    for (int32_t row = first_row[local]; row < first_row[local + 1]; ++row) {
      const int32_t slot = slot_of_row[static_cast<size_t>(row)];
      if (slot < 0) continue;
      const auto place = static_cast<uint64_t>(is_down ? slot : row);
      const std::vector<float>& from = is_down ? down_x_ : x_;
      const uint32_t length = is_down ? spec_.columns : kHidden;
      const uint64_t at = (is_down ? static_cast<uint64_t>(slot) : static_cast<uint64_t>(slot) / kTopK) * length;
      std::vector<float> operand(from.begin() + static_cast<ptrdiff_t>(at),
                                 from.begin() + static_cast<ptrdiff_t>(at + length));
      runtime::ToBasis(spec_.basis, absl::MakeSpan(operand));
      std::vector<float> weights(length);
      uint64_t column = place * width;
      const auto of_matrix = [&](const WeightMatrix& matrix) {
        for (uint32_t i = 0; i < matrix.rows; ++i) {
          matrix.Row(i, absl::MakeSpan(weights));
          double magnitudes = 0;
          for (uint32_t k = 0; k < length; ++k) magnitudes += std::fabs(double{weights[k]} * double{operand[k]});
          const double bound =
              1.01 * kMostPieces * length * magnitudes + 2 * (magnitudes + 1);  // and a bias's rounding
          output->tolerance[column++] = static_cast<float>(2 * std::ldexp(bound, -23));
        }
      };
      if (is_down) {
        of_matrix(experts_[local].down);
      } else {
        if (grid_.gated) of_matrix(experts_[local].gate);
        of_matrix(experts_[local].up);
      }
    }
  }
}

// The same of the shared expert's.
void KernelChain::AddSharedTolerance(const std::vector<ChainOutput>& read, ChainOutput* output) const {
  const bool is_down = output->name == "shared_down of tiles";
  const auto activations = As<float>(read, "shared_activation");
  const auto shares = As<float>(read, "shares");
  for (uint32_t token = 0; token < grid_.max_tokens; ++token) {
    for (const WeightMatrix* const matrix :
         is_down ? std::vector{&shared_.down} : std::vector{&shared_.gate, &shared_.up}) {
      std::vector<float> weights(matrix->columns);
      const float* const from = (is_down ? activations : x_).data() + uint64_t{token} * matrix->columns;
      std::vector<float> operand(from, from + matrix->columns);
      runtime::ToBasis(Basis::kBf16, absl::MakeSpan(operand));
      for (uint32_t row = 0; row < matrix->rows; ++row) {
        matrix->Row(row, absl::MakeSpan(weights));
        double magnitudes = 0;
        for (uint32_t i = 0; i < matrix->columns; ++i) magnitudes += std::fabs(double{weights[i]} * double{operand[i]});
        double bound = 1.01 * kMostPieces * matrix->columns * magnitudes;
        if (is_down) bound = (bound + magnitudes) * std::fabs(double{shares[token]});  // and the product's rounding
        output->tolerance.push_back(static_cast<float>(2 * std::ldexp(bound, -23)));
      }
    }
  }
}

}  // namespace meshseal::cuda
