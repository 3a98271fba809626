// YAML trees -> Manifest, MeshSpec, Deployment. Every required field is there, every value is of its kind and in its
// own range; what fields mean together is the check stage's business.
#ifndef MESHSEAL_COMPILER_MANIFEST_READ_MANIFEST_H_
#define MESHSEAL_COMPILER_MANIFEST_READ_MANIFEST_H_

#include <cstdint>
#include <optional>

#include "compiler/manifest/manifest.h"
#include "compiler/text/diagnostic.h"
#include "compiler/text/source.h"
#include "compiler/yaml/yaml.h"

namespace meshseal::compiler {

enum class DocumentKind : uint8_t { kModel, kMesh, kDeployment };

// Which of the three a document is: `meshseal: 1` first, then exactly one of model, mesh, deployment. Nothing, and an
// error, for anything else.
std::optional<DocumentKind> KindOf(const YamlNode& root, Diagnostics& diagnostics);

// Each reports every violation it can see and gives nothing when there is one. `root` is the tree of `file`, of that
// kind.
std::optional<Manifest> ReadManifest(const SourceFile& file, const YamlNode& root, Diagnostics& diagnostics);
std::optional<MeshSpec> ReadMesh(const SourceFile& file, const YamlNode& root, Diagnostics& diagnostics);
std::optional<Deployment> ReadDeployment(const SourceFile& file, const YamlNode& root, Diagnostics& diagnostics);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_MANIFEST_READ_MANIFEST_H_
