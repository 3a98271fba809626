// How the bytes of a tensor lie in a checkpoint, and which of them belong to a part of its columns: the arithmetic of
// the property tests, from the formats' definitions alone.
#ifndef MESHSEAL_TESTS_PROPERTIES_STORED_ARRAY_H_
#define MESHSEAL_TESTS_PROPERTIES_STORED_ARRAY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/properties/random_deployment.h"

namespace meshseal::properties {

// Half-open.
struct Run {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Who holds what of an array.
enum class Division : uint8_t {
  kWhole,          // every rank of the group, all of it
  kExperts,        // the ranks that hold the expert, all of its cells
  kExpertColumns,  // the ranks that hold the expert, the cells of their columns
  kShared,         // the ranks that have a part of the shared expert, all of it
  kSharedColumns,  // likewise, the cells of their part
};

// The weights of one tensor row, or one of its side tensors: a matrix of equal cells (elements, blocks, pairs of 4-bit
// codes, scales), one for each expert where it is divided by experts.
struct StoredArray {
  std::string what;  // "gate.scale"
  Division division = Division::kWhole;
  uint64_t outputs = 0;  // cells along the outputs of the product
  uint64_t inputs = 0;   // and along what it contracts over
  uint64_t cell_bytes = 0;
  bool outputs_outside = true;  // whether the outputs are the slower axis of the file
  bool cuts_outputs = false;    // which axis has the columns
  uint64_t width = 0;           // columns in all
  uint64_t cell_columns = 1;    // columns, or rows of a fused tensor, of a cell
  enum class Rows : uint8_t { kPlain, kHalves, kOwnHalves, kPairs } rows = Rows::kPlain;

  bool HasColumns() const { return division == Division::kExpertColumns || division == Division::kSharedColumns; }
  bool IsPerExpert() const { return division == Division::kExperts || division == Division::kExpertColumns; }
  uint64_t Bytes() const { return outputs * inputs * cell_bytes; }  // of one expert where it is divided by experts

  // The cells along the cut axis that hold columns [begin, end), ascending.
  std::vector<Run> CellsOf(uint64_t begin, uint64_t end) const;
  // Bytes of these cells.
  uint64_t BytesOf(uint64_t begin, uint64_t end) const;
  // Where they lie in the file, in its order; with no columns, all of it.
  std::vector<Run> FileRunsOf(uint64_t begin, uint64_t end) const;
};

// All arrays that layers of `layers` read.
std::vector<StoredArray> StoredArraysOf(const DeclaredLayers& layers, uint32_t hidden, uint32_t vocabulary);

}  // namespace meshseal::properties

#endif  // MESHSEAL_TESTS_PROPERTIES_STORED_ARRAY_H_
