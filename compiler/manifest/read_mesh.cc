#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/manifest/read_manifest.h"
#include "compiler/manifest/typed_fields.h"
#include "compiler/yaml/scalar.h"

namespace meshseal::compiler {
namespace {

constexpr uint64_t kMostSlots = 65536;

// A field that may be absent, read by the getter of its form.
template <class Getter>
std::optional<Spanned<uint64_t>> Optional(TypedFields& fields, const char* key, Getter get) {
  if (fields.OptionalNode(key) == nullptr) return std::nullopt;
  return (fields.*get)(key);
}

DeviceKindSpec ReadDeviceKind(const YamlEntry& entry, Diagnostics& diagnostics) {
  TypedFields fields(entry.value, absl::StrCat("mesh.device_kinds.", entry.key), diagnostics);
  DeviceKindSpec kind;
  kind.name = {entry.key, entry.key_span};
  CheckText(kind.name, "mesh.device_kinds", diagnostics);
  kind.memory = fields.Bytes("memory");
  kind.memory_kind = fields.Term<MemoryKind>("memory_kind");
  kind.usable = kind.memory;
  if (kind.memory_kind.value == MemoryKind::kUnified) kind.usable = fields.Bytes("usable");
  kind.communicator_reserve =
      Optional(fields, "communicator_reserve", &TypedFields::Bytes).value_or(Spanned<uint64_t>{});
  kind.bandwidth = Optional(fields, "bandwidth", &TypedFields::BytesPerSecond);
  kind.bf16 = Optional(fields, "bf16", &TypedFields::FlopPerSecond);
  kind.fp8 = Optional(fields, "fp8", &TypedFields::FlopPerSecond);
  if (fields.OptionalNode("sm") != nullptr) kind.sm = fields.Unsigned("sm", 1, 1000);
  kind.shared_memory_per_block = Optional(fields, "shared_memory_per_block", &TypedFields::Bytes);
  if (fields.OptionalNode("ecc") != nullptr) kind.ecc = fields.Term<Ecc>("ecc");
  kind.peer_access = fields.OptionalFlag("peer_access");
  kind.fabric = fields.OptionalFlag("fabric");
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
  if (const YamlNode* identity = fields.OptionalNode("identity")) {
    node.identity_span = identity->span();
    node.identity = fields.Texts("identity");
  }
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
      mesh.version_min = version->Text("min");
      mesh.version_max = version->Text("max");
      version->Finish();
    }
  }
  mesh.capturable = fields->OptionalFlag("capturable");
  fields->Finish();
}

void ReadAssign(TypedFields& mesh_fields, MeshSpec& mesh) {
  if (mesh_fields.OptionalNode("assign") == nullptr) return;
  mesh.assign_span = mesh_fields.Node("assign")->span();
  const YamlNode::List* rows = mesh_fields.Rows("assign", "a list of rows {node, slot}, in rank order", true);
  if (rows == nullptr) return;
  for (const YamlNode& item : *rows) {
    TypedFields fields = mesh_fields.In(item, "assign");
    AssignSpec assign;
    assign.span = item.span();
    assign.node = fields.Text("node");
    assign.slot = fields.Unsigned("slot", 0, kMostSlots - 1);
    fields.Finish();
    mesh.assign.push_back(std::move(assign));
  }
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
    if (const YamlNode::Map* kinds = fields->Entries("device_kinds", "a map from names to devices")) {
      for (const YamlEntry& entry : *kinds) mesh.device_kinds.push_back(ReadDeviceKind(entry, diagnostics));
    }
    if (const YamlNode* nodes = fields->OptionalNode("nodes")) mesh.nodes_span = nodes->span();
    if (const YamlNode::List* nodes = fields->Rows("nodes", "a list with at least one row", true)) {
      for (const YamlNode& item : *nodes) mesh.nodes.push_back(ReadNode(item, diagnostics));
    }
    if (const YamlNode* islands = fields->OptionalNode("islands")) mesh.islands_span = islands->span();
    if (const YamlNode::List* islands = fields->Rows("islands", "a list with at least one row", true)) {
      for (const YamlNode& item : *islands) mesh.islands.push_back(ReadIsland(item, diagnostics));
    }
    if (fields->OptionalNode("between_islands") != nullptr) {
      if (std::optional<TypedFields> link = fields->Map("between_islands")) mesh.between_islands = ReadLink(*link);
    }
    ReadCollectives(*fields, mesh);
    mesh.emulated = fields->OptionalFlag("emulated");
    ReadAssign(*fields, mesh);
    fields->Finish();
  }
  document.Finish();
  if (diagnostics.size() != before) return std::nullopt;
  return mesh;
}

}  // namespace meshseal::compiler
