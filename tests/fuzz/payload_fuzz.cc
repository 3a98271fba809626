// A payload of any bytes behind a seal that fits: what the structure and meaning gates, and everything after them, make
// of a plan that a compiler with a fault, or a forger with a hash function, has sealed.
#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/program/executed.h"
#include "runtime/program/rank_program.h"
#include "schema/fingerprint.h"
#include "schema/mesh_view.h"
#include "schema/plan_codec.h"
#include "schema/plan_diff.h"
#include "schema/plan_diff_json.h"
#include "schema/plan_diff_text.h"
#include "schema/plan_json.h"
#include "schema/plan_text.h"
#include "schema/reason.h"
#include "schema/seal.h"
#include "schema/sealed_plan.h"
#include "schema/sha256.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/plan_builder.h"

namespace meshseal::fuzz {
namespace {

constexpr uint64_t kSerial = 7;

const Plan& OtherPlan() {
  static const auto* const kPlan = [] {
    support::PlanNumbers numbers;
    numbers.ep = 2;
    return new Plan(support::BuildPlan(numbers));
  }();
  return *kPlan;
}

void Compare(const Plan& a, const Plan& b) {
  const PlanDiff diff = DiffPlans(a, b);
  // A number that is none (NaN) differs from itself.
  Expect(!(a == b) || diff.relation == PlanRelation::kSame, "equal plans differ");
  const Both<PlanFile> files;
  (void)PlanDiffText(files, &diff);
  (void)PlanDiffJson(files, &diff);
}

// A plan that the meaning gate may refuse, as people look at it: in one of several ways, since each takes longer than
// all gates.
void Show(const Plan& plan, unsigned way) {
  switch (way % 5) {
    case 0:
      return (void)ListPlan(plan, "", "refused", {});
    case 1:
      return (void)ListPlan(plan, "", "refused", {0, 0});
    case 2:
      return Expect(PlanJson(plan, "", "refused", "").ok(), "a plan has no JSON");
    case 3:
      return Compare(plan, plan);
    default:
      Compare(plan, OtherPlan());
      Compare(OtherPlan(), plan);
  }
}

// A plan that opened binds or is refused, on every rank.
void Bind(const SealedPlan& sealed) {
  const Plan& plan = sealed.plan();
  if (!runtime::CheckExecuted(plan, ExecutorKind::kReference).ok()) return;
  for (uint32_t rank = 0; rank < plan.mesh.rank_slots.size(); ++rank) {
    for (uint32_t layer_class = 0; layer_class < plan.layer_classes.size(); ++layer_class) {
      for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
        const absl::Status bound = runtime::BindProgram(sealed, rank, layer_class, phase).status();
        Expect(bound.ok(), absl::StrCat("an open plan does not bind: ", std::string(bound.message())));
      }
    }
  }
}

void TryPayload(const std::string& payload) {
  const absl::StatusOr<Plan> decoded = DecodePlan(payload);
  const StreamId stream = decoded.ok() ? StreamOf(decoded->deployment_name) : StreamId{};
  const std::string file = SealPayload(payload, PayloadType::kPlan, kSerial, stream);
  Policy policy;
  policy.allow_unsigned_hosts = true;
  const absl::StatusOr<SealedPlan> opened = SealedPlan::Open(file, policy);
  const absl::Status& verdict = opened.status();
  Expect(verdict.ok() || GateOf(verdict) == Gate::kStructure || GateOf(verdict) == Gate::kMeaning,
         absl::StrCat("refused at another gate: ", std::string(verdict.message())));
  Expect(decoded.ok() == (GateOf(verdict) != Gate::kStructure), "decoding and opening differ");
  if (!decoded.ok()) return;
  Expect(EncodePlan(*decoded) == payload, "a second encoding of a plan");
  Show(*decoded, Sha256(payload)[0]);
  if (!opened.ok()) return;
  Expect(opened->plan() == *decoded, "another plan");
  Bind(*opened);
  ++accepted;
}

// Changes of a plan that keep its form.
class PlanChanger {
 public:
  PlanChanger(Plan& plan, std::minstd_rand& random) : plan_(plan), random_(random) {}

  void Change() {
    LayerClass* layers = Any(plan_.layer_classes);
    Program* program = layers == nullptr ? nullptr : Any(layers->programs);
    switch (Below(20)) {
      case 0:
        return Resize(plan_.stage_ends);
      case 1:
        return Resize(plan_.mesh.rank_slots);
      case 2:
        return Resize(plan_.mesh.nodes);
      case 3:
        return Resize(plan_.memory);
      case 4:
        return Resize(plan_.layer_classes);
      case 5:
        return Resize(plan_.prices);
      case 6:
        return Resize(plan_.limits.decode_buckets);
      default:
        break;
    }
    if (layers == nullptr) return;
    switch (Below(16)) {
      case 0:
        return Resize(layers->layers);
      case 1:
        return Resize(layers->tensors);
      case 2:
        return Resize(layers->expert_shards);
      case 3:
        return Resize(layers->expert_copies);
      case 4:
        return Resize(layers->segment_ends);
      case 5:
        return Resize(layers->tp_segment_ends);
      case 6:
        return Resize(Below(2) == 0 ? layers->shared_expert.part_ends : layers->shared_expert.segment_ends);
      case 7:
        return Resize(layers->load.slots);
      case 8:
        return Resize(layers->programs);
      case 9:
        if (TensorClass* tensor = Any(layers->tensors)) Below(2) == 0 ? Resize(tensor->shape) : Resize(tensor->sides);
        return;
      default:
        break;
    }
    if (program == nullptr) return;
    switch (Below(5)) {
      case 0:
        return Resize(program->values);
      case 1:
        return Resize(program->steps);
      case 2:
        return Resize(program->layouts);
      case 3:
        if (WorkLayout* layout = Any(program->layouts)) Resize(layout->buffers);
        return;
      default:
        return ChangeStep(*program);
    }
  }

 private:
  size_t Below(size_t end) { return random_() % end; }

  template <class T>
  T* Any(std::vector<T>& items) {
    return items.empty() ? nullptr : &items[Below(items.size())];
  }

  // One item more, one less, or two that change places.
  template <class T>
  void Resize(std::vector<T>& items) {
    if (items.empty()) {
      items.emplace_back();
      return;
    }
    const size_t at = Below(items.size());
    const size_t other = Below(items.size());
    switch (Below(3)) {
      case 0:
        items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 1:
        items.insert(items.begin() + static_cast<std::ptrdiff_t>(at), T(items[other]));
        break;
      default:
        std::swap(items[at], items[other]);
    }
  }

  void ChangeStep(Program& program) {
    Step* step = Any(program.steps);
    if (step == nullptr) return;
    switch (Below(4)) {
      case 0:
        return Resize(step->inputs);
      case 1:
        return Resize(step->outputs);
      case 2:
        return Resize(step->tensors);
      default:
        return Resize(step->collectives);
    }
  }

  Plan& plan_;
  std::minstd_rand& random_;
};

// Scalars have a fixed place in the canonical encoding: one is changed there, without knowing which.
void ChangeNumber(std::minstd_rand& random, std::string& payload) {
  const size_t width = size_t{1} << random() % 4;
  if (payload.size() < width) return;
  const size_t at = random() % (payload.size() / width) * width;
  uint64_t number = 0;
  std::memcpy(&number, payload.data() + at, width);
  switch (random() % 6) {
    case 0:
      ++number;
      break;
    case 1:
      --number;
      break;
    case 2:
      number *= 2;
      break;
    case 3:
      number = 0;
      break;
    case 4:
      number ^= uint64_t{1} << random() % (8 * width);
      break;
    default:
      number = ~uint64_t{0} >> random() % 3;
  }
  std::memcpy(payload.data() + at, &number, width);
}

// One or two changes of a plan that still decode; the payload as it was when there are none.
std::string ChangedPlan(const std::string& payload, std::minstd_rand& random) {
  std::string changed = payload;
  for (auto changes = 1 + random() % 2; changes > 0; --changes) {
    for (int tries = 0; tries < 8; ++tries) {
      std::string candidate = changed;
      if (random() % 2 == 0) {
        ChangeNumber(random, candidate);
        if (candidate == changed || !DecodePlan(candidate).ok()) continue;
      } else {
        Plan plan = *DecodePlan(changed);
        PlanChanger(plan, random).Change();
        candidate = EncodePlan(plan);
      }
      changed = std::move(candidate);
      break;
    }
  }
  if (random() % 2 == 0) return changed;
  Plan plan = *DecodePlan(changed);
  plan.execution_fingerprint = ExecutionFingerprint(plan);
  return EncodePlan(plan);
}

}  // namespace
}  // namespace meshseal::fuzz

// Mostly changes that the structure gate lets through, half of them with a fingerprint that fits.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  using namespace meshseal;
  std::minstd_rand random(seed);
  const std::string payload(fuzz::TextOf(data, size));
  if (random() % 8 == 0 || !DecodePlan(payload).ok()) return LLVMFuzzerMutate(data, size, max_size);
  return fuzz::Replace(fuzz::ChangedPlan(payload, random), data, size, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  meshseal::fuzz::TryPayload(std::string(meshseal::fuzz::TextOf(data, size)));
  return 0;
}
