// How fast the ranks of a mesh are: of a plan's sealed rates, of measured terms in their place, or not known.
#ifndef MESHSEAL_SCHEMA_SIMULATE_MESH_RATES_H_
#define MESHSEAL_SCHEMA_SIMULATE_MESH_RATES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schema/plan.h"

namespace meshseal {

struct ComputeRates {
  double bytes = 0;       // of weights, per second
  double operations = 0;  // floating-point, per second
};

struct LinkRates {
  double latency = 0;  // seconds
  double bytes = 0;    // that a rank receives per second
};

// What was measured; it takes the place of what the mesh says, on every rank and every link.
struct MeasuredRates {
  std::optional<double> bytes;
  std::optional<double> operations;
  std::optional<LinkRates> link;
};

struct MeshRates {
  std::vector<ComputeRates> ranks;  // by rank
  std::vector<uint32_t> islands;    // of each rank
  std::vector<LinkRates> inside;    // by island
  LinkRates between;
};

// The rates of every rank; ranks that share a slot share what the mesh says of its device.
struct RatesFound {
  std::optional<MeshRates> rates;
  std::string missing;  // where there are none: which are not known
};
RatesFound RatesOf(const Plan& plan, const MeasuredRates& measured);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_SIMULATE_MESH_RATES_H_
