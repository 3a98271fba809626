// CheckedModel: documents that hold every rule of the check stage. Only Check makes one.
#ifndef MESHSEAL_COMPILER_CHECK_CHECKED_MODEL_H_
#define MESHSEAL_COMPILER_CHECK_CHECKED_MODEL_H_

#include <optional>
#include <utility>

#include "compiler/manifest/manifest.h"
#include "compiler/text/diagnostic.h"
#include "schema/load_profile.h"

namespace meshseal::compiler {

class CheckedModel {
 public:
  const Manifest& model() const { return inputs_.model; }
  const MeshSpec& mesh() const { return inputs_.mesh; }
  const Deployment& deployment() const { return inputs_.deployment; }
  // Exactly where experts are balanced: for each MoE layer the slots of each expert, and at least one in all.
  const std::optional<LoadProfileFile>& profile() const { return inputs_.profile; }
  // Every degree fits 32 bits and their product is the world.
  Degrees degrees() const;

 private:
  friend std::optional<CheckedModel> CheckDeployment(Inputs inputs, Diagnostics& diagnostics);
  explicit CheckedModel(Inputs inputs) : inputs_(std::move(inputs)) {}

  Inputs inputs_;
};

// Runs every rule and reports all violations; nothing when there is one.
std::optional<CheckedModel> Check(Inputs inputs, Diagnostics& diagnostics);

// The rules over all three documents alone, for a model and a mesh that hold their own: what a search over deployments
// asks again and again.
std::optional<CheckedModel> CheckDeployment(Inputs inputs, Diagnostics& diagnostics);

// The rules of one document alone, for `meshseal check MODEL.yaml` and `MESH.yaml`.
void CheckManifest(const Manifest& model, Diagnostics& diagnostics);
void CheckMesh(const MeshSpec& mesh, Diagnostics& diagnostics);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_CHECK_CHECKED_MODEL_H_
