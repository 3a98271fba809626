#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/manifest/read_manifest.h"
#include "compiler/manifest/typed_fields.h"
#include "compiler/yaml/scalar.h"

namespace meshseal::compiler {
namespace {

constexpr uint64_t kMostTokens = uint64_t{1} << 24;
constexpr uint64_t kMostSessions = uint64_t{1} << 20;

void ReadParallel(TypedFields& document, Deployment& deployment) {
  std::optional<TypedFields> fields = document.Map("parallel");
  if (!fields.has_value()) return;
  deployment.parallel_span = fields->span();
  deployment.dp = fields->Unsigned("dp", 1, kMostRanks);
  deployment.pp = fields->Unsigned("pp", 1, kMostRanks);
  deployment.tp = fields->Unsigned("tp", 1, kMostRanks);
  deployment.ep = fields->Unsigned("ep", 1, kMostRanks);
  if (fields->OptionalNode("idle") != nullptr) deployment.idle = fields->Unsigned("idle", 0, kMostRanks);
  if (std::optional<TypedFields> dense = fields->Map("dense")) {
    deployment.dense_tp = dense->Unsigned("tp", 1, kMostRanks);
    if (const YamlNode* policy = dense->OptionalNode("kv_heads")) {
      deployment.kv_heads = static_cast<KvHeads>(dense->TermIn(*policy, "kv_heads", Terms<KvHeads>()));
    }
    dense->Finish();
  }
  fields->Finish();
}

void ReadPlacement(TypedFields& document, Deployment& deployment) {
  std::optional<TypedFields> fields = document.Map("placement");
  if (!fields.has_value()) return;
  deployment.placement_span = fields->span();
  Choice<ExpertPlacement> experts = fields->TermOrMap<ExpertPlacement>("experts", {ExpertPlacement::kBalanced});
  deployment.placement = experts.word;
  if (experts.parameters.has_value()) {
    deployment.profile = experts.parameters->Text("profile");
    experts.parameters->Finish();
  }
  fields->Node("uneven");
  deployment.uneven_experts = fields->OptionalAllow("uneven");
  deployment.uneven_cuts = fields->OptionalAllow("uneven_cuts");
  if (fields->OptionalNode("redundant_experts") != nullptr) {
    deployment.redundant_experts = fields->Unsigned("redundant_experts", 0, kMostRanks);
  }
  fields->Finish();
}

void ReadStages(TypedFields& document, Deployment& deployment) {
  const YamlNode* node = document.Node("stages");
  if (node == nullptr) return;
  if (node->list() != nullptr) {
    deployment.stages = document.Unsigneds("stages", 1, kMostRanks);
    return;
  }
  const auto word = ReadText(*node, "deployment.stages", document.diagnostics());
  if (word.has_value() && *word != "balanced") {
    document.diagnostics().Error("unknown-value", node->span(),
                                 absl::StrCat("deployment.stages: unknown value '", *word,
                                              "', expected 'balanced' or layers per stage such as [12, 12]"));
  }
}

void ReadLimits(TypedFields& document, Deployment& deployment) {
  std::optional<TypedFields> fields = document.Map("limits");
  if (!fields.has_value()) return;
  deployment.decode_tokens = fields->Unsigned("decode_tokens", 1, kMostTokens);
  deployment.decode_buckets = fields->Unsigneds("decode_buckets", 1, kMostTokens);
  deployment.prefill_tokens = fields->Unsigned("prefill_tokens", 1, kMostTokens);
  deployment.prefill_chunk = fields->Unsigned("prefill_chunk", 1, kMostTokens);
  if (fields->OptionalNode("rank_tokens") != nullptr) {
    if (std::optional<TypedFields> rank = fields->Map("rank_tokens")) {
      RankTokensSpec tokens;
      tokens.span = rank->span();
      tokens.decode = rank->Unsigned("decode", 1, kMostTokens);
      tokens.prefill = rank->Unsigned("prefill", 1, kMostTokens);
      rank->Finish();
      deployment.rank_tokens = tokens;
    }
  }
  deployment.sessions = fields->Unsigned("sessions", 1, kMostSessions);
  deployment.per_session = fields->Bytes("per_session");
  fields->Finish();
}

// `repack: none`, or how weights become the form that a backend computes with.
void ReadRepack(TypedFields& document, Deployment& deployment) {
  const YamlNode* node = document.OptionalNodeOrNone("repack");
  if (node == nullptr) return;
  TypedFields fields = document.In(*node, "repack");
  if (const YamlNode* by = fields.Node("by")) {
    constexpr meshseal::Term kUnits[] = {{static_cast<uint8_t>(Repack::kByExpert), "expert"},
                                         {static_cast<uint8_t>(Repack::kByTensor), "tensor"}};
    deployment.repack = {static_cast<Repack>(fields.TermIn(*by, "by", kUnits)), node->span()};
  }
  deployment.repacked = fields.Bytes("kept");
  fields.Finish();
}

void ReadBasis(TypedFields& document, Deployment& deployment) {
  std::optional<TypedFields> fields = document.Map("activation_basis");
  if (!fields.has_value()) return;
  const auto basis_of = [&](absl::string_view projection) {
    return fields->Term<Basis>(projection, {Basis::kF32, Basis::kBf16, Basis::kQ8, Basis::kRotated});
  };
  deployment.gate_up_basis = basis_of("gate_up");
  deployment.down_basis = basis_of("down");
  fields->Finish();
}

std::string NameOf(const SourceFile& file) {
  const std::string base(file.base_name());
  return base.substr(0, base.rfind('.'));
}

}  // namespace

std::optional<Deployment> ReadDeployment(const SourceFile& file, const YamlNode& root, Diagnostics& diagnostics) {
  const size_t before = diagnostics.size();
  Deployment deployment;
  deployment.file = &file;
  deployment.name = NameOf(file);
  TypedFields document(root, "", diagnostics);
  document.Node("meshseal");
  if (std::optional<TypedFields> fields = document.Map("deployment")) {
    deployment.model_path = fields->Text("model");
    deployment.mesh_path = fields->Text("mesh");
    ReadParallel(*fields, deployment);
    ReadPlacement(*fields, deployment);
    if (fields->OptionalNode("shared_expert") != nullptr) {
      deployment.shared_expert = fields->Term<SharedPlacement>("shared_expert");
    }
    ReadStages(*fields, deployment);
    ReadLimits(*fields, deployment);
    deployment.headroom = fields->Bytes("headroom");
    if (fields->OptionalNode("capture") != nullptr) deployment.capture = fields->Bytes("capture");
    ReadRepack(*fields, deployment);
    Choice<Reduction> reduction = fields->TermOrMap<Reduction>("reduction", {Reduction::kExact});
    deployment.reduction = reduction.word;
    if (reduction.parameters.has_value()) {
      deployment.exact_bound = reduction.parameters->Number("bound");
      deployment.exact_segments = reduction.parameters->Unsigned("segments", 1, kMostRanks);
      if (reduction.parameters->OptionalNode("shared_segments") != nullptr) {
        deployment.exact_shared_segments = reduction.parameters->Unsigned("shared_segments", 1, kMostRanks);
      }
      reduction.parameters->Finish();
    }
    ReadBasis(*fields, deployment);
    deployment.output_dtype = fields->Term<Basis>("output_dtype", {Basis::kF32, Basis::kBf16, Basis::kF16});
    deployment.failure_scope = fields->Term<FailureScope>("failure_scope");
    fields->Finish();
  }
  document.Finish();
  if (diagnostics.size() != before) return std::nullopt;
  return deployment;
}

}  // namespace meshseal::compiler
