#include "tests/fake_cuda/element_sums.h"

#include <cstdint>
#include <cstring>

namespace fake_nccl {
namespace {

// Integers wrap.
template <class T>
T CombineTwo(ncclRedOp_t reduction, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    const auto x = static_cast<uint64_t>(static_cast<Unsigned>(a));
    const auto y = static_cast<uint64_t>(static_cast<Unsigned>(b));
    if (reduction == ncclSum) return static_cast<T>(static_cast<Unsigned>(x + y));
    if (reduction == ncclProd) return static_cast<T>(static_cast<Unsigned>(x * y));
  } else {
    if (reduction == ncclSum) return a + b;
    if (reduction == ncclProd) return a * b;
  }
  return (reduction == ncclMax) == (b > a) ? b : a;
}

// `Wide` is what is computed in: each step rounds to T.
template <class T, class Wide = T>
void CombineAs(ncclRedOp_t reduction, const std::vector<const std::byte*>& parts, size_t count, std::byte* out) {
  for (size_t i = 0; i < count; ++i) {
    T sum;
    std::memcpy(&sum, parts[0] + i * sizeof(T), sizeof(T));
    for (size_t part = 1; part < parts.size(); ++part) {
      T next;
      std::memcpy(&next, parts[part] + i * sizeof(T), sizeof(T));
      sum = static_cast<T>(CombineTwo<Wide>(reduction, static_cast<Wide>(sum), static_cast<Wide>(next)));
    }
    std::memcpy(out + i * sizeof(T), &sum, sizeof(T));
  }
}

struct Element {
  ncclDataType_t type;
  size_t bytes;
  const char* name;
  void (*combine)(ncclRedOp_t, const std::vector<const std::byte*>&, size_t, std::byte*);
};

constexpr Element kElements[] = {
    {ncclInt8, 1, "int8", CombineAs<int8_t>},
    {ncclUint8, 1, "uint8", CombineAs<uint8_t>},
    {ncclInt32, 4, "int32", CombineAs<int32_t>},
    {ncclUint32, 4, "uint32", CombineAs<uint32_t>},
    {ncclInt64, 8, "int64", CombineAs<int64_t>},
    {ncclUint64, 8, "uint64", CombineAs<uint64_t>},
    {ncclFloat16, 2, "float16", CombineAs<__half, float>},
    {ncclFloat32, 4, "float32", CombineAs<float>},
    {ncclFloat64, 8, "float64", CombineAs<double>},
    {ncclBfloat16, 2, "bfloat16", CombineAs<__nv_bfloat16, float>},
    {ncclFloat8e4m3, 1, "float8e4m3", nullptr},
    {ncclFloat8e5m2, 1, "float8e5m2", nullptr},
};

const Element* Find(ncclDataType_t type) {
  for (const Element& element : kElements) {
    if (element.type == type) return &element;
  }
  return nullptr;
}

}  // namespace

size_t ElementBytes(ncclDataType_t type) {
  const Element* const element = Find(type);
  return element ? element->bytes : 0;
}

const char* TypeName(ncclDataType_t type) {
  const Element* const element = Find(type);
  return element ? element->name : "no type";
}

const char* ReductionName(ncclRedOp_t reduction) {
  switch (reduction) {
    case ncclSum:
      return "sum";
    case ncclProd:
      return "product";
    case ncclMax:
      return "largest";
    case ncclMin:
      return "smallest";
    default:
      return "no reduction";
  }
}

bool CanCombine(ncclDataType_t type, ncclRedOp_t reduction) {
  const Element* const element = Find(type);
  return element && element->combine && reduction >= ncclSum && reduction <= ncclMin;
}

void Combine(ncclDataType_t type, ncclRedOp_t reduction, const std::vector<const std::byte*>& parts, size_t count,
             std::byte* out) {
  Find(type)->combine(reduction, parts, count, out);
}

}  // namespace fake_nccl
