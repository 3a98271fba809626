// Every field of many valid plans, changed in many ways. The seal is made again, the execution fingerprint fits and a
// trusted key signs: a compiler that errs, or a signer who is deceived. The meaning gate must refuse every change that
// leaves a fact that does not follow. Of which fields it lets a change through is listed here, with the reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "schema/dtype.h"
#include "schema/fingerprint.h"
#include "schema/meaning/meaning.h"
#include "schema/minisign_key.h"
#include "schema/minisign_signature.h"
#include "schema/plan_codec.h"
#include "schema/reason.h"
#include "schema/seal.h"
#include "schema/sealed_plan.h"
#include "schema/step.h"
#include "tests/schema/plan_fields.h"
#include "tests/schema/sample_plans.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_data.h"

namespace meshseal {
namespace {

// A field of which some changes leave a plan that passes, and why it may.
struct Field {
  const char* path;
  const char* why;
};

// Neither a rule nor the fingerprint holds these: nothing that a rank computes or reserves follows from the changes
// that pass. They are sealed and signed like every other byte.
constexpr Field kFree[] = {
    {"compiler_version", "a name"},
    {"model_name", "a name"},
    {"model_family", "a name"},
    {"sources", "documents, which the operator compares"},
    {"sources[].name", "a name"},
    {"sources[].digest", "of a document that is not here"},
    {"mesh.name", "a name"},
    {"mesh.emulated", "ranks that share no slot may be said to"},
    {"mesh.transport", "bind compares it with the transport that there is"},
    {"mesh.transport_version_min", "bind compares it with the library that there is"},
    {"mesh.transport_version_max", "bind compares it with the library that there is"},
    {"mesh.capturable", "what a captured program is changes no bit of it"},
    {"mesh.device_kinds", "a kind that no node is of"},
    {"mesh.device_kinds[].name", "a name"},
    {"mesh.device_kinds[].memory_kind", "the same to ranks that share nothing"},
    {"mesh.device_kinds[].memory_bytes", "only what is usable and not headroom is given out"},
    {"mesh.device_kinds[].usable_bytes", "above memory less headroom, nothing is given out"},
    {"mesh.device_kinds[].communicator_bytes", "of a rank without peers"},
    {"mesh.device_kinds[].bandwidth", "a rate, for predictions"},
    {"mesh.device_kinds[].bf16_rate", "a rate, for predictions"},
    {"mesh.device_kinds[].compute_capability", "bind compares it with the device"},
    {"mesh.device_kinds[].shared_memory", "bind compares it with the device"},
    {"mesh.device_kinds[].ecc", "bind compares it with the device"},
    {"mesh.device_kinds[].peer_access", "bind compares it with the devices"},
    {"mesh.device_kinds[].fabric", "bind compares it with the devices"},
    {"mesh.island_links", "rates, for predictions, or none"},
    {"mesh.island_links[].bandwidth", "a rate, for predictions"},
    {"mesh.island_links[].latency", "a latency, for predictions"},
    {"mesh.between_islands.bandwidth", "a rate, for predictions"},
    {"mesh.between_islands.latency", "a latency, for predictions"},
    {"mesh.nodes", "a node where no rank is, or nodes that are alike"},
    {"mesh.nodes[].name", "a name"},
    {"mesh.nodes[].slots", "slots where no rank is"},
    {"mesh.nodes[].island", "decides what is fast, and so the price"},
    {"mesh.nodes[].identity", "the operator's: which devices"},
    {"mesh.nodes[].identity[]", "a name"},
    {"mesh.rank_slots", "ranks that need the same may change places"},
    {"mesh.rank_slots[].node", "another node with the same free slot"},
    {"other_weights.first", "rounded up for each rank"},
    {"other_weights.layers", "rounded up for each rank"},
    {"other_weights.last", "rounded up for each rank"},
    {"weights_digest", "the operator's: which bytes are weights"},
    {"layer_classes[].programs[].steps[].origin.source", "where it was written"},
    {"layer_classes[].programs[].steps[].origin.line", "where it was written"},
    {"prices", "a model's guess, or none"},
    {"prices[].weight_bytes", "a model's guess"},
    {"prices[].operations", "a model's guess"},
    {"prices[].link_bytes", "a model's guess"},
    {"prices[].between_bytes", "a model's guess"},
    {"prices[].messages", "a model's guess"},
    {"prices[].nanoseconds", "a model's guess"},
};

// Model, deployment or compiler choose these: another value may be another valid plan, and is never taken for the one
// before, because the fingerprint differs, or the stream.
constexpr Field kChosen[] = {
    {"deployment_name", "the operator's; another stream"},
    {"stage_ends[]", "which stage has a layer that is not MoE"},
    {"attention.heads", "the model's"},
    {"attention.kv_heads", "the model's, where they are whole on every rank"},
    {"attention.head_dim", "the model's, likewise"},
    {"kv_heads", "the operator's"},
    {"limits.decode_buckets", "the operator's"},
    {"limits.decode_buckets[]", "the operator's"},
    {"limits.prefill_tokens", "the operator's; what is reserved follows from the chunk"},
    {"limits.sessions", "the operator's, of sessions that take nothing"},
    {"expert_placement", "several names for the same owners"},
    {"output", "the operator's"},
    {"failure_scope", "the operator's"},
    {"weight_source", "the operator's"},
    {"weight_seed", "the operator's"},
    {"ignored_tensors", "the operator's"},
    {"layer_classes[].shared_expert.placement", "the operator's, of one ep coordinate"},
    {"ignored_tensors[]", "the operator's"},
    {"layer_classes[].router.scoring", "the model's"},
    {"layer_classes[].router.epsilon", "the model's"},
    {"layer_classes[].router.order", "the model's"},
    {"layer_classes[].router.renormalize", "the model's"},
    {"layer_classes[].router.guard", "the model's"},
    {"layer_classes[].router.groups.keep", "the model's"},
    {"layer_classes[].router.groups.score", "the model's"},
    {"layer_classes[].router.input", "the model's"},
    {"layer_classes[].router.scale", "the model's"},
    {"layer_classes[].activation.kind", "the model's"},
    {"layer_classes[].activation.alpha", "the model's"},
    {"layer_classes[].activation.limit", "the model's"},
    {"layer_classes[].shared_expert.activation.kind", "the model's"},
    {"layer_classes[].shared_expert.activation.alpha", "the model's"},
    {"layer_classes[].shared_expert.activation.limit", "the model's"},
    {"layer_classes[].gate_up_basis", "the operator's"},
    {"layer_classes[].down_basis", "the operator's"},
    {"layer_classes[].tensors[].name", "the checkpoint's"},
    {"layer_classes[].tensors[].shape", "the checkpoint's: transposed, or a vector"},
    {"layer_classes[].tensors[].layout", "the checkpoint's"},
    {"layer_classes[].tensors[].rotation", "the checkpoint's"},
    {"layer_classes[].tensors[].sides[].dtype", "the checkpoint's: two types of the same size"},
    {"layer_classes[].tensors[].sides[].name", "the checkpoint's"},
    {"layer_classes[].tensors[].sides[].block_rows", "the checkpoint's: as many tiles"},
    {"layer_classes[].tensors[].sides[].block_columns", "the checkpoint's: as many tiles"},
    {"layer_classes[].tensors[].sides[].applies", "the checkpoint's"},
    {"layer_classes[].tensors[].sides[].of", "the checkpoint's"},
    {"layer_classes[].expert_copies[].expert", "the operator's: which experts are copied"},
    {"layer_classes[].load.slots", "as measured: the busiest ranks stay as busy"},
    {"layer_classes[].load.slots[]", "as measured: the busiest ranks stay as busy"},
    {"layer_classes[].programs[].tile_rows", "the compiler's: as many rows in all"},
    {"layer_classes[].programs[].layouts[].buffers", "the compiler's: two buffers of one size change places"},
    {"layer_classes[].programs[].layouts[].buffers[].offset", "the compiler's: over a buffer that is dead"},
};

// Another value for a leaf, and a few words on it.
template <class T>
struct Change {
  std::string what;
  T value;
};

template <class T>
std::vector<Change<T>> NumbersNear(T value) {
  constexpr T kMost = std::numeric_limits<T>::max();
  return {{"+1", static_cast<T>(value + 1)},
          {"-1", static_cast<T>(value - 1)},
          {"0", T{0}},
          {"doubled", static_cast<T>(value * 2)},
          {"most", kMost},
          {"a high bit", static_cast<T>(value ^ (kMost / 2 + 1))}};
}

template <class T>
std::vector<Change<T>> FloatsNear(T value) {
  using Limits = std::numeric_limits<T>;
  return {{"next", std::nextafter(value, Limits::infinity())},
          {"negated", -value},
          {"0", T{0}},
          {"1", T{1}},
          {"doubled", value * 2},
          {"largest", Limits::max()},
          {"infinity", Limits::infinity()},
          {"nan", Limits::quiet_NaN()}};
}

// All rows of its table, none, the next value after them, and the last one a byte holds.
template <class E>
std::vector<uint8_t> WireValues() {
  std::vector<uint8_t> values = {0, 255};
  if constexpr (std::is_same_v<E, StepKind>) {
    for (const StepRow& row : StepRows()) values.push_back(static_cast<uint8_t>(row.kind));
  } else if constexpr (std::is_same_v<E, DType>) {
    for (const DTypeRow& row : DTypeRows()) values.push_back(static_cast<uint8_t>(row.dtype));
  } else {
    for (const Term& term : Terms<E>()) values.push_back(term.value);
  }
  values.push_back(static_cast<uint8_t>(*std::max_element(values.begin() + 2, values.end()) + 1));
  return values;
}

template <class T>
std::vector<Change<T>> ChangesOf(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return {{"flipped", !value}};
  } else if constexpr (std::is_same_v<T, std::string>) {
    std::string changed = value.empty() ? "y" : value;
    changed[0] = changed[0] == 'y' ? 'z' : 'y';
    return {{"emptied", ""},
            {"longer", value + "x"},
            {"changed", changed},
            {"with a line feed", value + "\n"},
            {"with a zero", value + std::string(1, '\0')},
            {"with a delete", value + "\x7f"},
            {"with digits", value + "99999999999"},
            {"with a layer", value + "{layer}"},
            {"no UTF-8", value + "\xff"},
            {"2 KiB", value + std::string(2048, 'x')}};
  } else if constexpr (std::is_same_v<T, Sha256Digest>) {
    T first = value;
    first.front() ^= 1;
    T last = value;
    last.back() ^= 0x80;
    return {{"first bit", first}, {"last bit", last}, {"other", Sha256("another")}};
  } else if constexpr (std::is_enum_v<T>) {
    std::vector<Change<T>> changes;
    for (const uint8_t wire : WireValues<T>()) changes.push_back({absl::StrCat(wire), static_cast<T>(wire)});
    return changes;
  } else if constexpr (std::is_floating_point_v<T>) {
    return FloatsNear(value);
  } else {
    return NumbersNear(value);
  }
}

template <class T>
std::vector<Change<std::vector<T>>> ChangesOfList(const std::vector<T>& list) {
  using List = std::vector<T>;
  std::vector<Change<List>> changes = {{"emptied", {}}};
  if (list.empty()) return {{"with an element", List(1)}};
  changes.push_back({"without the first", List(list.begin() + 1, list.end())});
  changes.push_back({"without the last", List(list.begin(), list.end() - 1)});
  List more = list;
  more.insert(more.begin(), list.front());
  changes.push_back({"the first twice", more});
  more = list;
  more.push_back(list.back());
  changes.push_back({"the last twice", more});
  if (list.size() < 2) return changes;
  List swapped = list;
  std::swap(swapped[0], swapped[1]);
  changes.push_back({"the first two swapped", swapped});
  swapped = list;
  std::swap(swapped.front(), swapped.back());
  changes.push_back({"first and last swapped", swapped});
  return changes;
}

// Seals and opens, where nobody asks for a signature.
absl::Status OpenUnsigned(absl::string_view payload, const StreamId& stream) {
  Policy policy;
  policy.allow_unsigned_hosts = true;
  return SealedPlan::Open(SealPayload(payload, PayloadType::kPlan, 1, stream), policy).status();
}

// A trusted key, and who trusts it.
class Signing {
 public:
  Signing() : key_(*SecretKey::Parse(support::TestData("minisign/plain.key"), std::nullopt)) {
    policy_.keyring.emplace();
    policy_.keyring->keys.push_back({"plain", key_.public_key()});
  }

  // Seals, signs and opens.
  absl::Status OpenSigned(absl::string_view payload, const StreamId& stream) const {
    const std::string file = SealPayload(payload, PayloadType::kPlan, 1, stream);
    return SealedPlan::Open(file, policy_, *SignDetached(file, key_, "a mutant")).status();
  }

 private:
  SecretKey key_;
  Policy policy_;
};

// The rule in "refused at gate 'meaning': [rule] text"; empty for another status.
std::string RuleOf(const absl::Status& status) {
  constexpr absl::string_view kBegin = "refused at gate 'meaning': [";
  if (ReasonOf(status) != Reason::kMeaning || !absl::StartsWith(status.message(), kBegin)) return "";
  const std::string rest(status.message().substr(kBegin.size()));
  return rest.substr(0, rest.find(']'));
}

// Changes one field after the other of a plan, tries what results, and counts.
class Mutator {
 public:
  void Try(const samples::SamplePlan& sample) {
    name_ = sample.name;
    plan_ = sample.plan;
    payload_ = EncodePlan(plan_);
    fingerprint_ = plan_.execution_fingerprint;
    stream_ = StreamOf(plan_.deployment_name);
    ASSERT_EQ(signing_.OpenSigned(payload_, stream_), absl::OkStatus()) << name_;
    WalkFields("", plan_, *this);
    ASSERT_EQ(EncodePlan(plan_), payload_) << name_;
  }

  // A visitor of WalkFields.
  template <class T>
  void Leaf(const std::string& path, T& leaf) {
    ++leaves_;
    Apply(path, leaf, ChangesOf(leaf));
  }
  template <class T>
  void List(const std::string& path, std::vector<T>& list) {
    Apply(path, list, ChangesOfList(list));
  }
  // Of a long list the first and the last stand for the others.
  std::vector<size_t> Elements(size_t size) const {
    if (support::kSanitized && size > 1) return {size - 1};
    if (size > 8) return {0, size - 1};
    std::vector<size_t> all(size);
    for (size_t i = 0; i < size; ++i) all[i] = i;
    return all;
  }

  size_t tried() const { return tried_; }
  size_t leaves() const { return leaves_; }
  size_t at_structure() const { return at_structure_; }
  size_t at_meaning() const { return at_meaning_; }
  const std::map<std::string, size_t>& by_rule() const { return by_rule_; }
  const std::set<std::string>& chosen() const { return chosen_; }
  const std::set<std::string>& free() const { return free_; }

 private:
  template <class T>
  static bool IsOdd(const T& value) {
    if constexpr (std::is_floating_point_v<T>) return std::isnan(value) || (value == 0 && std::signbit(value));
    return false;
  }

  template <class T>
  void Apply(const std::string& path, T& field, const std::vector<Change<T>>& changes) {
    const T before = field;
    std::set<std::string> seen = {payload_};
    for (const Change<T>& change : changes) {
      if (support::kSanitized && ++passed_over_ % 4 != 0) continue;
      field = change.value;
      // The same as before, or as another change.
      if (!seen.insert(EncodePlan(plan_)).second) continue;
      // Never another valid plan, whatever else the field may be.
      const bool odd = IsOdd(change.value);
      Judge(odd ? path + " as -0 or nan" : path, absl::StrCat(name_, ": ", path, " ", change.what));
      plan_.execution_fingerprint = fingerprint_;
    }
    field = before;
  }

  void Judge(const std::string& path, const std::string& what) {
    ++tried_;
    if (path != "execution_fingerprint") plan_.execution_fingerprint = ExecutionFingerprint(plan_);
    const absl::Status status = Open(StreamOf(plan_.deployment_name));
    if (GateOf(status) == Gate::kStructure) {
      // The one field that the structure gate reads.
      EXPECT_EQ(path, "schema_fingerprint") << what << ": " << status;
      EXPECT_EQ(ReasonOf(status), Reason::kPlanFormat) << what << ": " << status;
      ++at_structure_;
      return;
    }
    if (!status.ok()) {
      Count(status, what);
      return;
    }
    // A plan as good as the one before: either the one before is not mistaken for it, or nothing depends on it.
    plan_.execution_fingerprint = fingerprint_;
    const absl::Status mistaken = Open(stream_);
    if (mistaken.ok()) {
      free_.insert(path);
      return;
    }
    Count(mistaken, what);
    const std::string rule = RuleOf(mistaken);
    EXPECT_TRUE(rule == "fingerprint-holds" || rule == "stream-is-deployment") << what << ": " << mistaken;
    chosen_.insert(path);
  }

  // A signature takes as long as all gates together: one in sixteen is signed, and whatever passes.
  absl::Status Open(const StreamId& stream) {
    const std::string payload = EncodePlan(plan_);
    if (tried_ % 16 == 0) return signing_.OpenSigned(payload, stream);
    const absl::Status status = OpenUnsigned(payload, stream);
    return status.ok() ? signing_.OpenSigned(payload, stream) : status;
  }

  void Count(const absl::Status& status, const std::string& what) {
    const std::string rule = RuleOf(status);
    EXPECT_NE(rule, "") << what << ": " << status;
    ++by_rule_[rule];
    ++at_meaning_;
  }

  const Signing signing_;
  std::string name_;
  Plan plan_;
  std::string payload_;
  Sha256Digest fingerprint_{};
  StreamId stream_{};
  size_t passed_over_ = 0;  // under sanitizers, of four changes one is tried
  size_t tried_ = 0;
  size_t leaves_ = 0;
  size_t at_structure_ = 0;
  size_t at_meaning_ = 0;
  std::map<std::string, size_t> by_rule_;
  std::set<std::string> chosen_;
  std::set<std::string> free_;
};

template <size_t N>
std::set<std::string> PathsOf(const Field (&fields)[N]) {
  std::set<std::string> paths;
  for (const Field& field : fields) EXPECT_TRUE(paths.insert(field.path).second) << field.path;
  return paths;
}

// The rows are exactly the fields that were let through: none is missing, and, where all changes are tried, none is
// there without need.
void ExpectPaths(const std::set<std::string>& found, const std::set<std::string>& listed, const char* table) {
  for (const std::string& path : found) EXPECT_EQ(listed.count(path), 1u) << path << " is not in " << table;
  if (support::kSanitized) return;
  for (const std::string& path : listed) EXPECT_EQ(found.count(path), 1u) << path << " is not needed in " << table;
}

TEST(Mutants, EveryFieldIsHeldByARuleOrByTheFingerprintOrIsListed) {
  Mutator mutator;
  for (const samples::SamplePlan& sample : samples::ValidPlans()) mutator.Try(sample);
  std::cout << mutator.tried() << " mutants of " << mutator.leaves() << " leaves: " << mutator.at_meaning()
            << " refused at gate meaning, " << mutator.at_structure() << " at gate structure\n";
  for (const MeaningRuleRow& row : MeaningRules()) {
    const auto hits = mutator.by_rule().find(row.slug);
    const size_t count = hits == mutator.by_rule().end() ? 0 : hits->second;
    std::cout << "  " << row.slug << ": " << count << "\n";
    // Some rules refuse few of them, and a quarter of all may have none of those.
    if (!support::kSanitized) {
      EXPECT_GE(count, 20u) << row.slug;
    }
  }
  EXPECT_GE(mutator.at_meaning(), 2000u);
  ExpectPaths(mutator.free(), PathsOf(kFree), "kFree");
  ExpectPaths(mutator.chosen(), PathsOf(kChosen), "kChosen");
}

}  // namespace
}  // namespace meshseal
