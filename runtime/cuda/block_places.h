// Arrays one after the other in a block of memory.
#ifndef MESHSEAL_RUNTIME_CUDA_BLOCK_PLACES_H_
#define MESHSEAL_RUNTIME_CUDA_BLOCK_PLACES_H_

#include <cstddef>
#include <cstdint>

namespace meshseal::cuda {

// Of a block that is not there (null), only how many bytes its arrays take.
class BlockPlaces {
 public:
  explicit BlockPlaces(std::byte* block) : block_(block) {}

  // The next array, of `count` elements.
  template <class T>
  void Place(uint64_t count, T** array) {
    if (block_ != nullptr) *array = reinterpret_cast<T*>(block_ + bytes_);
    bytes_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  }

  uint64_t bytes() const { return bytes_; }

 private:
  static constexpr uint64_t kAlignment = 256;

  std::byte* const block_;
  uint64_t bytes_ = 0;
};

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_BLOCK_PLACES_H_
