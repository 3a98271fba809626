// What the compiler has to say about its input, as values. Printing is render.h's job.
#ifndef MESHSEAL_COMPILER_TEXT_DIAGNOSTIC_H_
#define MESHSEAL_COMPILER_TEXT_DIAGNOSTIC_H_

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/text/source.h"

namespace meshseal::compiler {

// A second place that explains an error. Texts are one line each.
struct Note {
  Span span;
  std::string text;
};

struct Diagnostic {
  Span span;
  std::string rule;  // the slug, for people's scripts: never renamed
  std::string text;
  std::vector<Note> notes;
  std::string help;      // what to do; empty unless it was computed against every rule
  bool warning = false;  // nothing is refused for it
};

// Collects the errors and warnings of one run. Not thread-safe.
class Diagnostics {
 public:
  // Adds an error. The reference stays valid while more are added; notes and help are put on it.
  Diagnostic& Error(absl::string_view rule_slug, Span span, std::string text);

  // Adds what a user should know although every rule holds; no error, and not counted as one.
  Diagnostic& Warning(absl::string_view rule_slug, Span span, std::string text);

  bool ok() const { return errors_.empty(); }
  size_t size() const { return errors_.size(); }
  // In the order they came; help that needs all of them is put on afterwards.
  std::deque<Diagnostic>& errors() { return errors_; }
  bool has_warnings() const { return !warnings_.empty(); }
  // Errors and warnings by path, line, column, rule and text; equal ones stay in the order they came, duplicates are
  // kept.
  std::vector<const Diagnostic*> Sorted() const;

 private:
  std::deque<Diagnostic> errors_;
  std::deque<Diagnostic> warnings_;
};

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_TEXT_DIAGNOSTIC_H_
