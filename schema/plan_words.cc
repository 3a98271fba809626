#include "schema/plan_words.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/format_text.h"
#include "schema/step.h"

namespace meshseal {
namespace {

// With as few digits as read back the same, from six on: the usual ones without an exponent.
template <class T, class Parse>
std::string ShortestText(T value, int most_digits, Parse parse) {
  std::string text;
  for (int digits = 6; digits <= most_digits; ++digits) {
    text = FormatText("%.*g", digits, value);
    T read = 0;
    if (parse(text, &read) && read == value) break;
  }
  return text;
}

}  // namespace

std::string Shown(absl::string_view text) { return absl::Utf8SafeCEscape(text); }

std::string NumberText(float value) { return ShortestText(value, 9, absl::SimpleAtof); }
std::string NumberText(double value) { return ShortestText(value, 17, absl::SimpleAtod); }

std::string CountText(uint64_t count, absl::string_view singular) {
  return absl::StrCat(count, " ", singular, count == 1 ? "" : "s");
}

std::string IntervalText(const Interval& interval) {
  return absl::StrCat("[", interval.first, ",", interval.last, ")");
}

std::string IntervalsText(const Intervals& intervals) {
  if (intervals.empty()) return "none";
  if (intervals.size() > 2) {
    const uint32_t stride = intervals[1].first - intervals[0].first;
    bool regular = true;
    for (size_t i = 0; i < intervals.size(); ++i) {
      regular &= intervals[i].last == intervals[i].first + 1;
      regular &= i == 0 || intervals[i].first - intervals[i - 1].first == stride;
    }
    if (regular) return absl::StrCat(intervals[0].first, ",", intervals[1].first, ",..,", intervals.back().first);
  }
  std::vector<std::string> parts;
  for (size_t i = 0; i < intervals.size() && i < kMostIntervals; ++i) parts.push_back(IntervalText(intervals[i]));
  if (intervals.size() > kMostIntervals) parts.push_back(absl::StrCat(intervals.size() - kMostIntervals, " more"));
  return absl::StrJoin(parts, "+");
}

std::string NumbersText(const Intervals& intervals) {
  if (intervals.empty()) return "none";
  std::vector<std::string> parts;
  for (size_t i = 0; i < intervals.size() && i < kMostIntervals; ++i) {
    const Interval& range = intervals[i];
    parts.push_back(range.last == range.first + 1 ? absl::StrCat(range.first)
                                                  : absl::StrCat(range.first, "-", range.last - 1));
  }
  if (intervals.size() > kMostIntervals) {
    parts.push_back(absl::StrCat("and ", intervals.size() - kMostIntervals, " ranges"));
  }
  return absl::StrJoin(parts, ",");
}

std::string LayersText(const Intervals& layers) {
  const bool one = layers.size() == 1 && layers[0].last == layers[0].first + 1;
  return absl::StrCat(one ? "layer " : "layers ", NumbersText(layers));
}

Intervals LayersOf(const LayerClass& c) {
  Intervals layers;
  for (const LayerRange& range : c.layers) {
    if (range.first < range.last) layers.push_back({range.first, range.last});
  }
  return layers;
}

std::string ActivationText(const Activation& activation) {
  std::vector<std::string> parameters;
  if (activation.alpha != 0) parameters.push_back(absl::StrCat("alpha ", NumberText(activation.alpha)));
  if (activation.limit != 0) parameters.push_back(absl::StrCat("limit ", NumberText(activation.limit)));
  const std::string text = parameters.empty() ? "" : absl::StrCat(" (", absl::StrJoin(parameters, ", "), ")");
  return absl::StrCat(WordOf(activation.kind), text);
}

std::string ShapeText(const TensorClass& tensor) {
  const auto word = [](std::string* out, ShapeAxis axis) { absl::StrAppend(out, WordOf(axis)); };
  return absl::StrCat("[", absl::StrJoin(tensor.shape, ", ", word), "]");
}

std::string OwnersText(const std::vector<ExpertShard>& shards) {
  uint64_t owners = 0;
  for (const ExpertShard& shard : shards) owners = std::max(owners, uint64_t{shard.owner} + 1);
  bool contiguous = true;
  bool round_robin = true;
  for (size_t e = 0; e < shards.size(); ++e) {
    contiguous &= e == 0 || shards[e].owner == shards[e - 1].owner || shards[e].owner == shards[e - 1].owner + 1;
    round_robin &= shards[e].owner == e % std::max<uint64_t>(owners, 1);
  }
  return absl::StrCat(contiguous ? "contiguous" : round_robin ? "round robin" : "listed", " over ", owners);
}

const char* RowsText(RowSet rows) { return rows == RowSet::kOwned ? " owned" : rows == RowSet::kPart ? " part" : ""; }

const char* MnemonicOf(const Step& step) {
  const StepRow* row = FindStep(step.kind);
  return row == nullptr ? "invalid" : row->mnemonic;
}

void AppendTable(const std::vector<std::vector<std::string>>& rows, absl::string_view indent, std::string* text) {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const std::vector<std::string>& row : rows) {
    std::string line(indent);
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&line, row[i], i + 1 < row.size() ? std::string(widths[i] - row[i].size() + 2, ' ') : "");
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(text, line, "\n");
  }
}

}  // namespace meshseal
