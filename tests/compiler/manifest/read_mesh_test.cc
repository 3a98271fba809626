// What a mesh may be written with.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/manifest/read_manifest.h"
#include "compiler/text/diagnostic.h"
#include "compiler/yaml/yaml.h"

namespace meshseal::compiler {
namespace {

// Every error on a line of its own: "text [rule]".
std::string Said(const std::string& device_kinds) {
  const std::unique_ptr<const SourceFile> file =
      SourceFile::FromText("mesh.yaml", absl::StrCat("meshseal: 1\n"
                                                     "mesh:\n"
                                                     "  name: m\n"
                                                     "  device_kinds: {",
                                                     device_kinds,
                                                     "}\n"
                                                     "  nodes:\n"
                                                     "    - {name: n, devices: {kind: cpu, count: 1}}\n"
                                                     "  islands:\n"
                                                     "    - {nodes: [n], link: {bandwidth: 10GB/s, latency: 1us}}\n"
                                                     "  collectives: {backend: inproc, ranks: any}\n"
                                                     "  emulated: true\n"))
          .value();
  Diagnostics diagnostics;
  const std::optional<YamlNode> root = ReadYaml(*file, diagnostics);
  if (root.has_value()) ReadMesh(*file, *root, diagnostics);
  std::string said;
  for (const Diagnostic* error : diagnostics.Sorted()) absl::StrAppend(&said, error->text, " [", error->rule, "]\n");
  return said;
}

TEST(ReadMesh, NamesOfDeviceKindsAreText) {
  const std::string kind = ": {memory: 1GiB, memory_kind: host}";
  EXPECT_EQ(Said("cpu" + kind), "");
  EXPECT_EQ(Said(absl::StrCat("\"\"", kind, ", \"a\\tb\"", kind, ", cpu", kind)),
            "mesh.device_kinds: expected text that is not empty [wrong-kind]\n"
            "mesh.device_kinds: expected text without control characters [wrong-kind]\n");
}

}  // namespace
}  // namespace meshseal::compiler
