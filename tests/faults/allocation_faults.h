// Memory that cannot be had: a program that links this has its malloc and mmap replaced, for itself and for every
// library in it; operator new comes here too. One thread only. Not for sanitizers, which replace malloc themselves.
#ifndef MESHSEAL_TESTS_FAULTS_ALLOCATION_FAULTS_H_
#define MESHSEAL_TESTS_FAULTS_ALLOCATION_FAULTS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "tests/faults/fault_point.h"

namespace meshseal::faults {

// From here on allocations are counted, and those that `point` hits fail.
void ArmAllocations(const FaultPoint& point);

struct AllocationCounts {
  uint64_t calls = 0;
  uint64_t failed = 0;
};
AllocationCounts DisarmAllocations();

// Of the allocations since the last ArmAllocations, those that were not given back yet.
uint64_t LiveAllocations();

// Counts blocks that are given back with `secret` still in them. The view must stay valid; empty: none are looked at.
void WatchForSecret(absl::string_view secret);
uint64_t SecretsGivenBack();

}  // namespace meshseal::faults

#endif  // MESHSEAL_TESTS_FAULTS_ALLOCATION_FAULTS_H_
