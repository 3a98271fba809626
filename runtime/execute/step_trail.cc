#include "runtime/execute/step_trail.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace meshseal::runtime {

void StepTrail::Enter(uint32_t layer, uint32_t step, const char* mnemonic) {
  marks_[entered_ % marks_.size()] = {layer, step, mnemonic};
  ++entered_;
}

std::string StepTrail::Text() const {
  if (entered_ == 0) return "nothing";
  std::string text;
  for (uint64_t back = 1; back <= std::min<uint64_t>(entered_, marks_.size()); ++back) {
    const Mark& mark = marks_[(entered_ - back) % marks_.size()];
    absl::StrAppend(&text, back == 1 ? "" : ", ", "layer ", mark.layer, " step ", mark.step, " ", mark.mnemonic);
  }
  return text;
}

}  // namespace meshseal::runtime
