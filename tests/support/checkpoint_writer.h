// Small checkpoints for tests: tensors as float32 values, written as safetensors in their dtype.
#ifndef MESHSEAL_TESTS_SUPPORT_CHECKPOINT_WRITER_H_
#define MESHSEAL_TESTS_SUPPORT_CHECKPOINT_WRITER_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schema/dtype.h"
#include "schema/plan.h"

namespace meshseal::support {

// `values` are numbers that `dtype` (f32, f16, bf16, or i32 and i64 from 0 on) holds exactly, or NaN.
struct NamedTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;
  std::vector<float> values;
};

using Checkpoint = std::vector<NamedTensor>;

// A folder of its own under the system's temporary one, removed with its content at the end.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Every tensor that the plan's roles read, with random values of `dtype` (of no blocks, without scales) in (-0.5, 0.5),
// and different experts for each row of a token table; equal seeds give equal values.
Checkpoint RandomCheckpoint(const Plan& plan, uint32_t seed);

// The tensor of that name, which must be there.
NamedTensor& Tensor(Checkpoint& checkpoint, absl::string_view name);

// A tensor of any type, as its bytes.
struct RawTensor {
  std::string name;
  DType dtype = DType::kInvalid;
  std::vector<uint64_t> shape;
  std::string bytes;
};
using RawTensors = std::vector<RawTensor>;

// The bytes of a safetensors file.
std::string EncodeSafetensors(const RawTensors& tensors);
std::string EncodeSafetensors(const Checkpoint& checkpoint);

void WriteFile(const std::filesystem::path& path, absl::string_view bytes);

// Makes `folder` with model.safetensors in it, and returns it.
std::filesystem::path WriteCheckpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint);

// `count` random values in (-1, 1).
std::vector<float> RandomValues(size_t count, uint32_t seed);

}  // namespace meshseal::support

#endif  // MESHSEAL_TESTS_SUPPORT_CHECKPOINT_WRITER_H_
