// Diagnostics for people (text) and for programs (JSON). Both come sorted and depend on no locale.
#ifndef MESHSEAL_COMPILER_TEXT_RENDER_H_
#define MESHSEAL_COMPILER_TEXT_RENDER_H_

#include <string>

#include "compiler/text/diagnostic.h"

namespace meshseal::compiler {

struct TextOptions {
  bool colour = false;  // ANSI escapes; ask for it only where a terminal reads
};

// Per error or warning: `path:line:column: error: text [rule]`, the source line with a caret, notes, help.
// Bytes that could steer a terminal (control and bidirectional characters, invalid UTF-8) are shown as '?',
// long source lines are cut around the caret. One character is taken to be one cell wide.
std::string RenderText(const Diagnostics& diagnostics, const TextOptions& options = {});

// {"version":1,"diagnostics":[{"severity","rule","file","line","column","length","message","notes":[{"file","line","column",
// "message"}],"help"}]} and a line end. What a diagnostic lacks (location, help) is null; invalid UTF-8
// becomes U+FFFD.
std::string RenderJson(const Diagnostics& diagnostics);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_TEXT_RENDER_H_
