// Environment variables as they are asked for, so that what reads them can be given others.
#ifndef MESHSEAL_RUNTIME_LAUNCH_ENVIRONMENT_H_
#define MESHSEAL_RUNTIME_LAUNCH_ENVIRONMENT_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace meshseal::runtime {

// The value of a variable; nothing for one that is not set.
using Environment = std::function<std::optional<std::string>(const char*)>;

// That of this process. Not while another thread changes it.
Environment ProcessEnvironment();

// All of this process as NAME=VALUE, in no order. Not while another thread changes it.
std::vector<std::string> ProcessVariables();

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_LAUNCH_ENVIRONMENT_H_
