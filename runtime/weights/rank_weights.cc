#include "runtime/weights/rank_weights.h"

#include "absl/strings/str_cat.h"
#include "runtime/formats/format.h"
#include "runtime/program/rank_facts.h"
#include "schema/mesh_view.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {

absl::StatusOr<WeightMatrix> RankWeights::Place(const TensorClass& tensor, Atom atom) {
  const std::optional<uint64_t> row_bytes = BytesOf(tensor.dtype, atom.block.columns);
  if (FindFormat(tensor.dtype) == nullptr || !row_bytes.has_value()) {
    return Refuse(Reason::kNotBuilt,
                  absl::StrCat("tensor '", tensor.name, "': weights of dtype ", DTypeName(tensor.dtype)));
  }
  atom.offset = placed_;
  atom.bytes = atom.block.rows * *row_bytes;  // both below 2^23: sizes-are-sane
  placed_ += atom.bytes;
  if (placed_ > memory_.bytes().size()) {
    return Refuse(Reason::kBug, absl::StrCat("the atoms need more than the ", memory_.bytes().size(),
                                             " bytes that the plan charges"));
  }
  WeightMatrix matrix;
  matrix.dtype = tensor.dtype;
  matrix.rows = static_cast<uint32_t>(atom.block.rows);
  matrix.columns = static_cast<uint32_t>(atom.block.columns);
  matrix.row_bytes = *row_bytes;
  matrix.data = memory_.bytes().data() + atom.offset;
  atoms_.push_back(atom);
  return matrix;
}

absl::StatusOr<RankWeights> RankWeights::Reserve(const SealedPlan& sealed, uint32_t rank) {
  const Plan& plan = sealed.plan();
  RankWeights weights;
  const uint64_t charged = plan.memory[rank].weights;
  MESHSEAL_ASSIGN_OR_RETURN(weights.memory_, Arena::Reserve(charged, "weights"));
  const Coordinate at = CoordinateOf(plan.degrees, rank);
  const LayerRange stage = LayersOfStage(plan, at.pp);
  weights.first_layer_ = stage.first;
  weights.layers_.resize(stage.last - stage.first);

  for (uint32_t layer = stage.first; layer < stage.last; ++layer) {
    const std::optional<uint32_t> class_index = ClassOfLayer(plan, layer);
    if (!class_index.has_value()) continue;
    const LayerClass& c = plan.layer_classes[*class_index];
    const std::vector<uint32_t> owned = LocalExperts(c, at.ep);
    const ColumnRange columns = ColumnsOf(c, at.tp);
    LayerWeights& view = weights.layers_[layer - stage.first];
    view.experts.resize(owned.size());
    for (uint32_t t = 0; t < c.tensors.size(); ++t) {
      const TensorClass& tensor = c.tensors[t];
      const auto place = [&](uint32_t expert, const WeightFiles::Block& block, WeightMatrix* matrix) -> absl::Status {
        MESHSEAL_ASSIGN_OR_RETURN(*matrix, weights.Place(tensor, Atom{layer, expert, *class_index, t, block}));
        return absl::OkStatus();
      };
      const WeightFiles::Block whole_router = {0, c.experts, 0, plan.hidden};
      const WeightFiles::Block own_rows = {columns.begin, columns.size(), 0, plan.hidden};
      const WeightFiles::Block own_columns = {0, plan.hidden, columns.begin, columns.size()};
      const WeightFiles::Block whole_vector = {0, 1, 0, c.experts};
      if (tensor.role == TensorRole::kRouter) {
        MESHSEAL_RETURN_IF_ERROR(place(0, whole_router, &view.router));
        continue;
      }
      if (tensor.role == TensorRole::kRouterBias || tensor.role == TensorRole::kSelectionBias) {
        const bool selects = tensor.role == TensorRole::kSelectionBias;
        MESHSEAL_RETURN_IF_ERROR(place(0, whole_vector, selects ? &view.selection_bias : &view.router_bias));
        continue;
      }
      for (size_t local = 0; local < owned.size(); ++local) {
        ExpertWeights& expert = view.experts[local];
        switch (tensor.role) {
          case TensorRole::kGate:
            MESHSEAL_RETURN_IF_ERROR(place(owned[local], own_rows, &expert.gate));
            break;
          case TensorRole::kUp:
            MESHSEAL_RETURN_IF_ERROR(place(owned[local], own_rows, &expert.up));
            break;
          case TensorRole::kDown:
            MESHSEAL_RETURN_IF_ERROR(place(owned[local], own_columns, &expert.down));
            break;
          case TensorRole::kRouter:
          default:  // the meaning gate refuses other roles
            break;
        }
      }
    }
  }
  if (weights.placed_ != charged) {
    return Refuse(Reason::kBug, absl::StrCat("the atoms need ", weights.placed_, " bytes, the plan charges ", charged));
  }
  return weights;
}

absl::Status RankWeights::Load(const SealedPlan& plan, const WeightFiles& files) {
  const std::vector<LayerClass>& classes = plan.plan().layer_classes;
  for (const Atom& atom : atoms_) {
    MESHSEAL_RETURN_IF_ERROR(files.Read(classes[atom.layer_class].tensors[atom.tensor], atom.layer, atom.expert,
                                        atom.block, memory_.bytes().subspan(atom.offset, atom.bytes)));
  }
  return absl::OkStatus();
}

const LayerWeights* RankWeights::Layer(uint32_t layer) const {
  if (layer < first_layer_ || layer - first_layer_ >= layers_.size()) return nullptr;
  const LayerWeights& view = layers_[layer - first_layer_];
  return view.experts.empty() ? nullptr : &view;
}

}  // namespace meshseal::runtime
