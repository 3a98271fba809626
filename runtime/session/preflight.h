// What all ranks must agree on before anything is reserved.
//
// Every rank sends its record (rank_record.h) and compares those of all, by the rules of preflight_fields.def:
//  - identical: the same everywhere; where it is the digest of a text, the texts are exchanged to name what differs;
//  - running: identical, and the number of ranks that are there;
//  - place, from plan: what the rank's place in the communicator and the plan make of it;
//  - hosts: ranks of one node are on one machine and those of different nodes are not, unless emulated;
//  - own device: different for all ranks, unless emulated;
//  - charged: at least what the plan charges, of a device, or of a host for all ranks on it together;
//  - limited: the same of what a control group's limit leaves, for all ranks in it together;
//  - unique: different for all ranks;
//  - proven: between hosts, every rank proves that it knows the job key, or says that the network is isolated;
//  - shown: for messages alone.
#ifndef MESHSEAL_RUNTIME_SESSION_PREFLIGHT_H_
#define MESHSEAL_RUNTIME_SESSION_PREFLIGHT_H_

#include "absl/status/status.h"
#include "runtime/comm/communicator.h"
#include "runtime/session/rank_record.h"
#include "schema/sealed_plan.h"

namespace meshseal::runtime {

// Collective over the world. The verdict is the same on each rank; only of a wrong proof each names the ranks that it
// cannot believe. Reasons: kWorldSize for another number of ranks than the plan's, kRankRecord for what ranks differ in
// or what contradicts the plan, which the text names with all values and the ranks that hold each, kOutOfMemory for a
// device or host with less memory than the plan charges, kJobKey; those of the communicator.
absl::Status Preflight(Communicator& world, const SealedPlan& plan, const RankStatement& own);

// Whether ranks of `plan` are meant to be on different hosts. Such a run needs a job key or an isolated network.
bool SpansHosts(const Plan& plan, bool emulate);

// What of that a process knows before it says anything to its peers. Reason kJobKey.
absl::Status CheckNetworkTrust(const Plan& plan, bool emulate, bool has_job_key, bool isolated_network);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_SESSION_PREFLIGHT_H_
