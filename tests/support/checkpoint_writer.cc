#include "tests/support/checkpoint_writer.h"

#include <unistd.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/meaning/shape_facts.h"
#include "schema/tensor_name.h"

namespace meshseal::support {
namespace {

// binary16 of a number it holds exactly (normal or zero), or a NaN.
uint16_t F16Bits(float value) {
  const auto sign = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16 & 0x8000u);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00u);
  if (value == 0) return sign;
  int exponent = 0;
  const float fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
  const auto mantissa = static_cast<uint32_t>(std::ldexp(fraction, 11)) & 0x3ffu;
  return static_cast<uint16_t>(sign | static_cast<uint32_t>(exponent + 14) << 10 | mantissa);
}

void AppendLittleEndian(uint64_t value, size_t bytes, std::string* out) {
  for (size_t i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

// A multiple of 2^-7 for the 16-bit formats, which both hold exactly.
float InDType(DType dtype, float value) { return dtype == DType::kF32 ? value : std::nearbyint(value * 128) / 128; }

}  // namespace

TempFolder::TempFolder() {
  static std::atomic<int> next{0};
  path_ = std::filesystem::temp_directory_path() / absl::StrCat("meshseal-test-", getpid(), "-", next++);
  std::filesystem::create_directories(path_);
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<float> RandomValues(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(static_cast<int64_t>(generator() >> 8) - (1 << 23)) / static_cast<float>(1 << 23);
  }
  return values;
}

Checkpoint RandomCheckpoint(const Plan& plan, uint32_t seed) {
  Checkpoint checkpoint;
  for (const LayerClass& c : plan.layer_classes) {
    for (const LayerRange& range : c.layers) {
      for (uint32_t layer = range.first; layer < range.last; ++layer) {
        for (const TensorClass& tensor : c.tensors) {
          const bool stacked = tensor.shape.front() == ShapeAxis::kExperts;
          const uint32_t count = meaning::FactsOf(tensor.role)->per_expert && !stacked ? c.experts : 1;
          for (uint32_t expert = 0; expert < count; ++expert) {
            NamedTensor named;
            named.name = TensorName(tensor.name, layer, expert);
            named.dtype = tensor.dtype;
            uint64_t elements = 1;
            for (const ShapeAxis axis : tensor.shape) {
              named.shape.push_back(meaning::ExtentOf(axis, plan, c, c.intermediate, c.shared_expert.width));
              elements *= named.shape.back();
            }
            if (tensor.role == TensorRole::kTokenTable) {
              for (uint64_t i = 0; i < elements; ++i) {
                const uint64_t id = (3 * (i / c.top_k) + i % c.top_k) % c.experts;  // different ones for a token
                named.values.push_back(static_cast<float>(id));
              }
              checkpoint.push_back(std::move(named));
              continue;
            }
            for (const float value : RandomValues(elements, seed + static_cast<uint32_t>(checkpoint.size()))) {
              named.values.push_back(InDType(tensor.dtype, value / 2));
            }
            checkpoint.push_back(std::move(named));
          }
        }
      }
    }
  }
  return checkpoint;
}

NamedTensor& Tensor(Checkpoint& checkpoint, absl::string_view name) {
  for (NamedTensor& tensor : checkpoint) {
    if (tensor.name == name) return tensor;
  }
  std::fprintf(stderr, "checkpoint_writer: no tensor %s\n", std::string(name).c_str());
  std::abort();
}

std::string EncodeSafetensors(const RawTensors& tensors) {
  std::string data;
  std::vector<std::string> entries;
  for (const RawTensor& tensor : tensors) {
    const size_t begin = data.size();
    data += tensor.bytes;
    entries.push_back(absl::StrCat("\"", tensor.name, "\":{\"dtype\":\"", SafetensorsSpelling(tensor.dtype),
                                   "\",\"shape\":[", absl::StrJoin(tensor.shape, ","), "],\"data_offsets\":[", begin,
                                   ",", data.size(), "]}"));
  }
  const std::string header = absl::StrCat("{", absl::StrJoin(entries, ","), "}");
  std::string file;
  AppendLittleEndian(header.size(), 8, &file);
  return file + header + data;
}

std::string EncodeSafetensors(const Checkpoint& checkpoint) {
  RawTensors tensors;
  for (const NamedTensor& tensor : checkpoint) {
    std::string bytes;
    for (const float value : tensor.values) {
      const auto bits = std::bit_cast<uint32_t>(value);
      if (tensor.dtype == DType::kI32) AppendLittleEndian(static_cast<uint64_t>(value), 4, &bytes);
      if (tensor.dtype == DType::kI64) AppendLittleEndian(static_cast<uint64_t>(value), 8, &bytes);
      if (tensor.dtype == DType::kF32) AppendLittleEndian(bits, 4, &bytes);
      if (tensor.dtype == DType::kBf16) AppendLittleEndian(bits >> 16, 2, &bytes);
      if (tensor.dtype == DType::kF16) AppendLittleEndian(F16Bits(value), 2, &bytes);
    }
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, std::move(bytes)});
  }
  return EncodeSafetensors(tensors);
}

void WriteFile(const std::filesystem::path& path, absl::string_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) {
    std::fprintf(stderr, "checkpoint_writer: cannot write %s\n", path.c_str());
    std::abort();
  }
}

std::filesystem::path WriteCheckpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint) {
  std::filesystem::create_directories(folder);
  WriteFile(folder / "model.safetensors", EncodeSafetensors(checkpoint));
  return folder;
}

}  // namespace meshseal::support
