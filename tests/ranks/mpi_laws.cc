// The laws of a communicator over MPI: a program for mpirun, which prints what was broken and ends with 1.
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/comm/message_communicator.h"
#include "runtime/comm/mpi_world.h"
#include "schema/reason.h"
#include "tests/ranks/laws.h"

namespace meshseal {
namespace {

std::vector<std::string> Broken(runtime::MpiWorld& world) {
  std::vector<std::string> broken;
  std::vector<uint32_t> members(world.size());
  std::iota(members.begin(), members.end(), 0u);
  const auto ends = world.Connect(world.size(), world.size());
  if (!ends.ok()) return {std::string(ends.status().message())};
  const auto group = runtime::MakeMessageCommunicator(*ends->front(), runtime::Channel::kExpertGroup, members,
                                                      {std::chrono::seconds(60)});
  if (!group.ok() || !(*group)->Reserve(support::kLawBytes).ok()) return {"no communicator"};
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (std::string& law : support::BrokenLaws(**group, seed)) broken.push_back(std::move(law));
  }
  return broken;
}

int Main() {
  const auto world = runtime::MpiWorld::Start({});
  if (!world.ok()) {
    std::fprintf(stderr, "%s\n", std::string(world.status().message()).c_str());
    return 1;
  }
  const std::vector<std::string> broken = Broken(**world);
  for (const std::string& law : broken) std::fprintf(stderr, "%s\n", law.c_str());
  (*world)->Finish(broken.empty() ? absl::OkStatus() : Refuse(Reason::kBug, broken.front()),
                   runtime::MpiWorld::Others::kEnd);
  return broken.empty() ? 0 : 1;
}

}  // namespace
}  // namespace meshseal

int main() { return meshseal::Main(); }
