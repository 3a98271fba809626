// Rules on what a plan calls things: enumerations, names, origins, stream, prices, fingerprint.
#include <cstdint>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "schema/fingerprint.h"
#include "schema/meaning/rules.h"
#include "schema/utf8.h"

namespace meshseal::meaning {
namespace {

constexpr size_t kLongestName = 1024;

template <class E>
Fault Known(absl::string_view what, E term) {
  if (IsKnown(term)) return std::nullopt;
  return absl::StrCat(std::string(what), " has the value ", static_cast<int>(term), ", which is not in its table");
}

// A term that may be none; the rules below say where it must be.
template <class E>
Fault KnownOrNone(absl::string_view what, E term) {
  return term == E::kInvalid ? Fault() : Known(what, term);
}

Fault KnownDType(absl::string_view what, DType dtype) {
  if (IsKnown(dtype)) return std::nullopt;
  return absl::StrCat(std::string(what), " has the value ", static_cast<int>(dtype), ", which is not in its table");
}

Fault KnownValue(const Value& value) {
  return FirstOf({Known("a value's order", value.order), Known("a value's width", value.width),
                  Known("a value's row set", value.rows), Known("a value's tp placement", value.tp),
                  Known("a value's ep placement", value.ep)});
}

Fault KnownStep(const Step& step) {
  if (FindStep(step.kind) == nullptr) {
    return absl::StrCat("a step's kind has the value ", static_cast<int>(step.kind), ", which is not in its table");
  }
  for (const Collective& collective : step.collectives) {
    if (Fault fault =
            FirstOf({Known("a collective's op", collective.op), Known("a collective's group", collective.group)})) {
      return fault;
    }
  }
  return std::nullopt;
}

Fault KnownTensor(const TensorClass& tensor) {
  if (Fault fault = FirstOf({Known("a tensor's role", tensor.role), KnownDType("a tensor's dtype", tensor.dtype),
                             KnownOrNone("a tensor's layout", tensor.layout)})) {
    return fault;
  }
  for (const ShapeAxis axis : tensor.shape) {
    if (Fault fault = Known("a tensor's axis", axis)) return fault;
  }
  for (const SideTensor& side : tensor.sides) {
    if (Fault fault =
            FirstOf({Known("a side tensor's kind", side.kind), KnownDType("a side tensor's dtype", side.dtype),
                     Known("a scale's application", side.applies), KnownOrNone("a scale's rows", side.of)})) {
      return fault;
    }
  }
  return std::nullopt;
}

Fault KnownRouter(const Router& router) {
  return FirstOf({Known("router.scoring", router.scoring), Known("router.order", router.order),
                  Known("router.renormalize", router.renormalize),
                  KnownOrNone("router.groups.score", router.groups.score),
                  Known("router.weight_applied", router.weight_applied), Known("router.input_dtype", router.input)});
}

Fault KnownLayerClass(const LayerClass& c) {
  if (Fault fault =
          FirstOf({KnownRouter(c.router), Known("activation", c.activation.kind),
                   KnownOrNone("shared_expert.gate", c.shared_expert.gate),
                   KnownOrNone("shared_expert.activation", c.shared_expert.activation.kind),
                   KnownOrNone("shared_expert.placement", c.shared_expert.placement), Known("residual", c.residual),
                   Known("gate_up basis", c.gate_up_basis), Known("down basis", c.down_basis)})) {
    return fault;
  }
  for (const TensorClass& tensor : c.tensors) {
    if (Fault fault = KnownTensor(tensor)) return fault;
  }
  for (const Program& program : c.programs) {
    if (Fault fault = FirstOf({Known("a program's phase", program.phase),
                               Known("a program's reduce algorithm", program.reduce_algorithm)})) {
      return fault;
    }
    for (const Value& value : program.values) {
      if (Fault fault = KnownValue(value)) return fault;
    }
    for (const Step& step : program.steps) {
      if (Fault fault = KnownStep(step)) return fault;
    }
  }
  return std::nullopt;
}

Fault PrintableText(absl::string_view what, absl::string_view text) {
  if (text.empty()) return absl::StrCat(std::string(what), " is empty");
  if (text.size() > kLongestName) {
    return absl::StrCat(std::string(what), " has ", text.size(), " bytes, at most ", kLongestName, " are read");
  }
  if (!IsUtf8(text)) return absl::StrCat(std::string(what), " is not UTF-8");
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return absl::StrCat(std::string(what), " has a control character");
    }
  }
  return std::nullopt;
}

}  // namespace

Fault TermsAreKnown(const Plan& plan, const SealFacts&) {
  if (Fault fault = FirstOf({Known("mesh transport", plan.mesh.transport), Known("kv_heads", plan.kv_heads),
                             Known("repack", plan.limits.repack), Known("expert placement", plan.expert_placement),
                             Known("choice of copies", plan.copy_choice), Known("reduction", plan.reduction),
                             Known("output dtype", plan.output), Known("numerics contract", plan.numerics),
                             Known("failure scope", plan.failure_scope), Known("weight source", plan.weight_source)})) {
    return fault;
  }
  for (const DeviceKind& kind : plan.mesh.device_kinds) {
    if (Fault fault = FirstOf({Known("a device's memory kind", kind.memory_kind), Known("a device's ECC", kind.ecc)})) {
      return fault;
    }
  }
  for (const LayerClass& layer_class : plan.layer_classes) {
    if (Fault fault = KnownLayerClass(layer_class)) return fault;
  }
  return std::nullopt;
}

Fault NamesAreText(const Plan& plan, const SealFacts&) {
  if (Fault fault = FirstOf(
          {PrintableText("compiler version", plan.compiler_version), PrintableText("model name", plan.model_name),
           PrintableText("model family", plan.model_family), PrintableText("deployment name", plan.deployment_name),
           PrintableText("mesh name", plan.mesh.name)})) {
    return fault;
  }
  for (const SourceDocument& source : plan.sources) {
    if (Fault fault = PrintableText("a source's name", source.name)) return fault;
  }
  for (const DeviceKind& kind : plan.mesh.device_kinds) {
    if (Fault fault = PrintableText("a device kind's name", kind.name)) return fault;
  }
  for (const std::string* version : {&plan.mesh.transport_version_min, &plan.mesh.transport_version_max}) {
    if (version->empty()) continue;
    if (Fault fault = PrintableText("a transport's version", *version)) return fault;
  }
  for (const Node& node : plan.mesh.nodes) {
    if (Fault fault = PrintableText("a node's name", node.name)) return fault;
    for (const std::string& device : node.identity) {
      if (Fault fault = PrintableText("a device's identity", device)) return fault;
    }
  }
  for (const std::string& pattern : plan.ignored_tensors) {
    if (Fault fault = PrintableText("an ignored pattern", pattern)) return fault;
  }
  for (const LayerClass& layer_class : plan.layer_classes) {
    for (const TensorClass& tensor : layer_class.tensors) {
      if (Fault fault = PrintableText("a tensor's name", tensor.name)) return fault;
      for (const SideTensor& side : tensor.sides) {
        if (Fault fault = PrintableText("a side tensor's name", side.name)) return fault;
      }
    }
  }
  return std::nullopt;
}

Fault OriginsExist(const Plan& plan, const SealFacts&) {
  // Deployment, model and mesh; a load profile where one was read.
  const size_t documents = plan.expert_placement == ExpertPlacement::kBalanced ? 4 : 3;
  if (plan.sources.size() != documents) {
    return absl::StrCat("the plan names ", plan.sources.size(), " documents, with experts ",
                        WordOf(plan.expert_placement), " it comes from ", documents);
  }
  for (const LayerClass& layer_class : plan.layer_classes) {
    for (const Program& program : layer_class.programs) {
      for (const Step& step : program.steps) {
        if (step.origin.source >= plan.sources.size()) {
          return absl::StrCat("a step comes from document ", step.origin.source, ", the plan names ",
                              plan.sources.size());
        }
        if (step.origin.line == 0) return std::string("a step comes from line 0, lines start at 1");
      }
    }
  }
  return std::nullopt;
}

Fault StreamIsDeployment(const Plan& plan, const SealFacts& facts) {
  if (facts.stream == StreamOf(plan.deployment_name)) return std::nullopt;
  return absl::StrCat("the seal's stream is not that of deployment '", plan.deployment_name, "'");
}

Fault PricesHaveTwoRows(const Plan& plan, const SealFacts&) {
  if (plan.prices.empty()) return std::nullopt;
  if (plan.prices.size() != 2) return absl::StrCat(plan.prices.size(), " prices, expected one for each of 2 phases");
  const auto tokens = [](const char* phase, uint32_t found, uint32_t expected) -> Fault {
    if (found == expected) return std::nullopt;
    return absl::StrCat("the price of ", phase, " is for ", found, " tokens, the limits say ", expected);
  };
  return FirstOf({tokens("decode", plan.prices[0].tokens, plan.limits.decode_tokens),
                  tokens("prefill", plan.prices[1].tokens, plan.limits.prefill_chunk)});
}

Fault FingerprintHolds(const Plan& plan, const SealFacts&) {
  const Sha256Digest fingerprint = ExecutionFingerprint(plan);
  if (fingerprint == plan.execution_fingerprint) return std::nullopt;
  return absl::StrCat("sealed fingerprint ", HexOf(plan.execution_fingerprint), ", the plan's is ", HexOf(fingerprint));
}

}  // namespace meshseal::meaning
