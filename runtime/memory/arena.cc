#include "runtime/memory/arena.h"

#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "schema/reason.h"

namespace meshseal::runtime {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

absl::StatusOr<Arena> Arena::Reserve(uint64_t bytes, absl::string_view purpose) {
  Arena arena;
  if (bytes == 0) return arena;
  arena.data_.reset(static_cast<std::byte*>(::operator new(bytes, kAlignment, std::nothrow)));
  if (arena.data_ == nullptr) {
    return Refuse(Reason::kOutOfMemory, absl::StrCat(bytes, " bytes for ", purpose, " cannot be had"));
  }
  arena.size_ = bytes;
  return arena;
}

void Arena::Free::operator()(std::byte* data) const { ::operator delete(data, kAlignment); }

}  // namespace meshseal::runtime
