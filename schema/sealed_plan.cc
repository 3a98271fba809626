#include "schema/sealed_plan.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "schema/meaning/meaning.h"
#include "schema/plan_codec.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal {
namespace {

// The refusal of `gate`, its text led by the gate's name.
absl::Status At(Gate gate, const absl::Status& refusal) {
  if (refusal.ok()) return refusal;
  return Refuse(*ReasonOf(refusal),
                absl::StrCat("refused at gate '", std::string(GateName(gate)), "': ", std::string(refusal.message())));
}

absl::Status CheckPolicy(const SealFacts& facts, const Policy& policy) {
  if (policy.pinned_id.has_value() && *policy.pinned_id != facts.plan_id) {
    return Refuse(Reason::kPinnedId,
                  absl::StrCat("plan id ", HexOf(facts.plan_id), ", pinned is ", HexOf(*policy.pinned_id)));
  }
  if (facts.serial < policy.min_serial) {
    return Refuse(Reason::kSerialTooLow,
                  absl::StrCat("serial ", facts.serial, ", the lowest one accepted is ", policy.min_serial));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SealedPlan> SealedPlan::Open(absl::string_view file, const Policy& policy) {
  const std::string copy(file);
  MESHSEAL_RETURN_IF_ERROR(At(Gate::kMark, CheckMark(copy)));
  MESHSEAL_RETURN_IF_ERROR(At(Gate::kFormat, CheckFormat(copy, PayloadType::kPlan)));
  MESHSEAL_RETURN_IF_ERROR(At(Gate::kSize, CheckSize(copy)));
  MESHSEAL_RETURN_IF_ERROR(At(Gate::kDigest, CheckDigest(copy)));
  auto content = std::make_unique<Content>();
  content->facts = FactsOf(copy);
  MESHSEAL_RETURN_IF_ERROR(At(Gate::kPolicy, CheckPolicy(content->facts, policy)));
  absl::StatusOr<Plan> plan = DecodePlan(PayloadOf(copy));
  MESHSEAL_RETURN_IF_ERROR(At(Gate::kStructure, plan.status()));
  content->plan = std::move(plan).value();
  MESHSEAL_RETURN_IF_ERROR(At(Gate::kMeaning, CheckMeaning(content->plan, content->facts)));
  return SealedPlan(std::move(content));
}

std::optional<Gate> GateOf(const absl::Status& refusal) {
  const std::optional<Reason> reason = ReasonOf(refusal);
  if (!reason.has_value()) return std::nullopt;
  const absl::string_view slug = RowOf(*reason).slug;
  const absl::string_view prefix = slug.substr(0, slug.find('.'));
  for (const GateRow& row : kGates) {
    if (prefix == row.name) return row.gate;
  }
  return std::nullopt;
}

absl::StatusOr<std::string> ReadPlanFile(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return Refuse(Reason::kUsage, absl::StrCat(path.string(), ": ", std::strerror(errno)));
  const absl::Cleanup closer = [fd] { close(fd); };
  struct stat facts {};
  if (fstat(fd, &facts) != 0) return Refuse(Reason::kUsage, absl::StrCat(path.string(), ": ", std::strerror(errno)));
  if (!S_ISREG(facts.st_mode)) return Refuse(Reason::kUsage, absl::StrCat(path.string(), ": not a regular file"));
  const auto size = static_cast<uint64_t>(facts.st_size);
  if (size > kSealSize + kMaxPayload) {
    return Refuse(Reason::kPayloadTooLarge,
                  absl::StrCat(path.string(), ": ", size, " bytes, a plan has at most ", kSealSize + kMaxPayload));
  }
  std::string bytes(size, '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = read(fd, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Refuse(Reason::kUsage, absl::StrCat(path.string(), ": ", std::strerror(errno)));
    if (got == 0) return Refuse(Reason::kUsage, absl::StrCat(path.string(), ": shrank while it was read"));
    done += static_cast<size_t>(got);
  }
  return bytes;
}

absl::StatusOr<std::string> SealPlan(const Plan& plan, uint64_t serial) {
  std::string file = SealPayload(EncodePlan(plan), PayloadType::kPlan, serial, StreamOf(plan.deployment_name));
  MESHSEAL_RETURN_IF_ERROR(SealedPlan::Open(file, Policy{}).status());
  return file;
}

}  // namespace meshseal
