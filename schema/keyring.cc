#include "schema/keyring.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "schema/folder_names.h"
#include "schema/minisign_key.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/small_file.h"
#include "schema/status_macros.h"
#include "schema/utf8.h"
#include "schema/within_memory.h"

namespace meshseal {
namespace {

constexpr absl::string_view kMinSerials = "min-serials";
constexpr absl::string_view kRevokedPlans = "revoked-plans";
constexpr absl::string_view kPublicKeyEnding = ".pub";

absl::Status RefuseKeyring(absl::string_view text) { return Refuse(Reason::kKeyring, text); }

// Calls `row(line)` for each line that says something; its complaint is led by file and line.
template <class Row>
absl::Status ForEachRow(const KeyringFile& file, Row row) {
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(file.text, '\n')) {
    ++number;
    if (line.empty() || line.front() == '#') continue;
    if (const std::optional<std::string> complaint = row(line); complaint.has_value()) {
      return RefuseKeyring(absl::StrCat(file.name, ":", number, ": ", *complaint));
    }
  }
  return absl::OkStatus();
}

absl::Status AddKey(const KeyringFile& file, Keyring& keyring) {
  const absl::string_view name = absl::StripSuffix(file.name, kPublicKeyEnding);
  absl::StatusOr<PublicKey> key = ParsePublicKey(file.text);
  if (ReasonOf(key.status()) == Reason::kOutOfMemory) return key.status();
  if (!key.ok()) {
    return RefuseKeyring(absl::StrCat(file.name, ": ", std::string(key.status().message())));
  }
  for (const TrustedKey& other : keyring.keys) {
    if (other.key.id == key->id) {
      return RefuseKeyring(
          absl::StrCat(file.name, ": key ", KeyIdText(key->id), " is also that of ", other.name, kPublicKeyEnding));
    }
  }
  keyring.keys.push_back({std::string(name), *key});
  return absl::OkStatus();
}

// A deployment's name has no control characters, and one with a blank at an end was not meant: taken as it stands, such
// a row would protect nobody.
bool IsName(absl::string_view text) {
  return !text.empty() && text.front() != ' ' && text.back() != ' ' && !HasControlCharacter(text);
}

absl::Status AddMinSerials(const KeyringFile& file, Keyring& keyring) {
  std::set<StreamId> streams;
  return ForEachRow(file, [&](absl::string_view line) -> std::optional<std::string> {
    const std::pair<absl::string_view, absl::string_view> row = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    StreamSerial serial;
    if (!std::all_of(row.first.begin(), row.first.end(), is_digit) ||
        !absl::SimpleAtoi(row.first, &serial.min_serial) || !IsName(row.second)) {
      return absl::StrCat("expected a serial and the name of a deployment, found ", QuotedName(line));
    }
    serial.stream = StreamOf(row.second);
    if (!streams.insert(serial.stream).second) return absl::StrCat("a second serial for ", QuotedName(row.second));
    keyring.min_serials.push_back(serial);
    return std::nullopt;
  });
}

absl::Status AddRevokedPlans(const KeyringFile& file, Keyring& keyring) {
  return ForEachRow(file, [&](absl::string_view line) -> std::optional<std::string> {
    const std::optional<Sha256Digest> id = DigestFromHex(line);
    if (!id.has_value()) return absl::StrCat("expected a plan id, found ", QuotedName(line));
    keyring.revoked_plans.push_back(*id);
    return std::nullopt;
  });
}

// What a file of this name may hold at most; nothing for a name that no keyring has.
std::optional<size_t> MaxSizeOf(absl::string_view name) {
  if (name == kMinSerials || name == kRevokedPlans) return kMaxKeyringList;
  if (name.size() > kPublicKeyEnding.size() && absl::EndsWith(name, kPublicKeyEnding)) return kMaxPublicKeyFile;
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Keyring> ParseKeyring(const std::vector<KeyringFile>& files) {
  return WithinMemory([&]() -> absl::StatusOr<Keyring> {
    Keyring keyring;
    for (const KeyringFile& file : files) {
      const std::optional<size_t> max_size = MaxSizeOf(file.name);
      if (!max_size.has_value()) {
        return RefuseKeyring(
            absl::StrCat(QuotedName(file.name), ": a keyring holds NAME.pub, ", kMinSerials, " and ", kRevokedPlans));
      }
      if (file.text.size() > *max_size) {
        return RefuseKeyring(absl::StrCat(file.name, ": ", file.text.size(), " bytes, expected at most ", *max_size));
      }
      if (file.name == kMinSerials) {
        MESHSEAL_RETURN_IF_ERROR(AddMinSerials(file, keyring));
      } else if (file.name == kRevokedPlans) {
        MESHSEAL_RETURN_IF_ERROR(AddRevokedPlans(file, keyring));
      } else {
        MESHSEAL_RETURN_IF_ERROR(AddKey(file, keyring));
      }
    }
    if (keyring.keys.empty()) return RefuseKeyring("no NAME.pub: nobody is trusted");
    return keyring;
  });
}

absl::StatusOr<Keyring> ReadKeyring(const std::filesystem::path& folder) {
  return WithinMemory([&]() -> absl::StatusOr<Keyring> {
    const auto at_folder = [&folder](absl::string_view text) {
      return RefuseKeyring(absl::StrCat("keyring ", folder.string(), ": ", std::string(text)));
    };
    std::vector<std::string> names;
    const int error = ListFolder(folder, kMaxKeyringFiles, &names);
    if (error != 0) return at_folder(std::generic_category().message(error));
    if (names.size() > kMaxKeyringFiles) return at_folder(absl::StrCat("more than ", kMaxKeyringFiles, " files"));
    std::sort(names.begin(), names.end());
    std::vector<KeyringFile> files;
    for (std::string& name : names) {
      // Files of other names stay unread: ParseKeyring refuses them.
      std::string text;
      if (const std::optional<size_t> max_size = MaxSizeOf(name); max_size.has_value()) {
        absl::StatusOr<std::string> read = ReadSmallFile(folder / name, "such a file", *max_size, Reason::kKeyring);
        if (ReasonOf(read.status()) == Reason::kOutOfMemory) return read.status();
        if (!read.ok())
          return Refuse(Reason::kKeyring, absl::StrCat("keyring: ", std::string(read.status().message())));
        text = std::move(read).value();
      }
      files.push_back({std::move(name), std::move(text)});
    }
    absl::StatusOr<Keyring> keyring = ParseKeyring(files);
    if (keyring.ok() || ReasonOf(keyring.status()) == Reason::kOutOfMemory) return keyring;
    return at_folder(keyring.status().message());
  });
}

}  // namespace meshseal
