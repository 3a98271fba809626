// Inputs of readers that take a path.
#ifndef MESHSEAL_TESTS_FUZZ_SCRATCH_FILE_H_
#define MESHSEAL_TESTS_FUZZ_SCRATCH_FILE_H_

#include <filesystem>
#include <string>

#include "absl/strings/string_view.h"
#include "tests/support/checkpoint_writer.h"

namespace meshseal::fuzz {

// A folder that goes with the program. TMPDIR says where; one in memory is faster.
inline const std::filesystem::path& ScratchFolder() {
  static const support::TempFolder folder;
  return folder.path();
}

// The path of a file of that name with these bytes.
inline std::string ScratchFile(const std::string& name, absl::string_view bytes) {
  const std::filesystem::path path = ScratchFolder() / name;
  std::filesystem::remove(path);  // file systems write a file out at once that is cut to nothing and filled again
  support::WriteFile(path, bytes);
  return path.string();
}

}  // namespace meshseal::fuzz

#endif  // MESHSEAL_TESTS_FUZZ_SCRATCH_FILE_H_
