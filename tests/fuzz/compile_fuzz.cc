// Deployment, model and mesh as one text, a line "%%%%" between them, compiled: sealed bytes that open, or errors.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/driver/compile.h"
#include "compiler/manifest/read_manifest.h"
#include "compiler/text/render.h"
#include "compiler/yaml/yaml.h"
#include "runtime/program/executed.h"
#include "schema/reason.h"
#include "schema/sealed_plan.h"
#include "tests/fuzz/change_text.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/scratch_file.h"

namespace meshseal::fuzz {
namespace {

constexpr absl::string_view kMark = "%%%%\n";
// What keeps one input below a second; larger ones are compiled by other tests.
constexpr uint64_t kMostRanks = 64;
constexpr uint64_t kMostLayers = 128;
constexpr uint64_t kMostExperts = 1024;

// Whether a document is so large that compiling it takes long. One that does not say is not.
bool IsLarge(const std::string& text) {
  absl::StatusOr<std::unique_ptr<const compiler::SourceFile>> file = compiler::SourceFile::FromText("fuzz.yaml", text);
  if (!file.ok()) return true;
  compiler::Diagnostics diagnostics;
  const std::optional<compiler::YamlNode> root = ReadYaml(**file, diagnostics);
  if (!root.has_value()) return false;
  const std::optional<compiler::DocumentKind> kind = KindOf(*root, diagnostics);
  if (kind == compiler::DocumentKind::kMesh) {
    const std::optional<compiler::MeshSpec> mesh = ReadMesh(**file, *root, diagnostics);
    uint64_t slots = 0;
    if (mesh.has_value()) {
      for (const compiler::NodeSpec& node : mesh->nodes) {
        if (node.slots.value > kMostRanks) return true;
        slots += node.slots.value;
      }
    }
    return slots > kMostRanks;
  }
  if (kind == compiler::DocumentKind::kModel) {
    const std::optional<compiler::Manifest> model = ReadManifest(**file, *root, diagnostics);
    if (!model.has_value()) return false;
    if (model->layers.value > kMostLayers) return true;
    for (const compiler::LayerGroup& group : model->groups) {
      if (group.moe.experts.value > kMostExperts) return true;
    }
  }
  return false;
}

void TryDocuments(const std::array<std::string, 3>& documents) {
  for (const std::string& document : documents) {
    if (IsLarge(document)) return;
  }
  compiler::CompileRequest request;
  request.deployment = ScratchFile("deployment.yaml", documents[0]);
  request.model = ScratchFile("model.yaml", documents[1]);
  request.mesh = ScratchFile("mesh.yaml", documents[2]);
  request.serial = 7;
  const absl::StatusOr<compiler::CompileResult> result = Compile(request);
  if (!result.ok()) {
    const std::optional<Reason> reason = ReasonOf(result.status());
    Expect(reason.has_value() && reason != Reason::kBug, std::string(result.status().message()));
    return;
  }
  if (!result->diagnostics.ok()) {
    Expect(result->sealed.empty(), "errors and a plan");
    Expect(!RenderText(result->diagnostics).empty() && !RenderJson(result->diagnostics).empty(),
           "errors without a text");
    return;
  }
  Policy policy;
  policy.allow_unsigned_hosts = true;
  const absl::StatusOr<SealedPlan> opened = SealedPlan::Open(result->sealed, policy);
  Expect(opened.ok(), absl::StrCat("what was compiled does not open: ", std::string(opened.status().message())));
  (void)runtime::CheckExecuted(opened->plan(), ExecutorKind::kCuda);
  ++accepted;
}

}  // namespace
}  // namespace meshseal::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  return meshseal::fuzz::ChangeText(data, size, max_size, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using meshseal::fuzz::kMark;
  const std::vector<std::string> parts = absl::StrSplit(meshseal::fuzz::TextOf(data, size), kMark);
  if (parts.size() == 3) meshseal::fuzz::TryDocuments({parts[0], parts[1], parts[2]});
  return 0;
}
