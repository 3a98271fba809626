// What processes of this host can be reached on, as the kernel tells under /proc.
#ifndef MESHSEAL_TOOLS_RUN_LISTENERS_H_
#define MESHSEAL_TOOLS_RUN_LISTENERS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace meshseal::tools {

// A TCP socket that listens, or a UDP socket that has a port.
struct OpenSocket {
  std::string protocol;  // tcp, tcp6, udp, udp6
  std::string address;   // as people write it
  uint16_t port = 0;
  uint64_t inode = 0;
  bool loopback = false;  // its address is this host's loopback
};

// Those of a table as /proc/PID/net/PROTOCOL holds it; lines that are none are left out.
std::vector<OpenSocket> ParseSockets(absl::string_view protocol, absl::string_view table);

struct Listener {
  pid_t pid = 0;
  std::string program;
  OpenSocket socket;
  bool reachable = false;  // from other hosts: not loopback, nor in a network namespace that has nothing else
};

// By process, protocol and port. Processes that have ended meanwhile, or are another user's, have none.
std::vector<Listener> ListenersOf(absl::Span<const pid_t> processes);

// `root` and all below it, ascending.
std::vector<pid_t> ProcessesBelow(pid_t root);

}  // namespace meshseal::tools

#endif  // MESHSEAL_TOOLS_RUN_LISTENERS_H_
