// The gates of a sealed file as an enumeration; the table is gates.def.
#ifndef MESHSEAL_SCHEMA_GATE_H_
#define MESHSEAL_SCHEMA_GATE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace meshseal {

enum class Gate : uint8_t {
#define MESHSEAL_GATE(enumerator, name, promise) enumerator,
#include "schema/gates.def"
#undef MESHSEAL_GATE
};

struct GateRow {
  Gate gate;
  const char* name;     // as printed
  const char* promise;  // what holds once it was passed
};

inline constexpr std::array kGates = {
#define MESHSEAL_GATE(enumerator, name, promise) GateRow{Gate::enumerator, name, promise},
#include "schema/gates.def"
#undef MESHSEAL_GATE
};

inline constexpr absl::string_view GateName(Gate gate) { return kGates[static_cast<size_t>(gate)].name; }

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_GATE_H_
