// What lies in a folder.
#ifndef MESHSEAL_SCHEMA_FOLDER_NAMES_H_
#define MESHSEAL_SCHEMA_FOLDER_NAMES_H_

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace meshseal {

// Appends the names in `folder`, in no order, without "." and ".."; stops at the first of more than `most`. The errno
// of what failed, 0 when nothing did; std::bad_alloc. std::filesystem::directory_iterator ends the process instead.
int ListFolder(const std::filesystem::path& folder, size_t most, std::vector<std::string>* names);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_FOLDER_NAMES_H_
