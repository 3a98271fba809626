// A model manifest as text: the layout of manifests/models/. What is written reads back as the same manifest, and
// writing that again gives the same text.
#ifndef MESHSEAL_COMPILER_IMPORT_WRITE_MANIFEST_H_
#define MESHSEAL_COMPILER_IMPORT_WRITE_MANIFEST_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/manifest/manifest.h"

namespace meshseal::compiler {

// `comment` is what stands at the top, a line each. Names may hold any UTF-8 text. What some groups of layers differ in
// becomes `overrides` over the largest group. Every group's tensors have the same roles, in the same order.
std::string WriteManifest(const Manifest& manifest, absl::Span<const std::string> comment);

// Everything of `moe` as one line; equal lines, equal groups.
std::string MoeLine(const MoeSpec& moe);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_IMPORT_WRITE_MANIFEST_H_
