#include "runtime/c_api/error.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"
#include "schema/version.h"

struct meshseal_error {
  meshseal::Reason reason;
  const char* text;
};

namespace meshseal::runtime::c_api {
namespace {

// Of no caller's, and never freed.
const meshseal_error& NoMemory() {
  static const meshseal_error error = {Reason::kOutOfMemory, RowOf(Reason::kOutOfMemory).meaning};
  return error;
}

}  // namespace

meshseal_error* HandOut(const absl::Status& status) {
  if (status.ok()) return nullptr;
  const ReasonRow& row = RowOf(ReasonOf(status).value_or(Reason::kBug));
  const absl::string_view text = status.message().empty() ? row.meaning : status.message();
  // The text lies behind its error.
  void* const memory = std::malloc(sizeof(meshseal_error) + text.size() + 1);
  if (memory == nullptr) return HandOutNoMemory();
  char* const copy = static_cast<char*>(memory) + sizeof(meshseal_error);
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return new (memory) meshseal_error{row.reason, copy};
}

absl::Status StatusOf(const meshseal_error& error) { return Refuse(error.reason, error.text); }

// The caller cannot write through the pointer: the type is opaque.
meshseal_error* HandOutNoMemory() noexcept { return const_cast<meshseal_error*>(&NoMemory()); }

absl::Status CheckGiven(const void* argument, absl::string_view name) {
  if (argument != nullptr) return absl::OkStatus();
  return Refuse(Reason::kUsage, absl::StrCat(name, " is NULL"));
}

absl::Status CheckFlag(int32_t value, absl::string_view name) {
  if (value == 0 || value == 1) return absl::OkStatus();
  return Refuse(Reason::kUsage, absl::StrCat(name, " is ", value, ", expected 0 or 1"));
}

absl::Status CheckWait(uint32_t milliseconds, absl::string_view name) {
  if (milliseconds != 0) return absl::OkStatus();
  return Refuse(Reason::kUsage, absl::StrCat(name, " is 0"));
}

absl::Status CheckStructSize(size_t found, size_t expected, absl::string_view name) {
  if (found == expected) return absl::OkStatus();
  return Refuse(Reason::kUsage, absl::StrCat(name, "->struct_size is ", found, ", this version's is ", expected));
}

}  // namespace meshseal::runtime::c_api

uint32_t meshseal_abi_version(void) { return MESHSEAL_ABI_VERSION; }

const char* meshseal_version(void) { return meshseal::Version().data(); }

int meshseal_error_exit_code(const meshseal_error* error) {
  return error == nullptr ? 0 : meshseal::RowOf(error->reason).exit_code;
}

const char* meshseal_error_reason(const meshseal_error* error) {
  return error == nullptr ? "ok" : meshseal::RowOf(error->reason).slug;
}

const char* meshseal_error_text(const meshseal_error* error) { return error == nullptr ? "" : error->text; }

void meshseal_error_free(meshseal_error* error) {
  if (error != &meshseal::runtime::c_api::NoMemory()) std::free(error);
}
