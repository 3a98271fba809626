// What a rank finds out about the process and the machine it runs on, for the preflight.
#ifndef MESHSEAL_RUNTIME_SESSION_LOCAL_FACTS_H_
#define MESHSEAL_RUNTIME_SESSION_LOCAL_FACTS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/session/host_memory.h"
#include "schema/sha256.h"

namespace meshseal::runtime {

using Nonce = std::array<uint8_t, 16>;

// Texts of several lines are "NAME VALUE" lines, so that a message can name the one that differs.
struct LocalFacts {
  std::string host;          // its name, for messages
  Sha256Digest machine{};    // of its boot id: the same for all processes of a machine, also in containers
  uint64_t free_memory = 0;  // bytes that the host can give without swapping
  std::optional<MemoryLimit> memory_limit;
  std::string build;        // lines: version, compiler and what of its options changes results
  std::string environment;  // lines: ComparedEnvironment of this process
  Nonce nonce{};            // fresh
};

// Reason kUsage where the machine does not tell.
absl::StatusOr<LocalFacts> CollectLocalFacts();

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_SESSION_LOCAL_FACTS_H_
