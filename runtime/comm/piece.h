// Which elements of a collective's call are a member's. Device code reads it.
#ifndef MESHSEAL_RUNTIME_COMM_PIECE_H_
#define MESHSEAL_RUNTIME_COMM_PIECE_H_

#include <cstdint>

namespace meshseal::runtime {

// Elements, or bytes, [first, first + count) of what a call is over.
struct Piece {
  uint64_t first = 0;
  uint64_t count = 0;
  friend bool operator==(const Piece&, const Piece&) = default;
};

// Piece `index` of `parts` pieces of `count`, as equal as possible, larger first.
constexpr Piece EvenPiece(uint64_t count, uint32_t parts, uint32_t index) {
  const uint64_t larger = count % parts;
  return {index * (count / parts) + (index < larger ? index : larger), count / parts + (index < larger ? 1 : 0)};
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_COMM_PIECE_H_
