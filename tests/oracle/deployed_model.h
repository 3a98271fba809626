// A model manifest and a checkpoint as a session on emulated ranks of one host: compiled in process, sealed, opened.
#ifndef MESHSEAL_TESTS_ORACLE_DEPLOYED_MODEL_H_
#define MESHSEAL_TESTS_ORACLE_DEPLOYED_MODEL_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "runtime/session/session.h"
#include "schema/sealed_plan.h"

namespace meshseal::oracle {

struct World {
  uint32_t tp = 1;
  uint32_t ep = 1;
};

inline std::string TextOf(World world) { return absl::StrCat("tp ", world.tp, " ep ", world.ep); }

// Rows are computed in float32, and summed as `reduction` says; prefill runs in chunks of 5 tokens. Limits are
// `tokens`. Errors carry the compiler's diagnostics. `model` is the manifest's path.
absl::StatusOr<SealedPlan> CompileModel(const std::filesystem::path& model, World world, uint32_t tokens,
                                        const std::string& reduction = "ordered");

// The plan with the weights at `weights`, a folder or a GGUF file.
absl::StatusOr<std::unique_ptr<runtime::Session>> OpenModel(const std::filesystem::path& model,
                                                            const std::filesystem::path& weights, World world,
                                                            uint32_t tokens, const std::string& reduction = "ordered");

// What one call gave. A failure is a failure of the test, and leaves the vectors empty.
struct Output {
  std::vector<float> hidden;
  std::vector<int32_t> experts;
  std::vector<float> weights;
};

// All rows of `hidden`. `routing` is for layers whose routing is precomputed. `token_ids` are left out where the layer
// reads none.
Output RunLayer(runtime::Session& session, uint32_t layer, Phase phase, absl::Span<const float> hidden,
                absl::Span<const int32_t> token_ids = {}, runtime::Routing routing = {});

}  // namespace meshseal::oracle

#endif  // MESHSEAL_TESTS_ORACLE_DEPLOYED_MODEL_H_
