// The unit in which weights are owned and read.
#ifndef MESHSEAL_RUNTIME_WEIGHTS_ATOM_H_
#define MESHSEAL_RUNTIME_WEIGHTS_ATOM_H_

#include <cstdint>
#include <string>

#include "schema/atom_bytes.h"
#include "schema/intervals.h"
#include "schema/tensor_name.h"

namespace meshseal::runtime {

// Which part of which tensor: `columns` of the intermediate axis, or of the shared expert's width, of one expert.
struct Atom {
  LayerTensor of;
  uint32_t layer = 0;
  uint32_t expert = 0;  // of the layer; 0 for a tensor that has none
  Interval columns;     // not read where nothing is cut
};

// The pattern of its tensor's name.
inline const std::string& PatternOf(const LayerTensor& of) {
  return of.side == nullptr ? of.tensor->name : of.side->name;
}

// The name that a checkpoint has for its tensor.
inline std::string NameOf(const Atom& atom) { return TensorName(PatternOf(atom.of), atom.layer, atom.expert); }

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_WEIGHTS_ATOM_H_
