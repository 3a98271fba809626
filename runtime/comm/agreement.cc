#include "runtime/comm/agreement.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {
namespace {

// A member's verdict as bytes: the text's length, 0 for OK, and the text.
constexpr size_t kRecordBytes = 512;
constexpr size_t kLengthBytes = 2;
constexpr size_t kMostText = kRecordBytes - kLengthBytes;
static_assert(kRecordBytes <= kMaxGatherBytes);

constexpr absl::string_view kFailedFirst = " failed first: ";

std::string RecordOf(const absl::Status& own) {
  std::string text;
  if (!own.ok()) text = own.message().empty() ? "no text" : std::string(own.message());
  if (text.size() > kMostText) text = absl::StrCat(text.substr(0, kMostText - 3), "...");
  std::string record = {static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  record += text;
  record.resize(kRecordBytes, '\0');
  return record;
}

absl::string_view TextOf(absl::string_view record) {
  const size_t length = static_cast<unsigned char>(record[0]) | size_t{static_cast<unsigned char>(record[1])} << 8;
  return record.substr(kLengthBytes, std::min(length, kMostText));
}

}  // namespace

absl::Status PeerFailed(uint32_t world_rank, absl::string_view text) {
  if (absl::StrContains(text, kFailedFirst)) return Refuse(Reason::kPeerFailed, text);
  return Refuse(Reason::kPeerFailed, absl::StrCat("rank ", world_rank, kFailedFirst, text));
}

absl::Status Agree(Communicator& group, const absl::Status& own) {
  const std::string record = RecordOf(own);
  std::string all(kRecordBytes * group.size(), '\0');
  const absl::Status gathered =
      group.AllGather(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(record.data()), record.size()),
                      absl::MakeSpan(reinterpret_cast<std::byte*>(all.data()), all.size()));
  if (!own.ok()) return own;
  MESHSEAL_RETURN_IF_ERROR(gathered);
  for (uint32_t member = 0; member < group.size(); ++member) {
    const absl::string_view text = TextOf(absl::string_view(all).substr(member * kRecordBytes, kRecordBytes));
    if (!text.empty()) return PeerFailed(group.members()[member], text);
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
