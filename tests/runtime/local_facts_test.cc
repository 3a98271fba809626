#include "runtime/session/local_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "runtime/session/compared_environment.h"
#include "schema/version.h"

namespace meshseal::runtime {
namespace {

using testing::HasSubstr;

TEST(ComparedEnvironmentTest, TheLongestNameOfTheTableDecides) {
  for (const char* name : {"OMP_NUM_THREADS", "OMPI_MCA_btl", "OMPI_MCA_btl_tcp_eager_limit", "OMPI_MCA_pml", "UCX_TLS",
                           "NCCL_ALGO", "NCCL_IB_DISABLE", "CUDA_DEVICE_ORDER"}) {
    EXPECT_TRUE(IsCompared(name)) << name;
  }
  // Of one rank or host, of logs, and what nothing reads.
  for (const char* name : {"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_ess_base_vpid", "OMPI_MCA_orte_ess_node_rank",
                           "OMPI_COMM_WORLD_RANK", "CUDA_VISIBLE_DEVICES", "UCX_LOG_LEVEL", "UCX_NET_DEVICES",
                           "NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL",
                           "GLIBC_TUNABLES", "HOME", "OMP_NUM_THREADS_", "XOMP_NUM_THREADS", ""}) {
    EXPECT_FALSE(IsCompared(name)) << name;
  }
}

TEST(ComparedEnvironmentTest, IsSortedLines) {
  EXPECT_EQ(ComparedEnvironment({"UCX_TLS=a=b", "HOME=/root", "NCCL_ALGO=Ring\nTree", "NCCL_PROTO=", "broken"}),
            "NCCL_ALGO Ring\\nTree\nNCCL_PROTO \nUCX_TLS a=b\n");
  EXPECT_EQ(ComparedEnvironment({}), "");
}

TEST(LocalFactsTest, AreThoseOfThisMachineAndEachNonceIsFresh) {
  const absl::StatusOr<LocalFacts> first = CollectLocalFacts();
  const absl::StatusOr<LocalFacts> second = CollectLocalFacts();
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(first->host.empty());
  EXPECT_NE(first->machine, Sha256(""));
  EXPECT_GT(first->free_memory, uint64_t{1} << 20);
  EXPECT_THAT(first->build, HasSubstr("version " + std::string(Version()) + "\ncompiler "));
  EXPECT_EQ(first->host, second->host);
  EXPECT_EQ(first->machine, second->machine);
  EXPECT_EQ(first->build, second->build);
  EXPECT_EQ(first->environment, second->environment);
  EXPECT_NE(first->nonce, second->nonce);
  EXPECT_NE(first->nonce, Nonce{});
}

}  // namespace
}  // namespace meshseal::runtime
