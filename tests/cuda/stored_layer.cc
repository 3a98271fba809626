#include "tests/cuda/stored_layer.h"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/formats/format.h"
#include "runtime/formats/repacked.h"
#include "schema/float_bits.h"

namespace meshseal::cuda {
namespace {

std::vector<DType> Formats() {
  return {
#define MESHSEAL_ELEMENT_FORMAT(dtype, Name) DType::dtype,
#define MESHSEAL_BLOCK_FORMAT MESHSEAL_ELEMENT_FORMAT
#include "runtime/formats/formats.def"
#undef MESHSEAL_BLOCK_FORMAT
#undef MESHSEAL_ELEMENT_FORMAT
  };
}

}  // namespace

std::vector<Storage> AllStorages() {
  std::vector<Storage> storages;
  const auto add = [&storages](const char* how, Storage storage) {
    storage.name = absl::StrCat(DTypeName(storage.dtype), how);
    storages.push_back(std::move(storage));
  };
  for (const DType dtype : Formats()) {
    add("", {"", dtype});
    add(" at odd places", {"", dtype, Lies::kAtOddPlaces});
    add(" interleaved", {"", dtype, Lies::kInterleaved});
    if (runtime::FindFormat(dtype)->block_elements == 1) add(" transposed", {"", dtype, Lies::kTransposed});
  }
  constexpr ScaleApplies kMultiply = ScaleApplies::kMultiply;
  constexpr ScaleApplies kDivide = ScaleApplies::kDivide;
  for (const Lies lies : {Lies::kInRows, Lies::kInterleaved, Lies::kTransposed}) {
    const char* const how = lies == Lies::kInRows ? "" : lies == Lies::kInterleaved ? " interleaved" : " transposed";
    const auto f8 = [&](const char* what, DType scale, ScaleApplies applies, uint32_t rows, uint32_t columns) {
      add(absl::StrCat(what, how).c_str(), {"", DType::kF8E4M3, lies, false, scale, applies, rows, columns});
    };
    f8(" with f32 scales of 3x128", DType::kF32, kMultiply, 3, 128);
    f8(" divided by f32 scales of 16x16", DType::kF32, kDivide, 16, 16);
    f8(" with bf16 scales of 1x12", DType::kBf16, kMultiply, 1, 12);
    f8(" with one e8m0 scale", DType::kF8E8M0, kMultiply, 0, 0);
  }
  for (const Lies lies : {Lies::kInRows, Lies::kInterleaved, Lies::kAtOddPlaces}) {
    const char* const how = lies == Lies::kInRows ? "" : lies == Lies::kInterleaved ? " interleaved" : " at odd places";
    add(absl::StrCat(" packed", how).c_str(), {"", DType::kMxfp4, lies, true, DType::kU8, kMultiply, 1, 32});
    add(absl::StrCat(" packed", how).c_str(),
        {"", DType::kNvfp4, lies, true, DType::kF8E4M3, kMultiply, 1, 16, kMultiply});
  }
  add(" packed, divided", {"", DType::kNvfp4, Lies::kInRows, true, DType::kF8E4M3, kMultiply, 1, 16, kDivide});
  add(" packed, divided twice", {"", DType::kNvfp4, Lies::kInRows, true, DType::kF8E4M3, kDivide, 1, 16, kDivide});
  add(" with a second scale", {"", DType::kNvfp4, Lies::kInRows, false, DType::kInvalid, kMultiply, 0, 0, kMultiply});
  const std::vector<Storage> stored = storages;
  for (Storage storage : stored) {
    if (storage.packed || runtime::PlanesOf(storage.dtype).empty()) continue;
    storage.name += " repacked";
    storage.repacked = true;
    storages.push_back(std::move(storage));
  }
  return storages;
}

Storage StorageNamed(const std::string& name) {
  for (const Storage& storage : AllStorages()) {
    if (storage.name == name) return storage;
  }
  std::abort();
}

std::byte* StoredWeights::Room(size_t bytes, size_t alignment) {
  const size_t at = (host_.size() + alignment - 1) / alignment * alignment;
  if (at + bytes > kCapacity) std::abort();
  host_.resize(at + bytes);
  return host_.data() + at;
}

std::byte* StoredWeights::Take(size_t bytes, size_t alignment) {
  std::byte* const room = Room(bytes, alignment);
  for (size_t i = 0; i < bytes; ++i) room[i] = static_cast<std::byte>(random_());
  return room;
}

void StoredWeights::Upload() {
  device_ = host_;
  for (const Repacked& matrix : repacked_) {
    std::memset(device_.data() + (matrix.data - host_.data()), 0xFF, matrix.bytes);
  }
}

void StoredWeights::Repack(const runtime::WeightMatrix& matrix) {
  Repacked& repacked = repacked_.emplace_back();
  repacked.data = matrix.data;
  const runtime::Format& format = *runtime::FindFormat(matrix.dtype);
  repacked.bytes = (matrix.rows - 1) * matrix.row_bytes + matrix.columns / format.block_elements * format.block_bytes;
  repacked.planes.strip_rows = runtime::StripRowsOf(matrix.rows);
  const absl::Span<const runtime::Plane> planes = runtime::PlanesOf(matrix.dtype);
  for (uint32_t i = 0; i < planes.size(); ++i) {
    const uint64_t bytes = runtime::BytesOfPlane(planes[i], matrix.rows, matrix.columns);
    // No better aligned than it has to be.
    const uint32_t alignment = runtime::AlignmentOfPlaces(repacked.planes.strip_rows * planes[i].bytes);
    std::byte* const room = Room(bytes + alignment, 32) + alignment;
    runtime::RepackPlane(matrix.dtype, {matrix.data, matrix.row_bytes, matrix.rows, matrix.columns}, i, room);
    repacked.planes.data[i] = room;
  }
}

runtime::WeightMatrix StoredWeights::AsPlaced(runtime::WeightMatrix matrix) const {
  for (const Repacked& repacked : repacked_) {
    if (matrix.empty() || repacked.data != matrix.data) continue;
    matrix.data = nullptr;
    matrix.row_bytes = 0;
    matrix.planes = repacked.planes;
    break;
  }
  return matrix;
}

runtime::ExpertWeights StoredWeights::AsPlaced(runtime::ExpertWeights expert) const {
  for (runtime::WeightMatrix* const matrix : {&expert.gate, &expert.up, &expert.down}) *matrix = AsPlaced(*matrix);
  return expert;
}

runtime::SharedWeights StoredWeights::AsPlaced(runtime::SharedWeights shared) const {
  for (runtime::WeightMatrix* const matrix : {&shared.gate, &shared.up, &shared.down}) *matrix = AsPlaced(*matrix);
  return shared;
}

runtime::WeightMatrix StoredWeights::Add(const Storage& storage, uint32_t rows, uint32_t columns) {
  const runtime::Format& format = *runtime::FindFormat(storage.dtype);
  const uint64_t run = storage.packed ? columns / 2 : columns / format.block_elements * format.block_bytes;
  const uint64_t halves = storage.lies == Lies::kInterleaved ? 2 : 1;
  std::byte* const all = Take(halves * rows * run + 1, 16);
  std::byte* const data = all + (storage.lies == Lies::kAtOddPlaces ? 1 : storage.lies == Lies::kInterleaved ? run : 0);
  if (!storage.packed) {
    std::byte* const first = storage.lies == Lies::kAtOddPlaces ? data : all;
    for (uint64_t i = 0; i < halves * rows * run; i += format.block_bytes) format.tame(first + i);
  }
  runtime::WeightMatrix matrix;
  matrix.dtype = storage.dtype;
  matrix.packed = storage.packed;
  matrix.rows = rows;
  matrix.columns = columns;
  matrix.row_bytes = storage.lies == Lies::kTransposed ? format.block_bytes : halves * run;
  if (storage.lies == Lies::kTransposed) matrix.element_bytes = rows * format.block_bytes;
  matrix.data = data;

  const auto number = [this] {  // 2^-4 to 2^-2, all bits of a float32
    return std::bit_cast<float>(0x3D800000u + static_cast<uint32_t>(random_()) % 0x1000000u);
  };
  if (storage.scale != DType::kInvalid) {
    runtime::WeightScales& scale = matrix.scale;
    const uint64_t size = FindDType(storage.scale)->block_bits / 8;
    scale.dtype = storage.scale;
    scale.applies = storage.applies;
    scale.block_rows = storage.block_rows;
    scale.block_columns = storage.block_columns;
    uint64_t grid_rows = 1;
    uint64_t grid_columns = 1;
    if (storage.block_rows > 0) {
      if (halves == 2) {
        scale.first_row = 1;
        scale.row_step = 2;
      }
      grid_rows = (halves * rows + storage.block_rows - 1) / storage.block_rows;
      grid_columns = (columns + storage.block_columns - 1) / storage.block_columns;
      const bool transposed = storage.lies == Lies::kTransposed;
      scale.row_bytes = transposed ? size : grid_columns * size;
      scale.column_bytes = transposed ? grid_rows * size : size;
    }
    std::byte* const at = Take(grid_rows * grid_columns * size, 1);
    for (uint64_t i = 0; i < grid_rows * grid_columns; ++i) {
      const float value = number();
      const uint16_t half = FloatToBf16(value);
      switch (storage.scale) {
        case DType::kF32:
          std::memcpy(at + 4 * i, &value, 4);
          break;
        case DType::kBf16:
          std::memcpy(at + 2 * i, &half, 2);
          break;
        case DType::kF8E4M3:  // 0.5 to 1.9
          at[i] = static_cast<std::byte>(0x30u + random_() % 16);
          break;
        default:  // powers of two
          at[i] = static_cast<std::byte>(120u + random_() % 6);
      }
    }
    scale.data = at;
  }
  if (storage.applies_2 != ScaleApplies::kInvalid) {
    matrix.scale_2.dtype = DType::kF32;
    matrix.scale_2.applies = storage.applies_2;
    std::byte* const at = Take(4, 1);
    const float value = number();
    std::memcpy(at, &value, 4);
    matrix.scale_2.data = at;
  }
  if (storage.repacked) Repack(matrix);
  return matrix;
}

runtime::WeightMatrix StoredWeights::AddIntegers(uint32_t rows, uint32_t columns) {
  runtime::WeightMatrix matrix;
  matrix.dtype = DType::kBf16;
  matrix.rows = rows;
  matrix.columns = columns;
  matrix.row_bytes = uint64_t{columns} * 2;
  std::byte* const data = Take(rows * matrix.row_bytes, 16);
  for (uint64_t i = 0; i < uint64_t{rows} * columns; ++i) {
    const uint16_t bits = FloatToBf16(static_cast<float>(static_cast<int>(random_() % 7) - 3));
    std::memcpy(data + 2 * i, &bits, 2);
  }
  matrix.data = data;
  return matrix;
}

runtime::WeightMatrix StoredWeights::AddVector(uint32_t columns, Lies lies) {
  const runtime::Format& format = *runtime::FindFormat(DType::kBf16);
  const uint64_t halves = lies == Lies::kInterleaved ? 2 : 1;
  std::byte* const all = Take(halves * columns * 2, 1);
  for (uint64_t i = 0; i < halves * columns; ++i) format.tame(all + 2 * i);
  runtime::WeightMatrix vector;
  vector.dtype = DType::kBf16;
  vector.rows = 1;
  vector.columns = columns;
  vector.row_bytes = halves * columns * 2;
  if (halves == 2) vector.element_bytes = 4;
  vector.data = all + (halves == 2 ? 2 : 0);
  return vector;
}

}  // namespace meshseal::cuda
