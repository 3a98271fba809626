#include "schema/folder_names.h"

#include <dirent.h>

#include <cerrno>
#include <new>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/string_view.h"

namespace meshseal {

int ListFolder(const std::filesystem::path& folder, size_t most, std::vector<std::string>* names) {
  DIR* const opened = ::opendir(folder.c_str());
  if (opened == nullptr && errno == ENOMEM) throw std::bad_alloc();
  if (opened == nullptr) return errno;
  const absl::Cleanup closer = [opened] { ::closedir(opened); };
  while (names->size() <= most) {
    errno = 0;
    const struct dirent* const entry = ::readdir(opened);
    if (entry == nullptr) return errno;
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") names->emplace_back(name);
  }
  return 0;
}

}  // namespace meshseal
