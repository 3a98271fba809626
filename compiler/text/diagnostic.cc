#include "compiler/text/diagnostic.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace meshseal::compiler {
namespace {

auto SortKey(const Diagnostic& error) {
  const absl::string_view path = error.span.file == nullptr ? "" : absl::string_view(error.span.file->path());
  return std::make_tuple(path, error.span.line, error.span.column, absl::string_view(error.rule),
                         absl::string_view(error.text));
}

}  // namespace

Diagnostic& Diagnostics::Error(absl::string_view rule_slug, Span span, std::string text) {
  errors_.push_back(Diagnostic{span, std::string(rule_slug), std::move(text), {}, "", false});
  return errors_.back();
}

Diagnostic& Diagnostics::Warning(absl::string_view rule_slug, Span span, std::string text) {
  warnings_.push_back(Diagnostic{span, std::string(rule_slug), std::move(text), {}, "", true});
  return warnings_.back();
}

std::vector<const Diagnostic*> Diagnostics::Sorted() const {
  std::vector<const Diagnostic*> sorted;
  sorted.reserve(errors_.size() + warnings_.size());
  for (const Diagnostic& error : errors_) sorted.push_back(&error);
  for (const Diagnostic& warning : warnings_) sorted.push_back(&warning);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Diagnostic* a, const Diagnostic* b) { return SortKey(*a) < SortKey(*b); });
  return sorted;
}

}  // namespace meshseal::compiler
