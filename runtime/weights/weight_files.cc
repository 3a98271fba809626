#include "runtime/weights/weight_files.h"

#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/dtype.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/tensor_name.h"

namespace meshseal::runtime {
namespace {

constexpr const char* kFile = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

std::string ShapeText(absl::Span<const uint64_t> shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

std::string AxesText(absl::Span<const ShapeAxis> axes) {
  return absl::StrJoin(axes, ", ", [](std::string* out, ShapeAxis axis) { absl::StrAppend(out, WordOf(axis)); });
}

// Whether a layer has one such tensor, and not one for each expert.
bool IsOfLayer(TensorRole role) {
  return role == TensorRole::kRouter || role == TensorRole::kRouterBias || role == TensorRole::kSelectionBias;
}

bool IsIgnored(const Plan& plan, absl::string_view name) {
  for (const std::string& pattern : plan.ignored_tensors) {
    if (MatchesPattern(pattern, name)) return true;
  }
  return false;
}

}  // namespace

std::vector<uint64_t> ShapeOf(const Plan& plan, const LayerClass& layer_class, const TensorClass& tensor) {
  std::vector<uint64_t> shape;
  for (const ShapeAxis axis : tensor.shape) {
    switch (axis) {
      case ShapeAxis::kHidden:
        shape.push_back(plan.hidden);
        break;
      case ShapeAxis::kIntermediate:
        shape.push_back(layer_class.intermediate);
        break;
      case ShapeAxis::kExperts:
        shape.push_back(layer_class.experts);
        break;
      default:  // the meaning gate refuses tensors with other axes
        break;
    }
  }
  return shape;
}

absl::StatusOr<WeightFiles> WeightFiles::Open(const SealedPlan& sealed, const std::filesystem::path& folder) {
  const Plan& plan = sealed.plan();
  std::error_code ignored;
  if (std::filesystem::exists(folder / kIndex, ignored)) {
    return Refuse(Reason::kNotBuilt,
                  absl::StrCat((folder / kIndex).string(), ": sharded checkpoints are not built yet"));
  }
  const std::filesystem::path path = folder / kFile;
  MESHSEAL_ASSIGN_OR_RETURN(SafetensorsFile opened, SafetensorsFile::Open(path));
  WeightFiles files(std::move(opened), path.string());

  const TensorEntry* const first = files.file_.entries().data();
  std::vector<bool> is_read(files.file_.entries().size(), false);
  for (const LayerClass& c : plan.layer_classes) {
    for (const LayerRange& range : c.layers) {
      for (uint32_t layer = range.first; layer < range.last; ++layer) {
        for (const TensorClass& tensor : c.tensors) {
          const uint32_t count = IsOfLayer(tensor.role) ? 1 : c.experts;
          for (uint32_t expert = 0; expert < count; ++expert) {
            MESHSEAL_ASSIGN_OR_RETURN(const TensorEntry* const entry,
                                      files.CheckedEntry(plan, c, tensor, layer, expert));
            is_read[static_cast<size_t>(entry - first)] = true;
          }
        }
      }
    }
  }
  for (size_t i = 0; i < is_read.size(); ++i) {
    const std::string& name = first[i].name;
    if (is_read[i] || IsIgnored(plan, name)) continue;
    return Refuse(Reason::kWeightsTensor, absl::StrCat(files.path_, ": tensor '", name,
                                                       "': no step reads it and no ignored pattern covers it"));
  }
  return files;
}

absl::StatusOr<const TensorEntry*> WeightFiles::CheckedEntry(const Plan& plan, const LayerClass& layer_class,
                                                             const TensorClass& tensor, uint32_t layer,
                                                             uint32_t expert) const {
  MESHSEAL_ASSIGN_OR_RETURN(const TensorEntry* const entry, file_.Find(TensorName(tensor.name, layer, expert)));
  if (entry->dtype != tensor.dtype) {
    return Refuse(Reason::kWeightsTensor,
                  absl::StrCat(path_, ": tensor '", entry->name, "': dtype ", DTypeName(entry->dtype),
                               ", the plan's is ", DTypeName(tensor.dtype)));
  }
  const std::vector<uint64_t> shape = ShapeOf(plan, layer_class, tensor);
  if (entry->shape != shape) {
    return Refuse(Reason::kWeightsTensor,
                  absl::StrCat(path_, ": tensor '", entry->name, "': shape ", ShapeText(entry->shape),
                               ", the plan's is ", ShapeText(shape), " (", AxesText(tensor.shape), ")"));
  }
  return entry;
}

absl::Status WeightFiles::Read(const TensorClass& tensor, uint32_t layer, uint32_t expert, const Block& block,
                               absl::Span<std::byte> out) const {
  MESHSEAL_ASSIGN_OR_RETURN(const TensorEntry* const entry, file_.Find(TensorName(tensor.name, layer, expert)));
  const bool is_row = entry->shape.size() == 1;
  const bool is_matrix = entry->shape.size() == 2;
  const uint64_t rows = is_matrix ? entry->shape[0] : 1;
  const uint64_t columns = is_row || is_matrix ? entry->shape.back() : 0;
  if (!(is_row || is_matrix) || block.first_row + block.rows > rows || block.first_column + block.columns > columns) {
    return Refuse(Reason::kBug, absl::StrCat(path_, ": tensor '", entry->name, "': a block outside its shape ",
                                             ShapeText(entry->shape)));
  }
  // The header proved that the whole tensor lies in the file, so none of this can wrap.
  const uint64_t row_bytes = (entry->end - entry->begin) / rows;
  const uint64_t element_bytes = row_bytes / columns;
  const uint64_t block_row_bytes = block.columns * element_bytes;
  if (out.size() != block.rows * block_row_bytes) {
    return Refuse(Reason::kBug, absl::StrCat(path_, ": tensor '", entry->name, "': ", out.size(),
                                             " bytes for a block of ", block.rows * block_row_bytes));
  }
  const uint64_t begin = entry->begin + block.first_row * row_bytes;
  if (block.columns == columns) return file_.Read(begin, out);
  for (uint64_t row = 0; row < block.rows; ++row) {
    MESHSEAL_RETURN_IF_ERROR(file_.Read(begin + row * row_bytes + block.first_column * element_bytes,
                                        out.subspan(row * block_row_bytes, block_row_bytes)));
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
