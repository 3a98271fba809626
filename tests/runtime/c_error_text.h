// What an error of the C interface says, for tests.
#ifndef MESHSEAL_TESTS_RUNTIME_C_ERROR_TEXT_H_
#define MESHSEAL_TESTS_RUNTIME_C_ERROR_TEXT_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/include/meshseal/meshseal.h"

namespace meshseal::runtime {

// "3 digest.payload: TEXT"; "ok" for NULL. Frees it.
inline std::string TextOf(meshseal_error* error) {
  if (error == nullptr) return "ok";
  const std::string text = absl::StrCat(meshseal_error_exit_code(error), " ", meshseal_error_reason(error), ": ",
                                        meshseal_error_text(error));
  meshseal_error_free(error);
  return text;
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_TESTS_RUNTIME_C_ERROR_TEXT_H_
