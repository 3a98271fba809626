// A GGUF file of any bytes: refused, or its tensors lie in the file one after the other and can be read, and every key
// has a value of one type or says why not.
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "schema/gguf.h"
#include "schema/reason.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/scratch_file.h"

namespace meshseal::fuzz {
namespace {

void TryMetadata(const GgufMetadata& metadata) {
  for (const std::string& key : metadata.Keys()) {
    Expect(metadata.Has(key) && !metadata.TypeOf(key).empty(), "a key without a value");
    const auto holds = [](const auto& value) {
      Expect(value.ok() ? value->has_value() : ReasonOf(value.status()) == Reason::kWeightsHeader,
             "a key without a value");
      return value.ok() ? 1 : 0;
    };
    const int types = holds(metadata.Text(key)) + holds(metadata.Unsigned(key)) + holds(metadata.Number(key)) +
                      holds(metadata.Bool(key)) + holds(metadata.Unsigneds(key)) + holds(metadata.Numbers(key));
    Expect(types <= 1, "a value of two types");
  }
}

void TryFile(absl::string_view bytes) {
  const absl::StatusOr<GgufFile> file = GgufFile::Open(ScratchFile("model.gguf", bytes));
  if (!file.ok()) {
    Expect(ReasonOf(file.status()).has_value() && ReasonOf(file.status()) != Reason::kBug,
           "a refusal without a reason");
    return;
  }
  TryMetadata(file->metadata());
  std::vector<TensorEntry> entries(file->entries().begin(), file->entries().end());
  Expect(std::is_sorted(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name <= b.name; }),
         "entries are not sorted, or one is there twice");
  for (const TensorEntry& entry : entries) {
    Expect(entry.begin <= entry.end && entry.end <= bytes.size(), "a tensor lies outside the file");
    Expect(entry.begin % file->alignment() == 0, "a tensor is not aligned");
    std::vector<std::byte> data(entry.end - entry.begin);
    Expect(file->Read(entry.begin, absl::MakeSpan(data)).ok(), "a tensor cannot be read");
    Expect(file->Find(entry.name).ok(), "a tensor is not found");
  }
  std::sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  for (size_t i = 1; i < entries.size(); ++i) Expect(entries[i - 1].end <= entries[i].begin, "two tensors overlap");
  ++accepted;
}

}  // namespace
}  // namespace meshseal::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  meshseal::fuzz::TryFile(meshseal::fuzz::TextOf(data, size));
  return 0;
}
