// The files of a keyring folder as one text: a line "%% NAME" before each file. What is accepted trusts no key id
// twice.
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "schema/keyring.h"
#include "schema/reason.h"
#include "tests/fuzz/fuzz_target.h"

namespace meshseal::fuzz {
namespace {

constexpr absl::string_view kMark = "%% ";

std::vector<KeyringFile> FilesOf(absl::string_view text) {
  std::vector<KeyringFile> files;
  for (const absl::string_view part : absl::StrSplit(text, kMark, absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> split = absl::StrSplit(part, absl::MaxSplits('\n', 1));
    files.push_back({std::string(split.first), std::string(split.second)});
  }
  return files;
}

void TryKeyring(const std::vector<KeyringFile>& files) {
  std::set<std::string> names;
  for (const KeyringFile& file : files) {
    if (!names.insert(file.name).second) return;  // no folder has two
  }
  const absl::StatusOr<Keyring> keyring = ParseKeyring(files);
  if (!keyring.ok()) {
    Expect(ReasonOf(keyring.status()).has_value(), "a refusal without a reason");
    return;
  }
  ++accepted;
  std::set<KeyId> ids;
  for (const TrustedKey& trusted : keyring->keys) {
    Expect(!trusted.name.empty() && ids.insert(trusted.key.id).second, "a key without a name, or a key id twice");
  }
  Expect(!ids.empty(), "a keyring without keys");
  std::set<StreamId> streams;
  for (const StreamSerial& serial : keyring->min_serials) {
    Expect(streams.insert(serial.stream).second, "two lowest serials of one stream");
  }
}

}  // namespace
}  // namespace meshseal::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  meshseal::fuzz::TryKeyring(meshseal::fuzz::FilesOf(meshseal::fuzz::TextOf(data, size)));
  return 0;
}
