// Small texts that the kernel makes when they are read, under /proc and /sys.
#ifndef MESHSEAL_TOOLS_RUN_PROC_TEXT_H_
#define MESHSEAL_TOOLS_RUN_PROC_TEXT_H_

#include <string>
#include <vector>

namespace meshseal::tools {

// "" for what cannot be read.
std::string ProcText(const std::string& path);

// Names in a folder, in order; none of one that cannot be read.
std::vector<std::string> ProcNames(const std::string& folder);

}  // namespace meshseal::tools

#endif  // MESHSEAL_TOOLS_RUN_PROC_TEXT_H_
