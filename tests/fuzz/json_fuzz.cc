// One text as a load profile and as the index of a sharded checkpoint.
#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "schema/load_profile.h"
#include "schema/reason.h"
#include "schema/safetensors_index.h"
#include "tests/fuzz/change_text.h"
#include "tests/fuzz/fuzz_target.h"

namespace meshseal::fuzz {
namespace {

void TryLoadProfile(absl::string_view text) {
  const absl::StatusOr<LoadProfile> profile = ParseLoadProfile("fuzz.json", text);
  if (!profile.ok()) {
    Expect(ReasonOf(profile.status()) == Reason::kLoadProfile, "another reason");
    return;
  }
  const absl::StatusOr<LoadProfile> again = ParseLoadProfile("fuzz.json", LoadProfileText(*profile));
  Expect(again.ok() && *again == *profile, "a profile is written as another one");
  ++accepted;
}

void TryIndex(absl::string_view text) {
  const absl::StatusOr<SafetensorsIndex> index = ParseSafetensorsIndex("fuzz.json", text);
  if (!index.ok()) {
    Expect(ReasonOf(index.status()) == Reason::kWeightsHeader, "another reason");
    return;
  }
  Expect(!index->entries.empty() && index->files.size() <= kMaxShards, "no tensors, or too many files");
  for (const std::string& file : index->files) {
    Expect(
        !file.empty() && file != "." && file != ".." && !absl::StrContains(file, '/') && !absl::StrContains(file, '\0'),
        "a file outside the folder");
  }
  for (size_t i = 0; i < index->entries.size(); ++i) {
    Expect(index->entries[i].file < index->files.size(), "an entry without a file");
    Expect(i == 0 || index->entries[i - 1].name < index->entries[i].name, "entries are not sorted");
  }
  ++accepted;
}

}  // namespace
}  // namespace meshseal::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  return meshseal::fuzz::ChangeText(data, size, max_size, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text = meshseal::fuzz::TextOf(data, size);
  meshseal::fuzz::TryLoadProfile(text);
  meshseal::fuzz::TryIndex(text);
  return 0;
}
