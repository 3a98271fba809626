// Weights that are made instead of read: any model's layer runs, and is measured, without its checkpoint.
#ifndef MESHSEAL_RUNTIME_WEIGHTS_SYNTHETIC_WEIGHTS_H_
#define MESHSEAL_RUNTIME_WEIGHTS_SYNTHETIC_WEIGHTS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/weights/atom.h"

namespace meshseal::runtime {

// The atom's bytes, as a checkpoint's would be, made of `seed`, the tensor's name and each block's place in the whole
// tensor: equal on every machine and for every cut. Weights are of about 2^-5, scales fit, a token's row in a table
// names different experts. `out` is the atom's; reason kBug where it is not. Thread-safe.
absl::Status MakeSynthetic(uint64_t seed, const Atom& atom, absl::Span<std::byte> out);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_WEIGHTS_SYNTHETIC_WEIGHTS_H_
