#include "tools/run/listeners.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace meshseal::tools {
namespace {

// As kernels of little-endian machines write it.
constexpr const char* kTcp =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 0100007F:7A69 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 101 1 0 100 0 0 10 0\n"
    "   1: 00000000:0400 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 102 1 0 100 0 0 10 0\n"
    "   2: 0100007F:7A69 0100007F:8D2C 01 00000000:00000000 00:00000000 00000000     0        0 103 1 0 20 4 30 10 -1\n"
    "   3: broken\n";
constexpr const char* kTcp6 =
    "   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 104 1\n"
    "   1: 0000000000000000FFFF00000100007F:1F91 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 105 1\n"
    "   2: 00000000000000000000000000000000:1F92 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 106 1\n";

std::vector<std::string> TextsOf(const std::vector<OpenSocket>& sockets) {
  std::vector<std::string> texts;
  for (const OpenSocket& socket : sockets) {
    texts.push_back(socket.protocol + " " + socket.address + " " + std::to_string(socket.port) + " " +
                    std::to_string(socket.inode) + (socket.loopback ? " loopback" : ""));
  }
  return texts;
}

TEST(ListenersTest, TablesOfTheKernel) {
  EXPECT_THAT(TextsOf(ParseSockets("tcp", kTcp)),
              testing::ElementsAre("tcp 127.0.0.1 31337 101 loopback", "tcp 0.0.0.0 1024 102"));
  EXPECT_THAT(TextsOf(ParseSockets("udp", kTcp)),
              testing::ElementsAre("udp 127.0.0.1 31337 101 loopback", "udp 0.0.0.0 1024 102",
                                   "udp 127.0.0.1 31337 103 loopback"));
  EXPECT_THAT(TextsOf(ParseSockets("tcp6", kTcp6)),
              testing::ElementsAre("tcp6 ::1 8080 104 loopback", "tcp6 ::ffff:127.0.0.1 8081 105 loopback",
                                   "tcp6 :: 8082 106"));
}

TEST(ListenersTest, OwnSocket) {
  const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(listening, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listening, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const auto found = [&] {
    const std::vector<Listener> listeners = ListenersOf(ProcessesBelow(::getpid()));
    return std::find_if(listeners.begin(), listeners.end(), [&](const Listener& listener) {
             return listener.pid == ::getpid() && listener.socket.port == ntohs(address.sin_port) &&
                    listener.socket.protocol == "tcp" && !listener.reachable;
           }) != listeners.end();
  };
  EXPECT_FALSE(found());
  ASSERT_EQ(::listen(listening, 1), 0);
  EXPECT_TRUE(found());
  ::close(listening);
  EXPECT_FALSE(found());
}

TEST(ListenersTest, ProcessesOfATree) {
  EXPECT_THAT(ProcessesBelow(::getppid()), testing::IsSupersetOf({::getppid(), ::getpid()}));
  EXPECT_THAT(ProcessesBelow(::getpid()), testing::ElementsAre(::getpid()));
}

}  // namespace
}  // namespace meshseal::tools
