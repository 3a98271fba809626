// A plan file of any bytes: opened, or refused with a reason by a gate that says so; and shown as far as it can be
// read.
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/inspect.h"
#include "schema/plan_json.h"
#include "schema/plan_text.h"
#include "schema/reason.h"
#include "schema/seal.h"
#include "schema/sealed_plan.h"
#include "tests/fuzz/fuzz_target.h"

namespace meshseal::fuzz {
namespace {

// The header and payload digests of the seal's layout (schema/seal.h).
constexpr size_t kPayloadDigest = 64;
constexpr size_t kPlanId = 96;

void Overwrite(size_t at, const Sha256Digest& digest, std::string& file) {
  file.replace(at, digest.size(), reinterpret_cast<const char*>(digest.data()), digest.size());
}

void Put(size_t at, uint64_t value, std::string& file) {
  for (size_t i = 0; i < 8; ++i) file[at + i] = static_cast<char>(value >> (8 * i));
}

void TryFile(absl::string_view file) {
  const Policy policy;
  const absl::StatusOr<SealedPlan> opened = SealedPlan::Open(file, policy);
  const PlanInspection inspection = InspectPlan(file, policy);
  Expect(inspection.verdict == opened.status(), "inspection and opening differ");
  Expect(!GatesText(inspection).empty(), "no gates");
  if (inspection.plan.has_value()) {
    (void)ListPlan(*inspection.plan, inspection.id, GatesText(inspection), {});
    (void)PlanJson(*inspection.plan, inspection.id, GatesText(inspection), "");
  }
  if (!opened.ok()) {
    Expect(ReasonOf(opened.status()).has_value(), "a refusal without a reason");
    Expect(GateOf(opened.status()).has_value() && GateOf(opened.status()) == inspection.refused_at,
           "a refusal without a gate");
    Expect(absl::StartsWith(opened.status().message(),
                            absl::StrCat("refused at gate '", GateName(*inspection.refused_at))),
           "the text does not begin with the gate");
    return;
  }
  Expect(inspection.plan.has_value() && *inspection.plan == opened->plan(), "the plan that is shown is another one");
  // No byte of the file is without meaning: what it says gives it again.
  Expect(SealPayload(PayloadOf(file), PayloadType::kPlan, opened->serial(), StreamOf(opened->plan().deployment_name)) ==
             file,
         "two files with one meaning");
  ++accepted;
}

}  // namespace
}  // namespace meshseal::fuzz

// Behind the digests: three of four changes get digests that fit, half of those also lengths.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  using namespace meshseal;
  size = LLVMFuzzerMutate(data, size, max_size);
  std::minstd_rand random(seed);
  const auto choice = random() % 4;
  if (choice == 0 || size < kSealSize) return size;
  std::string file(fuzz::TextOf(data, size));
  if (choice >= 2) {
    fuzz::Put(16, file.size() - kSealSize, file);
    fuzz::Put(24, file.size(), file);
  }
  fuzz::Overwrite(fuzz::kPayloadDigest, Sha256(absl::string_view(file).substr(kSealSize)), file);
  fuzz::Overwrite(fuzz::kPlanId, Sha256(absl::string_view(file).substr(0, fuzz::kPlanId)), file);
  return fuzz::Replace(file, data, size, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  meshseal::fuzz::TryFile(meshseal::fuzz::TextOf(data, size));
  return 0;
}
