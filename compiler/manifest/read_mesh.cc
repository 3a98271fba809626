#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/manifest/read_manifest.h"
#include "compiler/manifest/typed_fields.h"
#include "compiler/yaml/scalar.h"

namespace meshseal::compiler {
namespace {

constexpr uint64_t kMostSlots = 65536;

// Figures of a device that pricing reads; here only their form is checked.
void ReadFigures(TypedFields& kind) {
  const std::string& name = kind.name();
  if (const YamlNode* node = kind.OptionalNode("bandwidth")) {
    ReadRate(*node, absl::StrCat(name, ".bandwidth"), Rate::kBytesPerSecond, kind.diagnostics());
  }
  for (const char* key : {"bf16", "fp8"}) {
    if (const YamlNode* node = kind.OptionalNode(key)) {
      ReadRate(*node, absl::StrCat(name, ".", key), Rate::kFlopPerSecond, kind.diagnostics());
    }
  }
  if (const YamlNode* node = kind.OptionalNode("sm")) {
    ReadUnsigned(*node, absl::StrCat(name, ".sm"), {1, 1000}, kind.diagnostics());
  }
  if (const YamlNode* node = kind.OptionalNode("shared_memory_per_block")) {
    ReadBytes(*node, absl::StrCat(name, ".shared_memory_per_block"), kind.diagnostics());
  }
}

DeviceKindSpec ReadDeviceKind(const YamlEntry& entry, Diagnostics& diagnostics) {
  TypedFields fields(entry.value, absl::StrCat("mesh.device_kinds.", entry.key), diagnostics);
  DeviceKindSpec kind;
  kind.name = {entry.key, entry.key_span};
  kind.memory = fields.Bytes("memory");
  kind.memory_kind = fields.Term<MemoryKind>("memory_kind");
  kind.usable = kind.memory;
  if (kind.memory_kind.value == MemoryKind::kUnified) kind.usable = fields.Bytes("usable");
  if (const YamlNode* node = fields.OptionalNode("communicator_reserve")) {
    kind.communicator_reserve = {
        ReadBytes(*node, absl::StrCat(fields.name(), ".communicator_reserve"), diagnostics).value_or(0), node->span()};
  }
  ReadFigures(fields);
  fields.Finish();
  return kind;
}

NodeSpec ReadNode(const YamlNode& item, Diagnostics& diagnostics) {
  TypedFields fields(item, "mesh.nodes", diagnostics);
  NodeSpec node;
  node.name = fields.Text("name");
  if (std::optional<TypedFields> devices = fields.Map("devices")) {
    node.kind = devices->Text("kind");
    node.slots = devices->Unsigned("count", 1, kMostSlots);
    devices->Finish();
  }
  if (const YamlNode* memory = fields.OptionalNode("host_memory")) {
    ReadBytes(*memory, "mesh.nodes.host_memory", diagnostics);
  }
  fields.NotBuilt("identity");
  fields.Finish();
  return node;
}

LinkSpec ReadLink(TypedFields& fields) {
  LinkSpec link;
  link.bandwidth = fields.BytesPerSecond("bandwidth");
  link.latency = fields.Nanoseconds("latency");
  fields.Finish();
  return link;
}

IslandSpec ReadIsland(const YamlNode& item, Diagnostics& diagnostics) {
  TypedFields fields(item, "mesh.islands", diagnostics);
  IslandSpec island;
  island.span = item.span();
  island.nodes = fields.Texts("nodes");
  if (std::optional<TypedFields> link = fields.Map("link")) island.link = ReadLink(*link);
  fields.Finish();
  return island;
}

void ReadCollectives(TypedFields& mesh_fields, MeshSpec& mesh) {
  std::optional<TypedFields> fields = mesh_fields.Map("collectives");
  if (!fields.has_value()) return;
  mesh.transport = fields->Term<Transport>("backend");
  if (const YamlNode* ranks = fields->Node("ranks")) {
    if (ranks->list() != nullptr) {
      mesh.transport_ranks = fields->Unsigneds("ranks", 1, kMostSlots);
    } else if (const auto word = ReadText(*ranks, "mesh.collectives.ranks", fields->diagnostics());
               word.has_value() && *word != "any") {
      fields->diagnostics().Error(
          "unknown-value", ranks->span(),
          absl::StrCat("mesh.collectives.ranks: unknown value '", *word, "', expected 'any' or a list of group sizes"));
    }
  }
  if (fields->OptionalNode("version") != nullptr) {
    if (std::optional<TypedFields> version = fields->Map("version")) {
      version->Text("min");
      version->Text("max");
      version->Finish();
    }
  }
  fields->OptionalFlag("capturable");
  fields->Finish();
}

template <class F>
void ForEachItem(TypedFields& fields, absl::string_view key, Span* span, F read) {
  const YamlNode* node = fields.Node(key);
  if (node == nullptr) return;
  *span = node->span();
  if (node->list() == nullptr || node->list()->empty()) {
    fields.diagnostics().Error("wrong-kind", node->span(),
                               absl::StrCat(fields.name(), ".", key, ": expected a list with at least one row"));
    return;
  }
  for (const YamlNode& item : *node->list()) read(item);
}

}  // namespace

std::optional<MeshSpec> ReadMesh(const SourceFile& file, const YamlNode& root, Diagnostics& diagnostics) {
  const size_t before = diagnostics.size();
  MeshSpec mesh;
  mesh.file = &file;
  TypedFields document(root, "", diagnostics);
  document.Node("meshseal");
  if (std::optional<TypedFields> fields = document.Map("mesh")) {
    mesh.name = fields->Text("name");
    if (const YamlNode* kinds = fields->Node("device_kinds")) {
      if (kinds->map() == nullptr) {
        diagnostics.Error("wrong-kind", kinds->span(), "mesh.device_kinds: expected a map from names to devices");
      } else {
        for (const YamlEntry& entry : *kinds->map()) mesh.device_kinds.push_back(ReadDeviceKind(entry, diagnostics));
      }
    }
    ForEachItem(*fields, "nodes", &mesh.nodes_span,
                [&](const YamlNode& item) { mesh.nodes.push_back(ReadNode(item, diagnostics)); });
    ForEachItem(*fields, "islands", &mesh.islands_span,
                [&](const YamlNode& item) { mesh.islands.push_back(ReadIsland(item, diagnostics)); });
    if (fields->OptionalNode("between_islands") != nullptr) {
      if (std::optional<TypedFields> link = fields->Map("between_islands")) mesh.between_islands = ReadLink(*link);
    }
    ReadCollectives(*fields, mesh);
    mesh.emulated = fields->OptionalFlag("emulated");
    fields->NotBuilt("assign");
    fields->Finish();
  }
  document.Finish();
  if (diagnostics.size() != before) return std::nullopt;
  return mesh;
}

}  // namespace meshseal::compiler
