// Byte counts of tensors as they are stored, and of what goes with them, in arithmetic that reports when 64 bits were
// too few.
#ifndef MESHSEAL_COMPILER_BUDGET_STORED_SIZE_H_
#define MESHSEAL_COMPILER_BUDGET_STORED_SIZE_H_

#include <cstdint>
#include <optional>

#include "compiler/manifest/manifest.h"

namespace meshseal::compiler {

// What every rank adds to a collective besides its rows.
inline constexpr uint64_t kStatusLaneBytes = 64;

// What a rank reads of a layer.
struct LayerBytes {
  uint64_t replicated = 0;  // whole on every rank: router, biases of the router, tables, gate of the shared expert
  uint64_t per_expert = 0;  // its columns of one expert
  uint64_t shared = 0;      // its columns of the shared expert
};

// A result after an overflow is refused by the caller, never used.
class StoredSize {
 public:
  uint64_t Mul(uint64_t a, uint64_t b);
  uint64_t Add(uint64_t a, uint64_t b);

  // Bytes of one matrix of `tensor` (a vector has 1 input) with its scales, none of an empty one. Blocks that a cut
  // would not keep whole, and scale blocks at an edge, are charged whole.
  uint64_t Stored(const TensorSpec& tensor, uint64_t outputs, uint64_t inputs);

  // Everything that the steps of `moe`'s layers read, on a rank with these columns.
  LayerBytes Layer(const Manifest& model, const MoeSpec& moe, uint64_t columns, uint64_t shared_columns);

  bool overflowed() const { return overflowed_; }

 private:
  uint64_t Keep(std::optional<uint64_t> result);
  uint64_t Scales(const SideTensorSpec& side, bool fused, uint64_t outputs, uint64_t inputs);

  bool overflowed_ = false;
};

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_BUDGET_STORED_SIZE_H_
