#include "schema/reason.h"

#include <array>
#include <cstddef>

#include "absl/strings/cord.h"

namespace meshseal {
namespace {

constexpr std::array kReasons = {
#define MESHSEAL_REASON(enumerator, slug, exit_code, meaning) ReasonRow{Reason::enumerator, slug, exit_code, meaning},
#include "schema/reasons.def"
#undef MESHSEAL_REASON
};

constexpr absl::string_view kPayloadUrl = "meshseal/reason";

absl::StatusCode CodeOf(int exit_code) {
  switch (exit_code) {
    case 3:
      return absl::StatusCode::kDataLoss;
    case 4:
      return absl::StatusCode::kFailedPrecondition;
    case 6:
      return absl::StatusCode::kDeadlineExceeded;
    case 7:
      return absl::StatusCode::kResourceExhausted;
    case 8:
      return absl::StatusCode::kAborted;
    case 70:
      return absl::StatusCode::kInternal;
    default:
      return absl::StatusCode::kInvalidArgument;
  }
}

}  // namespace

const ReasonRow& RowOf(Reason reason) { return kReasons[static_cast<size_t>(reason)]; }

absl::Status Refuse(Reason reason, absl::string_view text) {
  const ReasonRow& row = RowOf(reason);
  absl::Status status(CodeOf(row.exit_code), text);
  status.SetPayload(kPayloadUrl, absl::Cord(row.slug));
  return status;
}

std::optional<Reason> ReasonOf(const absl::Status& status) {
  const std::optional<absl::Cord> slug = [&]() -> std::optional<absl::Cord> {
    if (auto payload = status.GetPayload(kPayloadUrl); payload.has_value()) return *payload;
    return std::nullopt;
  }();
  if (!slug.has_value()) {
    if (status.code() == absl::StatusCode::kResourceExhausted) return Reason::kOutOfMemory;
    return std::nullopt;
  }
  for (const ReasonRow& row : kReasons) {
    if (*slug == row.slug) return row.reason;
  }
  return std::nullopt;
}

int ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return 0;
  const std::optional<Reason> reason = ReasonOf(status);
  return reason.has_value() ? RowOf(*reason).exit_code : RowOf(Reason::kBug).exit_code;
}

}  // namespace meshseal
