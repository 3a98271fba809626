// What computes for ranks, by the names that programs and the C interface use. A library of its own: what it links
// decides which there are.
#ifndef MESHSEAL_RUNTIME_SESSION_NAMED_COMPUTE_H_
#define MESHSEAL_RUNTIME_SESSION_NAMED_COMPUTE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/session/compute.h"

namespace meshseal::runtime {

inline constexpr absl::string_view kCudaCompute = "cuda";
inline constexpr absl::string_view kCudaLoopbackCompute = "cuda-loopback";  // ranks share a device

// Of this build: "reference" and, where it has the CUDA backend, both of the above.
std::vector<std::string> ComputeNames();

// `without_management_library`: devices are used although the driver's management library does not tell their modes.
// Reasons: kNotBuilt for a name that this build does not have; kDevice where it has no device.
absl::StatusOr<std::shared_ptr<Compute>> MakeCompute(absl::string_view name, bool without_management_library);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_SESSION_NAMED_COMPUTE_H_
