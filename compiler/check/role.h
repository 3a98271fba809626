// What a tensor role stands for: the axes of its matrix or vector, when steps read it, and how a tensor of a checkpoint
// says so. Internal to the check and budget stages.
#ifndef MESHSEAL_COMPILER_CHECK_ROLE_H_
#define MESHSEAL_COMPILER_CHECK_ROLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "compiler/manifest/manifest.h"
#include "schema/terms.h"

namespace meshseal::compiler {

// One role: its product's outputs first, the axis it contracts over second (kInvalid for a vector).
struct RoleRow {
  TensorRole role;
  ShapeAxis outputs;
  ShapeAxis inputs;
  bool per_expert;  // one for each routed expert
  bool fused;       // gate and up in one: says its layout
};

absl::Span<const RoleRow> RoleRows();
const RoleRow& RowOf(TensorRole role);

inline bool IsMatrix(const RoleRow& row) { return row.inputs != ShapeAxis::kInvalid; }
// Whether the role is a matrix of the experts or of the shared expert, which may be quantised.
bool IsExpertMatrix(const RoleRow& row);

// Whether the steps of `moe`'s layers read the role, and the manifest's word that decides it.
struct Reading {
  bool read = false;
  std::string why;
};
Reading ReadingOf(const MoeSpec& moe, TensorRole role);

// The tensors that the steps of `moe`'s layers read.
std::vector<const TensorSpec*> TensorsRead(const MoeSpec& moe);

// The length of an axis; 0 for the vocabulary of layers without a token table.
uint64_t ExtentOf(ShapeAxis axis, const Manifest& model, const MoeSpec& moe);

// Whether the tensor holds all experts along its first axis.
bool IsStacked(const TensorSpec& tensor);
// Whether the axis that its product contracts over is not the last one.
bool IsTransposed(const TensorSpec& tensor);

// All side tensors of a tensor, with the keys they stand under.
struct NamedSide {
  const char* key;
  const SideTensorSpec* side;
};
std::vector<NamedSide> SidesOf(const TensorSpec& tensor);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_CHECK_ROLE_H_
