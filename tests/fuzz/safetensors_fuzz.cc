// A safetensors file of any bytes: refused, or its tensors fill the data without gap and overlap and can be read.
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "schema/reason.h"
#include "schema/safetensors.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/scratch_file.h"

namespace meshseal::fuzz {
namespace {

void TryFile(absl::string_view bytes) {
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(ScratchFile("model.safetensors", bytes));
  if (!file.ok()) {
    Expect(ReasonOf(file.status()).has_value() && ReasonOf(file.status()) != Reason::kBug,
           "a refusal without a reason");
    return;
  }
  std::vector<TensorEntry> entries(file->entries().begin(), file->entries().end());
  Expect(std::is_sorted(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name <= b.name; }),
         "entries are not sorted, or one is there twice");
  for (const TensorEntry& entry : entries) {
    Expect(entry.begin <= entry.end && entry.end <= bytes.size(), "a tensor lies outside the file");
    std::vector<std::byte> data(entry.end - entry.begin);
    Expect(file->Read(entry.begin, absl::MakeSpan(data)).ok(), "a tensor cannot be read");
    Expect(file->Find(entry.name).ok(), "a tensor is not found");
  }
  std::sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  for (size_t i = 1; i < entries.size(); ++i) Expect(entries[i - 1].end == entries[i].begin, "a gap or an overlap");
  Expect(entries.empty() || entries.back().end == bytes.size(), "bytes behind the last tensor");
  ++accepted;
}

}  // namespace
}  // namespace meshseal::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  meshseal::fuzz::TryFile(meshseal::fuzz::TextOf(data, size));
  return 0;
}
