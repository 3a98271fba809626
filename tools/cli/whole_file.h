// Files that appear complete or not at all.
#ifndef MESHSEAL_TOOLS_CLI_WHOLE_FILE_H_
#define MESHSEAL_TOOLS_CLI_WHOLE_FILE_H_

#include <cstdint>
#include <filesystem>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace meshseal::tools {

enum class FileKind : uint8_t {
  kOutput,  // replaces what is there; its mode follows the umask
  kKept,    // never in the place of another file
  kSecret,  // the same, and for its owner alone
};

// Writes the pieces one after the other under another name in the same folder, syncs and renames; `-` is standard
// output. An existing `path` that is not a regular file is refused, and whatever fails, no part is left behind. Reason
// kUsage.
absl::Status WriteWholeFile(const std::filesystem::path& path, absl::Span<const absl::string_view> pieces,
                            FileKind kind = FileKind::kOutput);

}  // namespace meshseal::tools

#endif  // MESHSEAL_TOOLS_CLI_WHOLE_FILE_H_
