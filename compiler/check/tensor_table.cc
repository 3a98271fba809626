#include "compiler/check/tensor_table.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/check/role.h"
#include "compiler/check/tensor_classes.h"
#include "schema/atom_bytes.h"
#include "schema/nearest.h"
#include "schema/tensor_name.h"

namespace meshseal::compiler {
namespace {

using Shape = std::vector<uint64_t>;

std::string ShapeText(const Shape& shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

// Digits stand for a number in each name, so that the like of each other are told once.
std::string Collapsed(absl::string_view name) {
  std::string collapsed;
  for (const char c : name) {
    const bool digit = absl::ascii_isdigit(static_cast<unsigned char>(c));
    if (digit && !collapsed.empty() && collapsed.back() == '#') continue;
    collapsed.push_back(digit ? '#' : c);
  }
  return collapsed;
}

// What is known of a shape that differs: stored the other way round, or cut already.
std::string ShapeHint(const Shape& found, const Shape& expected) {
  if (found.size() != expected.size() || found.size() < 1) return "";
  Shape turned = found;
  if (found.size() >= 2) std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
  if (turned == expected && turned != found) return "; the axes are the other way round";
  size_t differing = 0;
  size_t at = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] == expected[i]) continue;
    ++differing;
    at = i;
  }
  if (differing != 1 || found[at] == 0 || expected[at] % found[at] != 0) return "";
  return absl::StrCat("; it looks cut already: ", found[at], " = ", expected[at], " / ", expected[at] / found[at]);
}

class TensorTable {
 public:
  TensorTable(const Manifest& model, const CheckpointListing& files, Diagnostics& diagnostics)
      : model_(model), files_(files), diagnostics_(diagnostics), accounted_(files.tensors().size(), false) {}

  void Check() {
    if (model_.source.value != files_.source()) {
      diagnostics_.Error(
          "source-fits-files", model_.source.span,
          absl::StrCat("weights.source is ", WordOf(model_.source.value), ", the files are ", WordOf(files_.source())));
      return;
    }
    for (const LayerGroup& group : model_.groups) {
      const LayerClass stored = StoredLayersOf(group);
      for (const TensorSpec* tensor : TensorsRead(group.moe)) CheckTensor(group, stored, *tensor);
    }
    Report();
    CheckRest();
    CheckMtpLayers();
  }

 private:
  // Tensors of one row that fail in one way.
  struct Failures {
    std::string who;
    std::string first;
    size_t count = 0;
    StoredForm expected;
    DType found_dtype = DType::kInvalid;
    Shape found_shape;
  };
  enum class Kind : uint8_t { kMissing, kDType, kShape };
  using Key = std::tuple<uint32_t, uint32_t, Kind, std::string>;  // line and column of the row; what was found

  void CheckTensor(const LayerGroup& group, const LayerClass& stored, const TensorSpec& tensor) {
    const MoeSpec& moe = group.moe;
    const bool by_name = RowOf(tensor.role.value).per_expert && !IsStacked(tensor);
    const auto experts = static_cast<uint32_t>(by_name ? moe.experts.value : 1);
    const std::string role = WordOf(tensor.role.value);
    const TensorClass as_stored = TensorClassOf(tensor);
    LayerTensor of = {model_.hidden_size.value, &stored, &as_stored, nullptr};
    CheckNames(group, experts, tensor.name, tensor.dtype.span, tensor.shape.span, role, tensor.role.value,
               StoredForms(of, model_.source.value));
    const std::vector<NamedSide> sides = SidesOf(tensor);
    for (size_t i = 0; i < sides.size(); ++i) {
      const SideTensorSpec& side = *sides[i].side;
      of.side = &as_stored.sides[i];
      CheckNames(group, experts, side.name, side.dtype.span, side.block.has_value() ? side.block->span : side.span,
                 absl::StrCat(role, ".", sides[i].key), TensorRole::kInvalid, StoredForms(of, model_.source.value));
    }
  }

  void CheckNames(const LayerGroup& group, uint32_t experts, const Spanned<std::string>& pattern, Span dtype_span,
                  Span shape_span, const std::string& who, TensorRole role, const std::vector<StoredForm>& ways) {
    uint64_t layers = 0;
    for (const LayerRange& range : group.layers) layers += range.last - range.first;
    if (layers * experts > kMaxListedTensors) {
      diagnostics_.Error("tensor-is-in-files", pattern.span,
                         absl::StrCat("tensor '", who, "' stands for ", layers * experts,
                                      " tensors, a checkpoint has at most ", kMaxListedTensors));
      return;
    }
    for (const LayerRange& range : group.layers) {
      for (uint32_t layer = range.first; layer < range.last; ++layer) {
        for (uint32_t expert = 0; expert < experts; ++expert) {
          const std::string name = TensorName(pattern.value, layer, expert);
          const ListedTensor* found = files_.Find(name);
          if (found == nullptr) {
            Fail(Kind::kMissing, pattern.span, "", who, name).expected = ways.front();
            continue;
          }
          accounted_[static_cast<size_t>(found - files_.tensors().data())] = true;
          Compare(*found, ways, dtype_span, shape_span, who, role, layer);
        }
      }
    }
  }

  void Compare(const ListedTensor& found, const std::vector<StoredForm>& ways, Span dtype_span, Span shape_span,
               const std::string& who, TensorRole role, uint32_t layer) {
    bool dtype_fits = false;
    for (const StoredForm& way : ways) {
      if (way.dtype != found.dtype) continue;
      dtype_fits = true;
      if (IsStoredShape(found.shape, way.shape, files_.source())) return;
    }
    const auto way =
        std::find_if(ways.begin(), ways.end(), [&](const StoredForm& w) { return w.dtype == found.dtype; });
    Failures& failures = dtype_fits
                             ? Fail(Kind::kShape, shape_span, ShapeText(found.shape), who, found.name)
                             : Fail(Kind::kDType, dtype_span, std::string(DTypeName(found.dtype)), who, found.name);
    failures.expected = way == ways.end() ? ways.front() : *way;
    failures.found_dtype = found.dtype;
    failures.found_shape = found.shape;
    if (dtype_fits && role == TensorRole::kRouter && found.shape.size() == 2 && failures.expected.shape.size() == 2 &&
        found.shape[1] == failures.expected.shape[1]) {
      router_rows_[layer] = found.shape[0];
    }
  }

  Failures& Fail(Kind kind, Span span, const std::string& found, const std::string& who, const std::string& name) {
    const Key key{span.line, span.column, kind, found};
    auto [at, inserted] = failures_.emplace(key, std::make_pair(span, Failures{}));
    Failures& failures = at->second.second;
    if (inserted) {
      failures.who = who;
      failures.first = name;
    }
    ++failures.count;
    return failures;
  }

  void Report() {
    for (const auto& [key, entry] : failures_) {
      const auto& [span, f] = entry;
      const std::string which =
          absl::StrCat("'", f.first, "'", f.count == 1 ? "" : absl::StrCat(" and ", f.count - 1, " more"));
      const std::string are = f.count == 1 ? " is " : " are ";
      const std::string who = absl::StrCat("tensor '", f.who, "': ");
      switch (std::get<Kind>(key)) {
        case Kind::kMissing:
          diagnostics_.Error("tensor-is-in-files", span,
                             absl::StrCat(who, "the files have no ", which, NearText(f.first)));
          break;
        case Kind::kDType:
          diagnostics_.Error("tensor-dtype-fits-files", span,
                             absl::StrCat(who, which, are, std::string(DTypeName(f.found_dtype)),
                                          " in the files, expected ", std::string(DTypeName(f.expected.dtype))));
          break;
        case Kind::kShape: {
          Diagnostic& error =
              diagnostics_.Error("tensor-shape-fits-files", span,
                                 absl::StrCat(who, which, are, ShapeText(f.found_shape), " in the files, expected ",
                                              ShapeText(f.expected.shape), ShapeHint(f.found_shape, f.expected.shape)));
          if (f.who == WordOf(TensorRole::kRouter) && !router_rows_.empty()) {
            error.notes.push_back({model_.groups.front().moe.experts.span, ExpertsText()});
          }
          break;
        }
      }
    }
  }

  // The experts of each layer as its router tells them.
  std::string ExpertsText() const {
    std::vector<std::string> rows;
    for (const auto& [layer, experts] : router_rows_) rows.push_back(absl::StrCat(layer, ": ", experts));
    return absl::StrCat("the routers' own counts are experts: {default: ", model_.groups.front().moe.experts.value,
                        ", ", absl::StrJoin(rows, ", "), "}");
  }

  // Among the tensors that no step reads.
  std::string NearText(const std::string& name) const {
    std::vector<absl::string_view> names;
    for (size_t i = 0; i < accounted_.size(); ++i) {
      if (!accounted_[i]) names.emplace_back(files_.tensors()[i].name);
    }
    const std::optional<absl::string_view> nearest = Nearest(name, names);
    return nearest.has_value() ? absl::StrCat("; the nearest one that no step reads is '", std::string(*nearest), "'")
                               : "";
  }

  bool IsIgnored(absl::string_view name) const {
    return std::any_of(model_.ignored.begin(), model_.ignored.end(),
                       [&](const Spanned<std::string>& pattern) { return MatchesPattern(pattern.value, name); });
  }

  void CheckRest() {
    std::map<std::string, std::pair<std::string, size_t>> kinds;
    for (size_t i = 0; i < accounted_.size(); ++i) {
      const std::string& name = files_.tensors()[i].name;
      if (accounted_[i] || IsIgnored(name)) continue;
      const auto [at, inserted] = kinds.emplace(Collapsed(name), std::make_pair(name, 0));
      ++at->second.second;
    }
    for (const auto& [kind, names] : kinds) {
      const auto& [first, count] = names;
      diagnostics_.Error(
          "tensor-is-accounted-for", model_.tensors_span,
          count == 1 ? absl::StrCat("no step reads the files' tensor '", first, "' and no ignored pattern matches it")
                     : absl::StrCat("no step reads the files' tensor '", first, "' and ", count - 1,
                                    " like it, and no ignored pattern matches them"));
    }
  }

  void CheckMtpLayers() {
    const TensorSpec* router = model_.groups.front().moe.FindTensor(TensorRole::kRouter);
    if (router == nullptr) return;
    constexpr absl::string_view kLayer = "{layer}";
    const size_t at = router->name.value.find(kLayer.data(), 0, kLayer.size());
    if (at == std::string::npos) return;
    const auto has = [&](const std::string& prefix) {
      const auto tensors = files_.tensors();
      const auto found = std::lower_bound(tensors.begin(), tensors.end(), prefix,
                                          [](const ListedTensor& t, const std::string& p) { return t.name < p; });
      return found != tensors.end() && absl::StartsWith(found->name, prefix);
    };
    for (uint64_t block = 0; block < model_.mtp_layers.value; ++block) {
      const uint64_t layer = model_.layers.value + block;
      const std::string as_layer = absl::StrCat(router->name.value.substr(0, at), layer, ".");
      const std::string as_mtp = absl::StrCat("mtp.", block, ".");
      if (has(as_layer) || has(as_mtp) || has(absl::StrCat("mtp.layers.", block, "."))) continue;
      diagnostics_
          .Error("mtp-layers-fit-files", model_.mtp_layers.span,
                 absl::StrCat("mtp_layers is ", model_.mtp_layers.value, ", the files have ", block,
                              " such blocks: no tensor begins with '", as_layer, "', '", as_mtp, "' or 'mtp.layers.",
                              block, ".'"))
          .notes.push_back({model_.layers.span, "the model's layers come first"});
      return;
    }
  }

  const Manifest& model_;
  const CheckpointListing& files_;
  Diagnostics& diagnostics_;
  std::vector<bool> accounted_;  // per tensor of the files
  std::map<Key, std::pair<Span, Failures>> failures_;
  std::map<uint32_t, uint64_t> router_rows_;  // by layer, where they are not the manifest's experts
};

}  // namespace

void CheckTensorTable(const Manifest& model, const CheckpointListing& files, Diagnostics& diagnostics) {
  TensorTable(model, files, diagnostics).Check();
}

}  // namespace meshseal::compiler
