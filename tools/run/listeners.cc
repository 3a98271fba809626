#include "tools/run/listeners.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tools/run/proc_text.h"

namespace meshseal::tools {
namespace {

constexpr absl::string_view kListens = "0A";  // a state of a TCP socket

struct Address {
  std::string text;
  bool loopback = false;
};

// Hexadecimal digits, each 32 bits as this machine holds them.
std::optional<Address> ParseAddress(absl::string_view digits) {
  std::array<uint32_t, 4> words{};
  const size_t count = digits.size() / 8;
  if (digits.size() % 8 != 0 || (count != 1 && count != 4)) return std::nullopt;
  for (size_t i = 0; i < count; ++i) {
    if (!absl::SimpleHexAtoi(digits.substr(i * 8, 8), &words[i])) return std::nullopt;
  }
  Address address;
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(count == 1 ? AF_INET : AF_INET6, words.data(), text.data(), text.size());
  address.text = text.data();
  in6_addr long_form{};
  std::memcpy(&long_form, words.data(), sizeof(long_form));
  const bool mapped = count == 4 && IN6_IS_ADDR_V4MAPPED(&long_form);
  if (count == 1 || mapped) {
    address.loopback = ntohl(words[mapped ? 3 : 0]) >> 24 == 127;
  } else {
    address.loopback = IN6_IS_ADDR_LOOPBACK(&long_form);
  }
  return address;
}

template <class T>
std::optional<T> NumberIn(absl::string_view text) {
  T number{};
  if (!absl::SimpleAtoi(text, &number)) return std::nullopt;
  return number;
}

std::string ProcOf(pid_t pid, absl::string_view file) { return absl::StrCat("/proc/", pid, "/", file); }

std::set<uint64_t> SocketsOf(pid_t pid) {
  std::set<uint64_t> inodes;
  for (const std::string& name : ProcNames(ProcOf(pid, "fd"))) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(ProcOf(pid, absl::StrCat("fd/", name)), error).string();
    absl::string_view text = target;
    if (error || !absl::ConsumePrefix(&text, "socket:[") || !absl::ConsumeSuffix(&text, "]")) continue;
    if (const std::optional<uint64_t> inode = NumberIn<uint64_t>(text)) inodes.insert(*inode);
  }
  return inodes;
}

// Whether the process's network has no interface but loopback.
bool HasLoopbackAlone(pid_t pid) {
  bool any = false;
  for (absl::string_view line : absl::StrSplit(ProcText(ProcOf(pid, "net/dev")), '\n')) {
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos) continue;
    if (absl::StripAsciiWhitespace(line.substr(0, colon)) != "lo") return false;
    any = true;
  }
  return any;
}

}  // namespace

std::vector<OpenSocket> ParseSockets(absl::string_view protocol, absl::string_view table) {
  std::vector<OpenSocket> sockets;
  for (const absl::string_view line : absl::StrSplit(table, '\n')) {
    // number: address:port of this end, of the other, state, queues, timer, retransmits, user, timeout, inode
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() < 10 || !absl::EndsWith(words[0], ":")) continue;
    const std::vector<absl::string_view> local = absl::StrSplit(words[1], ':');
    uint32_t port = 0;
    if (local.size() != 2 || !absl::SimpleHexAtoi(local[1], &port) || port > UINT16_MAX) continue;
    const std::optional<Address> address = ParseAddress(local[0]);
    const std::optional<uint64_t> inode = NumberIn<uint64_t>(words[9]);
    if (!address.has_value() || !inode.has_value()) continue;
    if (absl::StartsWith(protocol, "tcp") && words[3] != kListens) continue;
    sockets.push_back({std::string(protocol), address->text, static_cast<uint16_t>(port), *inode, address->loopback});
  }
  return sockets;
}

std::vector<Listener> ListenersOf(absl::Span<const pid_t> processes) {
  std::vector<Listener> listeners;
  for (const pid_t pid : processes) {
    const std::set<uint64_t> own = SocketsOf(pid);
    if (own.empty()) continue;
    const bool alone = HasLoopbackAlone(pid);
    const std::string program(absl::StripAsciiWhitespace(ProcText(ProcOf(pid, "comm"))));
    for (const char* protocol : {"tcp", "tcp6", "udp", "udp6"}) {
      for (OpenSocket& socket : ParseSockets(protocol, ProcText(ProcOf(pid, absl::StrCat("net/", protocol))))) {
        if (own.count(socket.inode) == 0) continue;
        const bool reachable = !alone && !socket.loopback;
        listeners.push_back({pid, program, std::move(socket), reachable});
      }
    }
  }
  std::stable_sort(listeners.begin(), listeners.end(), [](const Listener& a, const Listener& b) {
    return std::tie(a.pid, a.socket.protocol, a.socket.port) < std::tie(b.pid, b.socket.protocol, b.socket.port);
  });
  return listeners;
}

std::vector<pid_t> ProcessesBelow(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (const std::string& name : ProcNames("/proc")) {
    const std::optional<pid_t> pid = NumberIn<pid_t>(name);
    if (!pid.has_value()) continue;
    // The program's name, in parentheses, may have any characters in it; state and parent follow.
    const std::string stat = ProcText(ProcOf(*pid, "stat"));
    const size_t end = stat.rfind(')');
    if (end == std::string::npos) continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(absl::string_view(stat).substr(end + 1), ' ', absl::SkipEmpty());
    if (words.size() < 2) continue;
    if (const std::optional<pid_t> parent = NumberIn<pid_t>(words[1])) children.emplace(*parent, *pid);
  }
  std::vector<pid_t> below = {root};
  for (size_t i = 0; i < below.size(); ++i) {
    const auto [first, last] = children.equal_range(below[i]);
    for (auto child = first; child != last; ++child) below.push_back(child->second);
  }
  std::sort(below.begin(), below.end());
  return below;
}

}  // namespace meshseal::tools
