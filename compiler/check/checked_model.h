// What the check stage vouches for, in two steps: the documents by themselves, then all of them together.
#ifndef MESHSEAL_COMPILER_CHECK_CHECKED_MODEL_H_
#define MESHSEAL_COMPILER_CHECK_CHECKED_MODEL_H_

#include <optional>
#include <utility>

#include "compiler/manifest/manifest.h"
#include "compiler/text/diagnostic.h"
#include "schema/load_profile.h"

namespace meshseal::compiler {

// Documents whose model and mesh hold their own rules, and a deployment that is free to change: where a search over
// deployments starts, so that those rules run once. Only CheckDocuments makes one.
class CheckedDocuments {
 public:
  const Inputs& inputs() const { return inputs_; }
  const Manifest& model() const { return inputs_.model; }
  const MeshSpec& mesh() const { return inputs_.mesh; }
  const Deployment& deployment() const { return inputs_.deployment; }
  Deployment& deployment() { return inputs_.deployment; }

 private:
  friend std::optional<CheckedDocuments> CheckDocuments(Inputs inputs, Diagnostics& diagnostics);
  explicit CheckedDocuments(Inputs inputs) : inputs_(std::move(inputs)) {}

  Inputs inputs_;
};

// Documents that hold every rule. Only CheckDeployment makes one.
class CheckedModel {
 public:
  const CheckedDocuments& documents() const { return documents_; }
  const Manifest& model() const { return documents_.model(); }
  const MeshSpec& mesh() const { return documents_.mesh(); }
  const Deployment& deployment() const { return documents_.deployment(); }
  // Exactly where experts are balanced: for each MoE layer the slots of each expert, and at least one in all.
  const std::optional<LoadProfileFile>& profile() const { return documents_.inputs().profile; }
  // Every degree fits 32 bits and their product is the world.
  Degrees degrees() const;

 private:
  friend std::optional<CheckedModel> CheckDeployment(CheckedDocuments documents, Diagnostics& diagnostics);
  explicit CheckedModel(CheckedDocuments documents) : documents_(std::move(documents)) {}

  CheckedDocuments documents_;
};

// Runs every rule and reports all violations; nothing when there is one.
std::optional<CheckedModel> Check(Inputs inputs, Diagnostics& diagnostics);

// Runs the rules of the model alone and of the mesh alone; nothing when one is violated.
std::optional<CheckedDocuments> CheckDocuments(Inputs inputs, Diagnostics& diagnostics);

// Runs the rules over all three documents: what a search over deployments asks again and again.
std::optional<CheckedModel> CheckDeployment(CheckedDocuments documents, Diagnostics& diagnostics);

// The rules of one document alone, for `meshseal check MODEL.yaml` and `MESH.yaml`.
void CheckManifest(const Manifest& model, Diagnostics& diagnostics);
void CheckMesh(const MeshSpec& mesh, Diagnostics& diagnostics);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_CHECK_CHECKED_MODEL_H_
