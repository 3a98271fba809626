// A checkpoint's own facts, imported: a GGUF file, or a config.json and, after a line "%%%%", a hf_quant_config.json.
// What comes out is a model that holds every rule, errors that can be shown, or a refusal.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "compiler/import/import_model.h"
#include "compiler/text/render.h"
#include "schema/reason.h"
#include "tests/fuzz/change_text.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/scratch_file.h"

namespace meshseal::fuzz {
namespace {

constexpr absl::string_view kMark = "%%%%\n";
constexpr absl::string_view kGguf = "GGUF";

void Judge(const absl::StatusOr<compiler::ImportResult>& result) {
  if (!result.ok()) {
    const std::optional<Reason> reason = ReasonOf(result.status());
    Expect(reason.has_value() && reason != Reason::kBug, std::string(result.status().message()));
    return;
  }
  Expect(!result->text.empty(), "no model");
  if (!result->diagnostics.ok()) {
    Expect(!RenderText(result->diagnostics).empty(), "errors without a text");
    return;
  }
  ++accepted;
}

void TryConfig(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(kMark, 1));
  ScratchFile("config.json", parts[0]);
  if (parts.size() > 1) {
    ScratchFile("hf_quant_config.json", parts[1]);
  } else {
    std::filesystem::remove(ScratchFolder() / "hf_quant_config.json");
  }
  Judge(compiler::ImportHf(ScratchFolder().string(), /*config_only=*/true));
}

}  // namespace
}  // namespace meshseal::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  if (absl::StartsWith(meshseal::fuzz::TextOf(data, size), meshseal::fuzz::kGguf)) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  return meshseal::fuzz::ChangeText(data, size, max_size, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace meshseal;
  const absl::string_view bytes = fuzz::TextOf(data, size);
  if (absl::StartsWith(bytes, fuzz::kGguf)) {
    fuzz::Judge(compiler::ImportGguf({fuzz::ScratchFile("model.gguf", bytes)}));
  } else {
    fuzz::TryConfig(bytes);
  }
  return 0;
}
