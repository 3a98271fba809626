// How the ranks of an expert group move what lies in device memory.
//
// Every member makes the same calls in the same order with the same sizes; that they mean the same was agreed on before
// (preflight, and the bound programs are one plan's). A call enqueues work on the member's stream and returns; what it
// moves is there when the stream has come to it. Sums are made of these calls (device_sum.h), as the host's are made of
// messages.
#ifndef MESHSEAL_RUNTIME_CUDA_DEVICE_COLLECTIVE_H_
#define MESHSEAL_RUNTIME_CUDA_DEVICE_COLLECTIVE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace meshseal::cuda {

// One member's end. Used by one thread at a time; no graph that holds calls of it outlives it.
class DeviceCollective {
 public:
  virtual ~DeviceCollective() = default;

  virtual uint32_t rank() const = 0;  // place among the members
  virtual uint32_t size() const = 0;

  // Whether calls may be captured into a graph and replayed; of more members than one, when the same calls were made
  // once before, because a transport makes its connections in the first ones.
  virtual bool capturable() const = 0;

  // `all` holds `size()` parts of `bytes` bytes, of which this member's is filled; afterwards all are.
  virtual absl::Status AllGather(std::byte* all, uint64_t bytes, cudaStream_t stream) = 0;

  // out[m] goes to member m and comes from it into in[m], which has as many bytes there; they may not overlap. This
  // member's own is copied.
  virtual absl::Status Exchange(absl::Span<const absl::Span<const std::byte>> out,
                                absl::Span<const absl::Span<std::byte>> in, cudaStream_t stream) = 0;

  // values = the members' values, added in an order of the transport's; the same bits on all members.
  virtual absl::Status AllReduceSum(float* values, uint64_t count, cudaStream_t stream) = 0;
  virtual absl::Status AllReduceSum(int64_t* values, uint64_t count, cudaStream_t stream) = 0;

  // `values` holds size() parts of `count` values; afterwards this member's part is the sum of what the members have
  // there, likewise. The other parts mean nothing then.
  virtual absl::Status ReduceScatterSum(float* values, uint64_t count, cudaStream_t stream) = 0;
  virtual absl::Status ReduceScatterSum(int64_t* values, uint64_t count, cudaStream_t stream) = 0;

  // Calls between these two are enqueued as one.
  virtual absl::Status BeginGroup() = 0;
  virtual absl::Status EndGroup() = 0;

  // How calls under way are doing, asked while one waits for the stream: OK as long as nothing has failed. Reasons
  // kDevice, kPeerFailed.
  virtual absl::Status Check() = 0;

  // Ends all calls under way and every later one: those of a stream end without a result. No graph holds any more.
  virtual void Abort() = 0;
};

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_DEVICE_COLLECTIVE_H_
