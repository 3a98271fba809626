// Rules over a mesh alone.
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/check/rules.h"
#include "schema/version_numbers.h"

namespace meshseal::compiler::rules {

void DevicesAreKnown(absl::string_view rule, const MeshSpec& mesh, Diagnostics& diagnostics) {
  for (const NodeSpec& node : mesh.nodes) {
    if (mesh.FindKind(node.kind.value) != nullptr) continue;
    diagnostics.Error(rule, node.kind.span,
                      absl::StrCat("device kind '", node.kind.value, "' is not in mesh.device_kinds"));
  }
}

void NodesAreNamedOnce(absl::string_view rule, const MeshSpec& mesh, Diagnostics& diagnostics) {
  std::map<std::string, Span> seen;
  for (const NodeSpec& node : mesh.nodes) {
    const auto [other, inserted] = seen.emplace(node.name.value, node.name.span);
    if (inserted) continue;
    diagnostics.Error(rule, node.name.span, absl::StrCat("a second node '", node.name.value, "'"))
        .notes.push_back({other->second, "the first one"});
  }
}

void IslandsCoverNodes(absl::string_view rule, const MeshSpec& mesh, Diagnostics& diagnostics) {
  std::set<std::string> known;
  for (const NodeSpec& node : mesh.nodes) known.insert(node.name.value);
  std::map<std::string, Span> placed;
  for (const IslandSpec& island : mesh.islands) {
    for (const Spanned<std::string>& name : island.nodes) {
      if (known.count(name.value) == 0)
        diagnostics.Error(rule, name.span, absl::StrCat("there is no node '", name.value, "'"));
      const auto [other, inserted] = placed.emplace(name.value, name.span);
      if (!inserted) {
        diagnostics.Error(rule, name.span, absl::StrCat("node '", name.value, "' is in two islands"))
            .notes.push_back({other->second, "the other one"});
      }
    }
  }
  for (const NodeSpec& node : mesh.nodes) {
    if (placed.count(node.name.value) == 0) {
      diagnostics.Error(rule, node.name.span, absl::StrCat("node '", node.name.value, "' is in no island"));
    }
  }
  if (mesh.islands.size() > 1 && !mesh.between_islands.has_value()) {
    diagnostics.Error(rule, mesh.islands_span,
                      absl::StrCat(mesh.islands.size(), " islands and no between_islands link joins them"));
  }
}

void DevicesAreListedOnce(absl::string_view rule, const MeshSpec& mesh, Diagnostics& diagnostics) {
  std::map<std::string, Span> seen;
  for (const NodeSpec& node : mesh.nodes) {
    if (!node.identity.empty() && node.identity.size() != node.slots.value) {
      diagnostics
          .Error(rule, node.identity_span,
                 absl::StrCat("node '", node.name.value, "' pins ", node.identity.size(), " devices and has ",
                              node.slots.value, " slots"))
          .notes.push_back({node.slots.span, "one for each slot, in their order"});
    }
    for (const Spanned<std::string>& device : node.identity) {
      const auto [other, inserted] = seen.emplace(device.value, device.span);
      if (inserted) continue;
      diagnostics.Error(rule, device.span, absl::StrCat("device '", device.value, "' is listed twice"))
          .notes.push_back({other->second, "the other entry: two ranks would run on one device"});
    }
  }
}

void MemoryIsUsable(absl::string_view rule, const MeshSpec& mesh, Diagnostics& diagnostics) {
  for (const DeviceKindSpec& kind : mesh.device_kinds) {
    if (kind.memory.value == 0) {
      diagnostics.Error(rule, kind.memory.span, absl::StrCat("device kind '", kind.name.value, "' has no memory"));
    } else if (kind.usable.value > kind.memory.value) {
      diagnostics
          .Error(rule, kind.usable.span,
                 absl::StrCat("device kind '", kind.name.value, "': more is usable than there is"))
          .notes.push_back({kind.memory.span, "all of its memory"});
    }
  }
}

void VersionsAscend(absl::string_view rule, const MeshSpec& mesh, Diagnostics& diagnostics) {
  if (!mesh.version_min.has_value() || !mesh.version_max.has_value()) return;
  const std::optional<std::vector<uint32_t>> min = VersionNumbers(mesh.version_min->value);
  const std::optional<std::vector<uint32_t>> max = VersionNumbers(mesh.version_max->value);
  if (!min.has_value() || !max.has_value()) {
    const Spanned<std::string>& wrong = min.has_value() ? *mesh.version_max : *mesh.version_min;
    diagnostics.Error(rule, wrong.span,
                      absl::StrCat("version '", wrong.value, "' is not numbers with dots, such as 2.28.9"));
  } else if (*max < *min) {
    diagnostics
        .Error(rule, mesh.version_max->span,
               absl::StrCat("version max ", mesh.version_max->value, " is below min ", mesh.version_min->value))
        .notes.push_back({mesh.version_min->span, "the lowest version"});
  }
}

void RatesAreAboveZero(absl::string_view rule, const MeshSpec& mesh, Diagnostics& diagnostics) {
  const auto check = [&](const Spanned<uint64_t>& rate, absl::string_view what) {
    if (rate.value == 0) diagnostics.Error(rule, rate.span, absl::StrCat(what, " is 0"));
  };
  for (const DeviceKindSpec& kind : mesh.device_kinds) {
    if (kind.bandwidth.has_value()) check(*kind.bandwidth, "the memory's bandwidth");
    if (kind.bf16.has_value()) check(*kind.bf16, "the bf16 rate");
    if (kind.fp8.has_value()) check(*kind.fp8, "the fp8 rate");
  }
  for (const IslandSpec& island : mesh.islands) check(island.link.bandwidth, "the link's bandwidth");
  if (mesh.between_islands.has_value()) check(mesh.between_islands->bandwidth, "the link's bandwidth");
}

void HostsAreNoDevices(absl::string_view rule, const MeshSpec& mesh, Diagnostics& diagnostics) {
  for (const DeviceKindSpec& kind : mesh.device_kinds) {
    if (kind.memory_kind.value != MemoryKind::kHost) continue;
    const auto refuse = [&](const Span& span, absl::string_view field) {
      diagnostics
          .Error(rule, span,
                 absl::StrCat("device kind '", kind.name.value, "' is a host's memory, which has no ", field))
          .notes.push_back({kind.memory_kind.span, "ranks of it compute on the host"});
    };
    if (kind.sm.has_value()) refuse(kind.sm->span, "sm");
    if (kind.shared_memory_per_block.has_value()) refuse(kind.shared_memory_per_block->span, "shared_memory_per_block");
    if (kind.ecc.value != Ecc::kAny) refuse(kind.ecc.span, "ecc that a rank could look up");
    if (kind.peer_access.value) refuse(kind.peer_access.span, "peer_access");
    if (kind.fabric.value) refuse(kind.fabric.span, "fabric");
  }
}

void CaptureFitsTransport(absl::string_view rule, const MeshSpec& mesh, Diagnostics& diagnostics) {
  if (!mesh.capturable.value || mesh.transport.value == Transport::kNccl) return;
  diagnostics
      .Error(rule, mesh.capturable.span,
             absl::StrCat("collectives over ", WordOf(mesh.transport.value), " cannot be captured"))
      .notes.push_back({mesh.transport.span, "its ranks meet on their hosts"});
}

}  // namespace meshseal::compiler::rules
