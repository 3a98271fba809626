// Weights of a layer in every way in which they may be stored, with random bytes, and a copy that stands for the
// device's.
#ifndef MESHSEAL_TESTS_CUDA_STORED_LAYER_H_
#define MESHSEAL_TESTS_CUDA_STORED_LAYER_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "runtime/cuda/kernels/device_matrix.h"
#include "runtime/weights/rank_weights.h"
#include "runtime/weights/weight_matrix.h"
#include "schema/dtype.h"
#include "schema/terms.h"

namespace meshseal::cuda {

enum class Lies : uint8_t {
  kInRows,
  kAtOddPlaces,  // the same, at an address that is no multiple of anything
  kTransposed,
  kInterleaved,  // rows, or a vector's elements, alternate with another matrix's
};

struct Storage {
  std::string name;
  DType dtype = DType::kInvalid;
  Lies lies = Lies::kInRows;
  bool packed = false;
  // Scales of their own; 0 x 0: one for all.
  DType scale = DType::kInvalid;
  ScaleApplies applies = ScaleApplies::kMultiply;
  uint32_t block_rows = 0;
  uint32_t block_columns = 0;
  ScaleApplies applies_2 = ScaleApplies::kInvalid;  // of a second one for all, f32; invalid: none
  bool repacked = false;                            // on the device; the host has it as stored
};

// Every format of formats.def, and every layout and scale that a checkpoint may have; and what of them can be
// repacked, so, too.
std::vector<Storage> AllStorages();

// The named one of them.
Storage StorageNamed(const std::string& name);

// A block of host memory with matrices in it, and its copy on the "device".
class StoredWeights {
 public:
  explicit StoredWeights(uint32_t seed) : random_(seed) { host_.reserve(kCapacity); }

  // Elements of about 2^-5, scales that are numbers.
  runtime::WeightMatrix Add(const Storage& storage, uint32_t rows, uint32_t columns);
  // A vector of bf16, which starts anywhere.
  runtime::WeightMatrix AddVector(uint32_t columns, Lies lies = Lies::kInRows);

  // A matrix of bf16 that are integers of -3 to 3.
  runtime::WeightMatrix AddIntegers(uint32_t rows, uint32_t columns);

  // Copies what there is; of what was repacked only that form.
  void Upload();
  const std::vector<std::byte>& uploaded() const { return device_; }

  // What reads the copy, or another one of it.
  template <class T>
  auto Device(const T& weights) const {
    return On(weights, device_.data());
  }
  template <class T>
  auto On(const T& weights, const std::byte* device) const {
    return OnDevice(AsPlaced(weights), host_.data(), device);
  }

 private:
  static constexpr size_t kCapacity = size_t{1} << 24;  // pointers into it stay

  // A matrix that was repacked.
  struct Repacked {
    const std::byte* data = nullptr;  // as stored
    uint64_t bytes = 0;
    runtime::RepackedPlanes planes;
  };

  std::byte* Room(size_t bytes, size_t alignment);
  std::byte* Take(size_t bytes, size_t alignment);  // with random bytes
  void Repack(const runtime::WeightMatrix& matrix);
  runtime::WeightMatrix AsPlaced(runtime::WeightMatrix matrix) const;
  runtime::ExpertWeights AsPlaced(runtime::ExpertWeights expert) const;
  runtime::SharedWeights AsPlaced(runtime::SharedWeights shared) const;

  std::mt19937 random_;
  std::vector<std::byte> host_;
  std::vector<std::byte> device_;
  std::vector<Repacked> repacked_;
};

}  // namespace meshseal::cuda

#endif  // MESHSEAL_TESTS_CUDA_STORED_LAYER_H_
