// The lines of a rank's memory plan under the names of JSON and of listings, in the order of plan.h.
#ifndef MESHSEAL_SCHEMA_MEMORY_LINES_H_
#define MESHSEAL_SCHEMA_MEMORY_LINES_H_

#include <cstdint>

#include "schema/plan.h"

namespace meshseal {

struct MemoryLine {
  const char* field;
  const char* words;
  uint64_t RankMemory::*bytes;
};

inline constexpr MemoryLine kMemoryLines[] = {
    {"weights", "weights", &RankMemory::weights},
    {"other", "not MoE", &RankMemory::other},
    {"repacked", "repacked", &RankMemory::repacked},
    {"staging", "staging", &RankMemory::staging},
    {"decode_work", "decode work", &RankMemory::decode_work},
    {"prefill_work", "prefill work", &RankMemory::prefill_work},
    {"collective", "collective", &RankMemory::collective},
    {"communicator", "communicator", &RankMemory::communicator},
    {"capture", "captured", &RankMemory::capture},
    {"sessions", "sessions", &RankMemory::sessions},
    {"total", "total", &RankMemory::total},
    {"budget", "budget", &RankMemory::budget},
};

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_MEMORY_LINES_H_
