// Rules on layer classes: their layers, sizes, router and tensors.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/meaning/rules.h"

namespace meshseal::meaning {
namespace {

// Far above any model, low enough that products of three stay inside 64 bits.
constexpr uint32_t kLargestSize = 1u << 20;
constexpr uint32_t kMostLayers = 1u << 16;

// The axes of a role's tensor, as its product reads it: output rows first. A tensor per expert has no experts axis.
std::vector<ShapeAxis> AxesOf(TensorRole role) {
  switch (role) {
    case TensorRole::kRouter:
      return {ShapeAxis::kExperts, ShapeAxis::kHidden};
    case TensorRole::kGate:
    case TensorRole::kUp:
      return {ShapeAxis::kIntermediate, ShapeAxis::kHidden};
    case TensorRole::kDown:
      return {ShapeAxis::kHidden, ShapeAxis::kIntermediate};
    default:  // TensorsAreComplete refuses every other role
      break;
  }
  return {};
}

// The types that the projections of this format read.
bool IsProjected(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16; }

Fault CheckSize(const char* what, uint32_t size, uint32_t most) {
  if (size >= 1 && size <= most) return std::nullopt;
  return absl::StrCat(what, " ", size, ", expected 1 to ", most);
}

size_t Occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

Fault LayersAreCoveredOnce(const Plan& plan, const SealFacts&) {
  if (plan.layer_classes.empty()) return std::string("the plan has no MoE layer");
  std::vector<LayerRange> all;
  uint32_t previous_first = 0;
  for (size_t i = 0; i < plan.layer_classes.size(); ++i) {
    const std::vector<LayerRange>& layers = plan.layer_classes[i].layers;
    if (layers.empty()) return absl::StrCat("layer class ", i, " has no layer");
    if (i > 0 && layers.front().first <= previous_first) return absl::StrCat("layer class ", i, " is out of order");
    previous_first = layers.front().first;
    for (size_t j = 0; j < layers.size(); ++j) {
      if (layers[j].first >= layers[j].last || layers[j].last > plan.layers) {
        return absl::StrCat("layers [", layers[j].first, ",", layers[j].last, ") of a model with ", plan.layers);
      }
      if (j > 0 && layers[j].first <= layers[j - 1].last) {
        return absl::StrCat("layer range [", layers[j].first, ",", layers[j].last, ") touches the one before it");
      }
    }
    all.insert(all.end(), layers.begin(), layers.end());
  }
  std::sort(all.begin(), all.end(), [](const LayerRange& a, const LayerRange& b) { return a.first < b.first; });
  for (size_t i = 1; i < all.size(); ++i) {
    if (all[i].first < all[i - 1].last) return absl::StrCat("layer ", all[i].first, " is in two classes");
  }
  return std::nullopt;
}

Fault SizesAreSane(const Plan& plan, const SealFacts&) {
  if (Fault fault = CheckSize("hidden", plan.hidden, kLargestSize)) return fault;
  if (Fault fault = CheckSize("layers", plan.layers, kMostLayers)) return fault;
  for (const LayerClass& c : plan.layer_classes) {
    if (Fault fault = CheckSize("experts", c.experts, kLargestSize)) return fault;
    if (Fault fault = CheckSize("intermediate", c.intermediate, kLargestSize)) return fault;
    if (Fault fault = CheckSize("top_k", c.top_k, c.experts)) return fault;
  }
  return std::nullopt;
}

Fault RouterIsCoherent(const Plan& plan, const SealFacts&) {
  for (const LayerClass& c : plan.layer_classes) {
    if (!std::isfinite(c.router.scale) || c.router.scale <= 0) {
      return absl::StrCat("routed scale ", c.router.scale, ", expected a finite number above 0");
    }
  }
  return std::nullopt;
}

Fault TensorsAreComplete(const Plan& plan, const SealFacts&) {
  size_t moe_layers = 0;
  for (const LayerClass& c : plan.layer_classes) {
    for (const LayerRange& range : c.layers) moe_layers += range.last - range.first;
  }
  for (const LayerClass& c : plan.layer_classes) {
    std::vector<TensorRole> roles;
    std::set<std::string> names;
    for (const TensorClass& tensor : c.tensors) {
      roles.push_back(tensor.role);
      if (!IsProjected(tensor.dtype)) {
        return absl::StrCat("tensor '", tensor.name, "' has dtype ", std::string(DTypeName(tensor.dtype)),
                            ", which no product reads");
      }
      if (tensor.shape != AxesOf(tensor.role)) {
        return absl::StrCat("tensor '", tensor.name, "' has other axes than role ", WordOf(tensor.role), " reads");
      }
      const size_t wanted = tensor.role == TensorRole::kRouter ? 0 : 1;
      if (Occurrences(tensor.name, "{expert}") != wanted) {
        return absl::StrCat("the name of tensor '", tensor.name, "' has {expert} ",
                            Occurrences(tensor.name, "{expert}"), " times, expected ", wanted);
      }
      const size_t by_layer = Occurrences(tensor.name, "{layer}");
      if (by_layer > 1 || (by_layer == 0 && moe_layers > 1)) {
        return absl::StrCat("the name of tensor '", tensor.name, "' has {layer} ", by_layer, " times, expected 1");
      }
      if (!names.insert(tensor.name).second) return absl::StrCat("two roles read tensor '", tensor.name, "'");
    }
    const std::vector<TensorRole> expected = {TensorRole::kRouter, TensorRole::kGate, TensorRole::kUp,
                                              TensorRole::kDown};
    if (roles != expected) return std::string("the roles of the tensors are not router, gate, up, down, each once");
  }
  return std::nullopt;
}

}  // namespace meshseal::meaning
