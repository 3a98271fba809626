// What NCCL is told by the environment and by files of its own, and what follows from it for sums.
//
// A sum of float32 that NCCL makes (the reduction 'fast') has the order of whatever algorithm, protocol and channels it
// chooses for the size, the machines and these settings. Rings and trees add in the same order in every call; switches
// that add (NVLS, CollNet) do not have to. Sums of int64 ('exact') and those that ranks make themselves of what NCCL
// has moved ('ordered') have the same bits whatever it chooses.
#ifndef MESHSEAL_RUNTIME_CUDA_NCCL_SETTINGS_H_
#define MESHSEAL_RUNTIME_CUDA_NCCL_SETTINGS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/launch/environment.h"
#include "schema/terms.h"

namespace meshseal::cuda {

// Variables as NAME=VALUE.
class NcclSettings {
 public:
  // `process` has the environment's; `files` are the texts of NCCL's files, a variable a line. Who comes first decides.
  NcclSettings(std::vector<std::string> process, const std::vector<std::string>& files);

  // Of this process: NCCL reads NCCL_CONF_FILE, or .nccl.conf in the user's home, and then /etc/nccl.conf. Not while
  // another thread changes the environment.
  static NcclSettings OfProcess();

  const std::vector<std::string>& variables() const { return variables_; }
  runtime::Environment environment() const;

 private:
  std::vector<std::string> variables_;
};

inline constexpr const char* kNvlsVariable = "NCCL_NVLS_ENABLE";

// OK where sums of float32 have what is said of them: of a plan whose sums NCCL makes, somebody has decided about NVLS
// (NCCL_NVLS_ENABLE, or algorithms without it). Reason kRankRecord.
absl::Status CheckSums(Reduction reduction, const runtime::Environment& environment);

// "algorithm Ring, protocol as NCCL chooses, NVLS off".
std::string AlgorithmText(const runtime::Environment& environment);

// How sums are made, for people: "fast, by NCCL: algorithm ..., the same order in every call".
std::string SumsText(Reduction reduction, const runtime::Environment& environment);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_NCCL_SETTINGS_H_
