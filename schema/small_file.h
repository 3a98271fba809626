// Small files that are read whole: plans, signatures, keys.
#ifndef MESHSEAL_SCHEMA_SMALL_FILE_H_
#define MESHSEAL_SCHEMA_SMALL_FILE_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/reason.h"

namespace meshseal {

// The bytes of a file, read once into private memory: a regular file, no link followed as the last component of `path`,
// a FIFO not waited for. Its size is compared with `max_bytes` before any memory is taken. Reason kUsage for a file
// that cannot be opened or read, `too_large` for one above `max_bytes`, where `what` ("a plan") names it.
absl::StatusOr<std::string> ReadSmallFile(const std::filesystem::path& path, absl::string_view what, uint64_t max_bytes,
                                          Reason too_large);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_SMALL_FILE_H_
