// Where an axis of the experts may be cut: at multiples of blocks, tiles and rotations of all matrices that share it.
#ifndef MESHSEAL_COMPILER_CHECK_GRAIN_H_
#define MESHSEAL_COMPILER_CHECK_GRAIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/manifest/manifest.h"

namespace meshseal::compiler {

inline constexpr uint64_t kQ8Block = 32;  // of the q8 activation basis

// A reason why a cut must lie at a multiple of `size`.
struct Grain {
  uint64_t size = 1;
  std::string what;
  Span span;
};

// The grains of the matrices that are cut along `axis` (kIntermediate or kShared): gate and up by their outputs, down
// by its inputs.
std::vector<Grain> GrainsOf(const MoeSpec& moe, ShapeAxis axis, const Spanned<Basis>& down_basis);

// The least common multiple of the grains: a cut lies between whole units.
uint64_t CutUnit(const std::vector<Grain>& grains);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_CHECK_GRAIN_H_
