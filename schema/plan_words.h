// Pieces of text that listings and comparisons of plans share. Whatever a plan holds can be printed: also one that a
// gate refused.
#ifndef MESHSEAL_SCHEMA_PLAN_WORDS_H_
#define MESHSEAL_SCHEMA_PLAN_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schema/intervals.h"
#include "schema/plan.h"

namespace meshseal {

// Lists of this many intervals are printed whole.
inline constexpr size_t kMostIntervals = 8;

// The item at an index that a refused plan may have wrong; null where there is none.
template <class T>
const T* At(const std::vector<T>& items, size_t index) {
  return index < items.size() ? &items[index] : nullptr;
}

// Names of a refused plan may be any bytes.
std::string Shown(absl::string_view text);

// The shortest text that reads back as the same number: "2.5", "1e-20".
std::string NumberText(float value);
std::string NumberText(double value);

// "1 rank", "2 ranks".
std::string CountText(uint64_t count, absl::string_view singular);

// "[0,32)", "[0,3)+[6,9)", "0,4,..,28" for single numbers at equal distances, "none"; cut when there are many.
std::string IntervalsText(const Intervals& intervals);
std::string IntervalText(const Interval& interval);

// "0-2,4": inclusive, cut when there are many.
std::string NumbersText(const Intervals& intervals);

// "layers 0-2,4", "layer 3"; cut when there are many.
std::string LayersText(const Intervals& layers);
Intervals LayersOf(const LayerClass& c);

// "swiglu", "swiglu_oai (alpha 1.702, limit 7)".
std::string ActivationText(const Activation& activation);

// "[experts, hidden]", as the file names them.
std::string ShapeText(const TensorClass& tensor);

// "contiguous over 4", when the experts of each ep coordinate are one run after the other's; "round robin over 4".
std::string OwnersText(const std::vector<ExpertShard>& shards);

// "", " owned", " part": after the word of a value's order.
const char* RowsText(RowSet rows);

const char* MnemonicOf(const Step& step);

// Lines with aligned columns, each after `indent`.
void AppendTable(const std::vector<std::vector<std::string>>& rows, absl::string_view indent, std::string* text);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_PLAN_WORDS_H_
