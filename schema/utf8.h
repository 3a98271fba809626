// Whether bytes are well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
#ifndef MESHSEAL_SCHEMA_UTF8_H_
#define MESHSEAL_SCHEMA_UTF8_H_

#include "absl/strings/string_view.h"

namespace meshseal {

bool IsUtf8(absl::string_view bytes);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_UTF8_H_
