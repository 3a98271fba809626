#include "runtime/cuda/device_tables.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/stream.h"
#include "schema/status_macros.h"

namespace meshseal::cuda {
namespace {

constexpr uint64_t kAlignment = 16;

// The tables one after the other, as they will lie in device memory.
class Image {
 public:
  template <class T>
  void Add(const void* host, absl::Span<const T> table, std::map<const void*, uint64_t>* offsets) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (table.empty() || !offsets->emplace(host, bytes_.size()).second) return;
    const auto* const first = reinterpret_cast<const std::byte*>(table.data());
    bytes_.insert(bytes_.end(), first, first + table.size() * sizeof(T));
    bytes_.resize((bytes_.size() + kAlignment - 1) / kAlignment * kAlignment);
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

absl::StatusOr<DeviceTables> DeviceTables::Make(absl::Span<const runtime::RankProgram* const> programs,
                                                absl::Span<const runtime::LayerWeights* const> layers) {
  DeviceTables tables;
  Image image;
  for (const runtime::RankProgram* const program : programs) {
    for (const absl::Span<const uint32_t> ends : {program->segment_ends(), program->shared_segment_ends()}) {
      image.Add(ends.data(), ends, &tables.offsets_);
    }
    image.Add(program->expert_places().data(), program->expert_places(), &tables.offsets_);
  }
  for (const runtime::LayerWeights* const layer : layers) {
    std::vector<DeviceExpert> experts;
    for (const runtime::ExpertWeights& expert : layer->experts) {
      experts.push_back(OnDevice(expert, nullptr, nullptr));  // they lie where their views say
    }
    image.Add(layer->experts.data(), absl::MakeConstSpan(experts), &tables.offsets_);
  }
  MESHSEAL_ASSIGN_OR_RETURN(tables.memory_, DeviceMemory::Reserve(image.bytes().size(), "the tables of a rank"));
  MESHSEAL_ASSIGN_OR_RETURN(const Stream stream, Stream::Make());
  MESHSEAL_RETURN_IF_ERROR(EnqueueCopy(tables.memory_.bytes().data(), image.bytes().data(), image.bytes().size(),
                                       cudaMemcpyHostToDevice, stream.get(), "a copy of the tables of a rank"));
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream.get()), "a copy of the tables of a rank");
  return tables;
}

const void* DeviceTables::Find(const void* host) const {
  const auto found = offsets_.find(host);
  return found == offsets_.end() ? nullptr : memory_.bytes().data() + found->second;
}

const DeviceExpert* DeviceTables::Of(absl::Span<const runtime::ExpertWeights> experts) const {
  return static_cast<const DeviceExpert*>(Find(experts.data()));
}
const runtime::ExpertPlace* DeviceTables::Of(absl::Span<const runtime::ExpertPlace> places) const {
  return static_cast<const runtime::ExpertPlace*>(Find(places.data()));
}
const uint32_t* DeviceTables::Of(absl::Span<const uint32_t> segment_ends) const {
  return static_cast<const uint32_t*>(Find(segment_ends.data()));
}

}  // namespace meshseal::cuda
