#include "runtime/weights/rank_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/formats/format.h"
#include "runtime/formats/repacked.h"
#include "runtime/program/rank_facts.h"
#include "runtime/weights/scaled_element.h"
#include "schema/checked_math.h"
#include "schema/dtype.h"
#include "schema/meaning/shape_facts.h"
#include "schema/mesh_view.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {
namespace {

using Halves = std::array<WeightMatrix, 2>;  // of gate and up; another tensor is the first alone

// A rank's part of a tensor's matrix: which of its axes lie how in memory. All numbers are below 2^23: sizes-are-sane.
struct LocalMatrix {
  LocalMatrix(const LayerTensor& of, const ColumnRange& columns)
      : tensor(*of.tensor), facts(*meaning::FactsOf(tensor.role)) {
    const auto extent = [&](ShapeAxis axis) {
      return static_cast<uint32_t>(meaning::ExtentOf(axis, of.hidden, *of.layer_class, columns.size(), columns.size()));
    };
    is_vector = facts.inputs == ShapeAxis::kInvalid;
    rows = is_vector ? 1 : extent(facts.outputs) / halves();
    columns_ = is_vector ? extent(facts.outputs) / halves() : extent(facts.inputs);
    transposed = !is_vector && tensor.shape.back() != facts.inputs;
    interleaved = tensor.layout == GateUpLayout::kInterleaved;
    packed = FindDType(tensor.dtype)->packed_bits == 4 && meaning::FindSide(tensor, SideKind::kScale) != nullptr;
  }

  uint32_t halves() const { return facts.fused ? 2 : 1; }
  bool empty() const { return rows == 0 || columns_ == 0; }

  // Bytes of `elements` that lie one after the other.
  uint64_t BytesOfRun(uint64_t elements) const {
    const DTypeRow& row = *FindDType(tensor.dtype);
    return packed ? elements / 2 : elements / row.block_elements * (row.block_bits / 8);
  }
  uint64_t bytes() const { return halves() * rows * BytesOfRun(columns_); }

  // The halves over `data`, without scales.
  Halves Views(const std::byte* data) const {
    Halves views;
    for (uint32_t half = 0; half < halves(); ++half) {
      WeightMatrix& view = views[half];
      view.dtype = tensor.dtype;
      view.rows = rows;
      view.columns = columns_;
      view.packed = packed;
      const uint64_t element = BytesOfRun(1);
      const uint64_t run = BytesOfRun(columns_);
      if (transposed) {
        // Rows of the other axis; interleaved, each holds both halves.
        view.row_bytes = interleaved ? 2 * element : element;
        view.element_bytes = interleaved ? 2 * rows * element : rows * element;
        view.data = data + (interleaved ? half * element : half * rows * columns_ * element);
      } else if (is_vector) {
        view.row_bytes = halves() * run;
        if (interleaved) view.element_bytes = 2 * element;
        view.data = data + half * (interleaved ? element : run);
      } else {
        view.row_bytes = interleaved ? 2 * run : run;
        view.data = data + half * (interleaved ? run : rows * run);
      }
    }
    return views;
  }

  const TensorClass& tensor;
  const meaning::RoleFacts& facts;
  bool is_vector = false;
  bool transposed = false;
  bool interleaved = false;
  bool packed = false;
  uint32_t rows = 0;      // outputs of one half; a vector is one row
  uint32_t columns_ = 0;  // inputs; a vector's elements
};

// The scales of a rank's part: as its matrix lies, on a grid of blocks.
struct LocalScales {
  LocalScales(const SideTensor& scales, const LocalMatrix& matrix) : side(scales), of(matrix) {
    element = FindDType(side.dtype)->block_bits / 8;
    if (!meaning::HasBlock(side)) return;
    const bool halves = of.facts.fused && !of.interleaved;
    // In halves, a block may hold rows of both.
    apart = halves && (side.of == ScaleOf::kHalf || of.rows % side.block_rows == 0);
    grid_rows = apart ? CeilDiv(of.rows, side.block_rows) : CeilDiv(of.halves() * of.rows, side.block_rows);
    grid_columns = CeilDiv(of.columns_, side.block_columns);
  }

  uint64_t bytes() const {
    if (!meaning::HasBlock(side)) return of.halves() * element;
    return (apart ? 2 : 1) * grid_rows * grid_columns * element;
  }

  WeightScales View(uint32_t half, const std::byte* data) const {
    WeightScales view;
    view.dtype = side.dtype;
    view.applies = side.applies;
    view.data = data;
    if (!meaning::HasBlock(side)) {
      view.data += half * element;
      return view;
    }
    view.block_rows = side.block_rows;
    view.block_columns = side.block_columns;
    view.row_bytes = of.transposed ? element : grid_columns * element;
    view.column_bytes = of.transposed ? grid_rows * element : element;
    if (apart) {
      view.data += half * grid_rows * grid_columns * element;
    } else if (of.facts.fused) {
      view.first_row = of.interleaved ? half : half * of.rows;
      view.row_step = of.interleaved ? 2 : 1;
    }
    return view;
  }

  const SideTensor& side;
  const LocalMatrix& of;
  uint64_t element = 0;  // bytes
  bool apart = false;    // a grid for each half
  uint64_t grid_rows = 0;
  uint64_t grid_columns = 0;
};

// Why a scale may not be used; null for a good one.
const char* FaultOfScale(DType dtype, const std::byte* scale) {
  const float value = ScaleValue(dtype, scale);
  const bool power = dtype == DType::kF8E8M0 || dtype == DType::kU8;
  if (power ? std::to_integer<unsigned>(*scale) == 255 : !std::isfinite(value)) return "it is not finite";
  return dtype == DType::kF8E4M3 && std::signbit(value) ? "it has a sign" : nullptr;
}

// Scales of a tensor of their own, or those inside blocks.
absl::Status CheckScales(const Atom& atom, absl::Span<const std::byte> bytes) {
  const auto refuse = [&atom](const char* what, uint64_t number, const char* fault) {
    return Refuse(Reason::kWeightsTensor,
                  absl::StrCat("expert ", atom.expert, ", ", what, " ", number, " of this rank's part: ", fault));
  };
  if (atom.of.side != nullptr) {
    const uint64_t size = FindDType(atom.of.side->dtype)->block_bits / 8;
    for (uint64_t i = 0; i < bytes.size() / size; ++i) {
      const char* const fault = FaultOfScale(atom.of.side->dtype, bytes.data() + i * size);
      if (fault != nullptr) return refuse("scale", i, fault);
    }
    return absl::OkStatus();
  }
  const Format* const format = FindFormat(atom.of.tensor->dtype);
  if (format == nullptr || format->block_elements == 1) return absl::OkStatus();
  if (meaning::FindSide(*atom.of.tensor, SideKind::kScale) != nullptr) return absl::OkStatus();
  for (uint64_t i = 0; i < bytes.size() / format->block_bytes; ++i) {
    const char* const fault = format->fault(bytes.data() + i * format->block_bytes);
    if (fault != nullptr) return refuse("block", i, fault);
  }
  return absl::OkStatus();
}

}  // namespace

// Gives tensors their places: planes by falling alignment, which their sizes are multiples of, so that none leaves room
// behind it, and then whatever stays as stored, one after the other.
class RankWeights::Placing {
 public:
  // Where what lies at multiples of 16, 8, 4, 2 and 1 begins, and then what is as stored.
  using Begins = std::array<uint64_t, 6>;

  Placing(RankWeights& weights, bool repacks, const Begins& begins)
      : weights_(weights), repacks_(repacks), next_(begins) {}

  absl::Status PlaceAll(const Plan& plan, uint32_t rank);

  uint64_t placed() const { return placed_; }

  // Of one that began at zeros: where what it placed has to begin, so that each lies behind the other.
  Begins Behind() const {
    Begins begins = {};
    for (size_t i = 1; i < begins.size(); ++i) begins[i] = begins[i - 1] + next_[i - 1];
    return begins;
  }

 private:
  static constexpr size_t kAsStored = 5;
  static size_t OfAlignment(uint32_t alignment) {
    return alignment == 16 ? 0 : alignment == 8 ? 1 : alignment == 4 ? 2 : alignment == 2 ? 3 : 4;
  }

  // The matrix, or both halves of gate and up, of `atom` with the columns that the rank holds.
  absl::StatusOr<Halves> Place(Atom atom, const ColumnRange& columns) {
    const LocalMatrix matrix(atom.of, columns);
    if (matrix.empty()) return Halves{};
    atom.columns = {columns.begin, columns.end};
    const bool is_repacked = repacks_ && !matrix.is_vector && matrix.tensor.role != TensorRole::kRouter &&
                             !matrix.packed && !PlanesOf(matrix.tensor.dtype).empty();
    MESHSEAL_ASSIGN_OR_RETURN(Halves halves, is_repacked ? TakePlanes(atom, matrix) : TakeAsStored(atom, matrix));
    for (const SideTensor& side : matrix.tensor.sides) {
      const LocalScales scales(side, matrix);
      atom.of.side = &side;
      MESHSEAL_ASSIGN_OR_RETURN(const uint64_t offset, Take(kAsStored, scales.bytes()));
      weights_.pieces_.push_back({atom, offset, scales.bytes(), {}});
      const std::byte* const at = weights_.memory_->bytes().data() + offset;
      for (uint32_t half = 0; half < matrix.halves(); ++half) {
        if (side.kind == SideKind::kScale) halves[half].scale = scales.View(half, at);
        if (side.kind == SideKind::kScale2) halves[half].scale_2 = scales.View(half, at);
      }
    }
    return halves;
  }

  absl::StatusOr<Halves> TakeAsStored(const Atom& atom, const LocalMatrix& matrix) {
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t offset, Take(kAsStored, matrix.bytes()));
    weights_.pieces_.push_back({atom, offset, matrix.bytes(), {}});
    return matrix.Views(weights_.memory_->bytes().data() + offset);
  }

  absl::StatusOr<Halves> TakePlanes(const Atom& atom, const LocalMatrix& matrix) {
    const std::byte* const memory = weights_.memory_->bytes().data();
    const absl::Span<const Plane> planes = PlanesOf(matrix.tensor.dtype);
    Halves halves = matrix.Views(memory);
    Piece piece = {atom, 0, matrix.bytes(), {}};
    for (uint32_t half = 0; half < matrix.halves(); ++half) {
      WeightMatrix& view = halves[half];
      RepackedMatrix& repacked = piece.repacked.emplace_back();
      repacked.at = static_cast<uint64_t>(view.data - memory);
      repacked.stored = {nullptr, view.row_bytes, view.rows, view.columns};
      view.data = nullptr;
      view.row_bytes = 0;
      view.planes.strip_rows = StripRowsOf(view.rows);
      for (size_t i = 0; i < planes.size(); ++i) {
        const uint32_t alignment = AlignmentOfPlaces(view.planes.strip_rows * planes[i].bytes);
        MESHSEAL_ASSIGN_OR_RETURN(repacked.offsets[i],
                                  Take(OfAlignment(alignment), BytesOfPlane(planes[i], view.rows, view.columns)));
        view.planes.data[i] = memory + repacked.offsets[i];
      }
    }
    weights_.pieces_.push_back(std::move(piece));
    return halves;
  }

  absl::StatusOr<uint64_t> Take(size_t kind, uint64_t bytes) {
    const uint64_t memory = weights_.memory_->bytes().size();
    if (bytes > memory - placed_) {
      return Refuse(Reason::kBug,
                    absl::StrCat("the atoms need more than the ", memory, " bytes that the plan charges"));
    }
    placed_ += bytes;
    return std::exchange(next_[kind], next_[kind] + bytes);
  }

  RankWeights& weights_;
  const bool repacks_;
  Begins next_;
  uint64_t placed_ = 0;
};

absl::Status RankWeights::Placing::PlaceAll(const Plan& plan, uint32_t rank) {
  const Coordinate at = CoordinateOf(plan.degrees, rank);
  const LayerRange stage = LayersOfStage(plan, at.pp);

  for (uint32_t layer = stage.first; layer < stage.last; ++layer) {
    const std::optional<uint32_t> class_index = ClassOfLayer(plan, layer);
    if (!class_index.has_value()) continue;
    const LayerClass& c = plan.layer_classes[*class_index];
    const std::vector<uint32_t> held = LocalExperts(c, at.ep);
    const ColumnRange columns = ColumnsOf(c, at.tp);
    const ColumnRange shared_columns = SharedColumnsOf(c, plan.degrees, at);
    LayerWeights& view = weights_.layers_[layer - stage.first];
    view.experts.resize(held.size());
    for (const TensorClass& tensor : c.tensors) {
      const LayerTensor of = {plan.hidden, &c, &tensor, nullptr};
      // One matrix of the layer, or one of each expert; gate and up in one have two places.
      const auto whole = [&](WeightMatrix* matrix, WeightMatrix* up = nullptr) -> absl::Status {
        MESHSEAL_ASSIGN_OR_RETURN(const Halves halves, Place({of, layer, 0, {}}, shared_columns));
        *matrix = halves[0];
        if (up != nullptr) *up = halves[1];
        return absl::OkStatus();
      };
      const auto experts = [&](WeightMatrix ExpertWeights::*matrix,
                               WeightMatrix ExpertWeights::*up = nullptr) -> absl::Status {
        for (size_t local = 0; local < held.size(); ++local) {
          MESHSEAL_ASSIGN_OR_RETURN(const Halves halves, Place({of, layer, held[local], {}}, columns));
          view.experts[local].*matrix = halves[0];
          if (up != nullptr) view.experts[local].*up = halves[1];
        }
        return absl::OkStatus();
      };
      absl::Status placed;
      switch (tensor.role) {
        case TensorRole::kRouter:
          placed = whole(&view.router);
          break;
        case TensorRole::kRouterBias:
          placed = whole(&view.router_bias);
          break;
        case TensorRole::kSelectionBias:
          placed = whole(&view.selection_bias);
          break;
        case TensorRole::kTokenTable:
          placed = whole(&view.token_table);
          break;
        case TensorRole::kGate:
          placed = experts(&ExpertWeights::gate);
          break;
        case TensorRole::kUp:
          placed = experts(&ExpertWeights::up);
          break;
        case TensorRole::kGateUp:
          placed = experts(&ExpertWeights::gate, &ExpertWeights::up);
          break;
        case TensorRole::kDown:
          placed = experts(&ExpertWeights::down);
          break;
        case TensorRole::kGateBias:
          placed = experts(&ExpertWeights::gate_bias);
          break;
        case TensorRole::kUpBias:
          placed = experts(&ExpertWeights::up_bias);
          break;
        case TensorRole::kGateUpBias:
          placed = experts(&ExpertWeights::gate_bias, &ExpertWeights::up_bias);
          break;
        case TensorRole::kDownBias:
          placed = experts(&ExpertWeights::down_bias);
          break;
        case TensorRole::kSharedGate:
          placed = whole(&view.shared.gate);
          break;
        case TensorRole::kSharedUp:
          placed = whole(&view.shared.up);
          break;
        case TensorRole::kSharedGateUp:
          placed = whole(&view.shared.gate, &view.shared.up);
          break;
        case TensorRole::kSharedDown:
          placed = whole(&view.shared.down);
          break;
        case TensorRole::kSharedExpertGate:
          placed = whole(&view.shared.expert_gate);
          break;
        case TensorRole::kInvalid:  // the meaning gate refuses it
          break;
      }
      MESHSEAL_RETURN_IF_ERROR(placed);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<RankWeights> RankWeights::Reserve(const SealedPlan& sealed, uint32_t rank, ReserveMemory reserve) {
  const Plan& plan = sealed.plan();
  RankWeights weights;
  const uint64_t charged = plan.memory[rank].weights;
  MESHSEAL_ASSIGN_OR_RETURN(weights.memory_, reserve(charged));
  const LayerRange stage = LayersOfStage(plan, CoordinateOf(plan.degrees, rank).pp);
  weights.first_layer_ = stage.first;
  weights.layers_.resize(stage.last - stage.first);
  const bool repacks = plan.limits.repack != Repack::kNone;
  Placing::Begins begins = {};
  if (repacks) {  // once to see how many bytes lie how
    Placing sizing(weights, repacks, begins);
    MESHSEAL_RETURN_IF_ERROR(sizing.PlaceAll(plan, rank));
    begins = sizing.Behind();
    weights.pieces_.clear();
  }
  Placing placing(weights, repacks, begins);
  MESHSEAL_RETURN_IF_ERROR(placing.PlaceAll(plan, rank));
  if (placing.placed() != charged) {
    return Refuse(Reason::kBug,
                  absl::StrCat("the atoms need ", placing.placed(), " bytes, the plan charges ", charged));
  }
  return weights;
}

absl::Status RankWeights::LoadPiece(const WeightFiles& files, const Piece& piece, absl::Span<std::byte> stored,
                                    WeightPlacer& placer) const {
  const absl::Span<std::byte> read =
      piece.repacked.empty() ? placer.Stage(piece.offset, piece.bytes) : stored.first(piece.bytes);
  MESHSEAL_RETURN_IF_ERROR(files.Read(piece.atom, read));
  MESHSEAL_RETURN_IF_ERROR(files.Verify(piece.atom, read));
  const absl::Status scales = CheckScales(piece.atom, read);
  if (!scales.ok()) {
    return Refuse(*ReasonOf(scales), absl::StrCat(files.PlaceText(piece.atom), ", ", scales.message()));
  }
  if (piece.repacked.empty()) return placer.Put();
  const DType dtype = piece.atom.of.tensor->dtype;
  const absl::Span<const Plane> planes = PlanesOf(dtype);
  for (const RepackedMatrix& matrix : piece.repacked) {
    StoredBlocks blocks = matrix.stored;
    blocks.data = read.data() + matrix.at;
    for (uint32_t plane = 0; plane < planes.size(); ++plane) {
      const uint64_t bytes = BytesOfPlane(planes[plane], blocks.rows, blocks.columns);
      RepackPlane(dtype, blocks, plane, placer.Stage(matrix.offsets[plane], bytes).data());
      MESHSEAL_RETURN_IF_ERROR(placer.Put());
    }
  }
  return absl::OkStatus();
}

absl::Status RankWeights::Load(const WeightFiles& files, uint32_t threads, LoadProgress* progress) {
  // In the order of the disk.
  std::vector<std::pair<std::pair<uint32_t, uint64_t>, const Piece*>> order;
  order.reserve(pieces_.size());
  for (const Piece& piece : pieces_) order.emplace_back(files.PlaceOf(piece.atom), &piece);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second->offset < b.second->offset;
  });

  uint64_t largest = 0;         // that is put in its place at once; a plane is smaller than its piece
  uint64_t largest_stored = 0;  // that is repacked
  for (const Piece& piece : pieces_) {
    largest = std::max(largest, piece.bytes);
    if (!piece.repacked.empty()) largest_stored = std::max(largest_stored, piece.bytes);
  }

  threads = static_cast<uint32_t>(std::clamp<uint64_t>(threads, 1, std::max<size_t>(1, order.size())));
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  // Each thread's first failure and where it was; the first of all is told.
  std::vector<std::pair<size_t, absl::Status>> failures(threads, {order.size(), absl::OkStatus()});
  const auto work = [&](uint32_t thread) {
    std::unique_ptr<WeightPlacer> placer;
    std::vector<std::byte> stored;
    while (!failed.load()) {
      const size_t at = next.fetch_add(1);
      if (at >= order.size()) return;
      absl::Status status;
      try {
        if (placer == nullptr) {
          absl::StatusOr<std::unique_ptr<WeightPlacer>> made = memory_->MakePlacer(largest);
          status = made.status();
          if (made.ok()) placer = std::move(*made);
          stored.resize(largest_stored);
        }
        if (status.ok()) status = LoadPiece(files, *order[at].second, absl::MakeSpan(stored), *placer);
      } catch (const std::bad_alloc&) {
        status = OutOfMemory();
      }
      if (!status.ok()) {
        failures[thread] = {at, std::move(status)};
        failed.store(true);
        return;
      }
      if (progress != nullptr) progress->bytes.fetch_add(order[at].second->bytes);
    }
  };
  absl::Status thread_failure;
  std::vector<std::thread> others;
  others.reserve(threads);
  try {
    for (uint32_t thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
  } catch (const std::exception&) {  // system_error or bad_alloc
    thread_failure = OutOfMemory();  // not of a piece: of the thread that would have read some
    failed.store(true);
  }
  work(0);
  for (std::thread& other : others) other.join();
  MESHSEAL_RETURN_IF_ERROR(thread_failure);
  return std::min_element(failures.begin(), failures.end(),
                          [](const auto& a, const auto& b) { return a.first < b.first; })
      ->second;
}

const LayerWeights* RankWeights::Layer(uint32_t layer) const {
  if (layer < first_layer_ || layer - first_layer_ >= layers_.size()) return nullptr;
  const LayerWeights& view = layers_[layer - first_layer_];
  return view.experts.empty() ? nullptr : &view;
}

}  // namespace meshseal::runtime
