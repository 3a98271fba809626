#include "runtime/program/executed.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/reason.h"

namespace meshseal::runtime {
namespace {

// What is asked for and not executed, each once, in the order in which it was found.
class Lacking {
 public:
  void If(bool asked, const std::string& what) {
    if (asked && std::find(found_.begin(), found_.end(), what) == found_.end()) found_.push_back(what);
  }

  template <class E>
  void Unless(const char* field, E word, std::initializer_list<E> executed) {
    If(std::find(executed.begin(), executed.end(), word) == executed.end(), absl::StrCat(field, " ", WordOf(word)));
  }

  const std::vector<std::string>& found() const { return found_; }

 private:
  std::vector<std::string> found_;
};

void CheckLayers(const LayerClass& c, Lacking& lacking) {
  lacking.Unless("activation_basis.gate_up", c.gate_up_basis, {Basis::kF32, Basis::kBf16, Basis::kF16, Basis::kQ8});
  lacking.Unless("activation_basis.down", c.down_basis, {Basis::kF32, Basis::kBf16, Basis::kF16, Basis::kQ8});
  for (const TensorClass& tensor : c.tensors) {
    lacking.If(tensor.rotation > 0, absl::StrCat("tensor ", WordOf(tensor.role), " with a rotation"));
  }
  for (const Program& program : c.programs) {
    lacking.If(program.index_bits > 32, "values of more than 2^31 - 1 elements");
  }
}

}  // namespace

absl::Status CheckExecuted(const Plan& plan, bool has_devices) {
  Lacking lacking;
  for (const LayerClass& c : plan.layer_classes) CheckLayers(c, lacking);
  lacking.Unless("reduction", plan.reduction, {Reduction::kOrdered, Reduction::kFast, Reduction::kExact});
  lacking.Unless("output_dtype", plan.output, {Basis::kF32, Basis::kBf16, Basis::kF16});
  lacking.If(plan.limits.repack != Repack::kNone, "repacked weights");
  for (const Node& node : plan.mesh.nodes)
    lacking.If(!has_devices && !node.identity.empty(), "devices pinned by identity");
  if (lacking.found().empty()) return absl::OkStatus();
  return Refuse(Reason::kNotBuilt, absl::StrCat("this version does not execute what the plan asks for: ",
                                                absl::StrJoin(lacking.found(), "; ")));
}

}  // namespace meshseal::runtime
