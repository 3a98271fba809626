#include "compiler/driver/layout_search.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/driver/all_degrees.h"
#include "schema/byte_text.h"
#include "schema/format_text.h"

namespace meshseal::compiler {
namespace {

constexpr uint64_t kMostIdle = 15;  // two nodes of eight less one: more idle slots call for another mesh

std::vector<std::string> SlugsOf(const Diagnostics& diagnostics) {
  std::vector<std::string> slugs;
  for (const Diagnostic* error : diagnostics.Sorted()) {
    if (std::find(slugs.begin(), slugs.end(), error->rule) == slugs.end()) slugs.push_back(error->rule);
  }
  return slugs;
}

void Judge(CheckedDocuments candidate, Layout& layout, std::string& unpriced) {
  Deployment& d = candidate.deployment();
  const std::optional<RankTokensSpec> rank_tokens = d.rank_tokens;
  for (const uint64_t dense_tp : Divisors(d.tp.value * d.ep.value)) {
    d.rank_tokens = rank_tokens;
    SetDenseTp(dense_tp, d);
    Diagnostics diagnostics;
    const std::optional<CheckedModel> checked = CheckDeployment(candidate, diagnostics);
    if (!checked.has_value()) {
      if (layout.refused_by.empty()) layout.refused_by = SlugsOf(diagnostics);
      continue;
    }
    layout.refused_by.clear();
    layout.degrees = checked->degrees();
    const Placement placement = Place(*checked);
    const std::optional<MemoryPlan> memory = Budget(*checked, placement, diagnostics);
    if (!memory.has_value()) {
      layout.refused_by = SlugsOf(diagnostics);
      return;
    }
    for (const RankMemory& rank : memory->ranks()) {
      if (rank.total < layout.largest_rank) continue;
      layout.largest_rank = rank.total;
      layout.budget = rank.budget;
    }
    Pricing pricing = PriceOf(*checked, placement, *memory);
    layout.price = pricing.price;
    unpriced = pricing.missing;
    return;
  }
}

// All degrees of `world` ranks.
std::vector<Layout> LayoutsOf(const CheckedDocuments& documents, uint64_t world, uint64_t idle, std::string& unpriced) {
  std::vector<Layout> layouts;
  CheckedDocuments candidate = documents;
  Deployment& d = candidate.deployment();
  d.idle.value = idle;
  ForAllDegrees(world, d, [&] {
    Layout layout;
    layout.idle = idle;
    layout.degrees = {static_cast<uint32_t>(d.dp.value), static_cast<uint32_t>(d.pp.value),
                      static_cast<uint32_t>(d.tp.value), static_cast<uint32_t>(d.ep.value),
                      static_cast<uint32_t>(d.tp.value * d.ep.value)};
    Judge(candidate, layout, unpriced);
    layouts.push_back(std::move(layout));
  });
  return layouts;
}

auto RankOf(const Layout& layout) {
  const uint64_t decode = layout.price.has_value() ? layout.price->decode.nanoseconds : 0;
  return std::make_tuple(!layout.refused_by.empty(), layout.idle, decode, layout.largest_rank);
}

double Milliseconds(const StepPrice& price) { return static_cast<double>(price.nanoseconds) * 1e-6; }

std::string DegreesText(const Layout& layout) {
  const Degrees& d = layout.degrees;
  return FormatText("%4d %4d %4d %4d %8d %5d", d.dp, d.pp, d.tp, d.ep, d.dense_tp, layout.idle);
}

}  // namespace

LayoutSearch FindLayouts(const CheckedDocuments& documents) {
  LayoutSearch search;
  const uint64_t slots = documents.mesh().SlotCount();
  const auto legal = [](const Layout& layout) { return layout.refused_by.empty(); };
  const uint64_t most_idle = documents.mesh().emulated.value ? 0 : std::min(slots - 1, kMostIdle);
  for (uint64_t idle = 0; idle <= most_idle; ++idle) {
    std::vector<Layout> layouts = LayoutsOf(documents, slots - idle, idle, search.unpriced);
    const bool found = std::any_of(layouts.begin(), layouts.end(), legal);
    search.layouts.insert(search.layouts.end(), layouts.begin(), layouts.end());
    if (found) break;
  }
  std::stable_sort(search.layouts.begin(), search.layouts.end(),
                   [](const Layout& a, const Layout& b) { return RankOf(a) < RankOf(b); });
  return search;
}

std::string LayoutText(const LayoutSearch& search, size_t most, bool refused) {
  const auto end_of_legal = std::find_if(search.layouts.begin(), search.layouts.end(),
                                         [](const Layout& layout) { return !layout.refused_by.empty(); });
  const auto legal = static_cast<size_t>(end_of_legal - search.layouts.begin());
  std::string text = "  dp   pp   tp   ep dense.tp  idle  largest rank of its budget   decode step  prefill chunk\n";
  for (size_t i = 0; i < std::min(legal, most); ++i) {
    const Layout& layout = search.layouts[i];
    AppendFormat(&text, "%s  %12s of %10s", DegreesText(layout), ByteText(layout.largest_rank),
                 ByteText(layout.budget));
    if (layout.price.has_value()) {
      AppendFormat(&text, "  %9.3f ms   %9.3f ms\n", Milliseconds(layout.price->decode),
                   Milliseconds(layout.price->prefill));
    } else {
      AppendFormat(&text, "  %12s   %12s\n", "-", "-");
    }
  }
  if (legal > most) absl::StrAppend(&text, "and ", legal - most, " more\n");
  absl::StrAppend(&text, legal, " of ", search.layouts.size(), " layouts hold every rule\n");
  if (!search.unpriced.empty()) absl::StrAppend(&text, "no prices: ", search.unpriced, "\n");
  if (refused) {
    for (size_t i = legal; i < search.layouts.size(); ++i) {
      absl::StrAppend(&text, DegreesText(search.layouts[i]),
                      "  refused: ", absl::StrJoin(search.layouts[i].refused_by, ", "), "\n");
    }
  }
  if (search.unpriced.empty()) {
    absl::StrAppend(&text, "times are predicted, not measured:\n");
    for (const std::string& assumption : PriceAssumptions()) absl::StrAppend(&text, "  ", assumption, "\n");
  }
  return text;
}

}  // namespace meshseal::compiler
