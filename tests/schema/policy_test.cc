// The operator's policy: who must have signed, what is pinned, revoked or too old, and plans for several hosts.
#include "schema/policy.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/minisign_key.h"
#include "schema/minisign_signature.h"
#include "schema/reason.h"
#include "schema/sealed_plan.h"
#include "tests/support/plan_builder.h"

namespace meshseal {
namespace {

Plan TwoRanks() {
  support::PlanNumbers numbers;
  numbers.ep = 2;
  return support::BuildPlan(numbers);
}

// The second rank on a node of its own.
Plan TwoHosts() {
  Plan plan = TwoRanks();
  plan.mesh.nodes.push_back(plan.mesh.nodes[0]);
  plan.mesh.nodes[1].name = "node1";
  plan.mesh.rank_slots[1] = {1, 0};
  return plan;
}

Keyring KeyringOf(const SecretKey& key, std::string name) {
  Keyring keyring;
  keyring.keys.push_back({std::move(name), key.public_key()});
  return keyring;
}

// What Open says: the refusal's text, led by its slug, or who signed.
std::string OutcomeOf(const std::string& file, const Policy& policy, std::optional<absl::string_view> signature = {}) {
  const absl::StatusOr<SealedPlan> plan = SealedPlan::Open(file, policy, signature);
  if (!plan.ok()) return absl::StrCat(RowOf(*ReasonOf(plan.status())).slug, ": ", std::string(plan.status().message()));
  if (!plan->signer().has_value()) return "sealed";
  return absl::StrCat("signed by ", plan->signer()->name, ", ", plan->signer()->trusted_comment);
}

TEST(Policy, AKeyringRequiresASignatureByOneOfItsKeys) {
  const SecretKey ours = *SecretKey::Generate();
  const SecretKey theirs = *SecretKey::Generate();
  const std::string file = *SealPlan(TwoRanks(), 7);
  const std::string by_ours = *SignDetached(file, ours, "checked");
  const std::string by_theirs = *SignDetached(file, theirs, "forged");
  const std::string our_id = KeyIdText(ours.public_key().id);
  const std::string their_id = KeyIdText(theirs.public_key().id);

  Policy policy;
  EXPECT_EQ(OutcomeOf(file, policy), "sealed");
  EXPECT_EQ(OutcomeOf(file, policy, by_ours), "sealed");  // nobody is trusted: it is not signed by anybody
  EXPECT_EQ(OutcomeOf(file, policy, "not a signature"), "sealed");
  policy.require_signature = true;
  EXPECT_EQ(
      OutcomeOf(file, policy, by_ours),
      "signature.keyring: refused at gate 'signature': a signature is required, but no keyring says which keys are "
      "trusted");

  policy.keyring = KeyringOf(ours, "ours");
  for (const bool required : {false, true}) {
    policy.require_signature = required;
    EXPECT_EQ(OutcomeOf(file, policy, by_ours), "signed by ours, checked");
    EXPECT_EQ(OutcomeOf(file, policy),
              absl::StrCat("signature.missing: refused at gate 'signature': no signature, expected one by ours (",
                           our_id, ")"));
    EXPECT_EQ(OutcomeOf(file, policy, by_theirs),
              absl::StrCat("signature.untrusted-key: refused at gate 'signature': signed by key ", their_id,
                           ", trusted are ours (", our_id, ")"));
    EXPECT_EQ(OutcomeOf(file, policy, "").substr(0, 16), "signature.format");
  }
  policy.keyring->keys.push_back({"theirs", theirs.public_key()});
  EXPECT_EQ(OutcomeOf(file, policy, by_theirs), "signed by theirs, forged");

  // Under the id of a trusted key, by another.
  policy.keyring->keys[0].key.id = theirs.public_key().id;
  policy.keyring->keys.pop_back();
  EXPECT_EQ(OutcomeOf(file, policy, by_theirs).substr(0, 15), "signature.bytes");
}

TEST(Policy, SerialsBindTheirStream) {
  const SecretKey key = *SecretKey::Generate();
  const Plan plan = TwoRanks();
  const std::string file = *SealPlan(plan, 7);
  const std::string signature = *SignDetached(file, key, "");
  Policy policy;
  policy.keyring = KeyringOf(key, "key");
  policy.keyring->min_serials = {{StreamOf("another deployment"), 100}, {StreamOf(plan.deployment_name), 7}};
  EXPECT_EQ(OutcomeOf(file, policy, signature), "signed by key, ");
  policy.keyring->min_serials[1].min_serial = 8;
  EXPECT_EQ(OutcomeOf(file, policy, signature),
            "policy.serial: refused at gate 'policy': serial 7, the lowest one accepted of this deployment is 8");
}

TEST(Policy, RevokedComesBeforeEverythingElse) {
  const SecretKey key = *SecretKey::Generate();
  const std::string file = *SealPlan(TwoRanks(), 7);
  const std::string signature = *SignDetached(file, key, "");
  Policy policy;
  policy.keyring = KeyringOf(key, "key");
  policy.pinned_id = FactsOf(file).plan_id;
  policy.keyring->revoked_plans = {Sha256("another plan")};
  EXPECT_EQ(OutcomeOf(file, policy, signature), "signed by key, ");
  policy.keyring->revoked_plans.push_back(FactsOf(file).plan_id);
  EXPECT_EQ(OutcomeOf(file, policy, signature),
            absl::StrCat("policy.revoked: refused at gate 'policy': plan id ", HexOf(FactsOf(file).plan_id),
                         " is revoked by the keyring"));
}

TEST(Policy, SomebodyVouchesForAPlanForSeveralHosts) {
  const SecretKey key = *SecretKey::Generate();
  const std::string file = *SealPlan(TwoHosts(), 7);
  const std::string signature = *SignDetached(file, key, "");
  const std::string refused =
      "policy.unsigned-hosts: refused at gate 'policy': a plan for 2 hosts that nobody vouches for (--trust, --pin, or "
      "--allow-unsigned-hosts)";
  EXPECT_EQ(OutcomeOf(file, Policy{}), refused);
  EXPECT_EQ(OutcomeOf(file, Policy{}, signature), refused);  // by whomever
  Policy policy;
  policy.allow_unsigned_hosts = true;
  EXPECT_EQ(OutcomeOf(file, policy), "sealed");
  policy = Policy{};
  policy.pinned_id = FactsOf(file).plan_id;
  EXPECT_EQ(OutcomeOf(file, policy), "sealed");
  policy = Policy{};
  policy.keyring = KeyringOf(key, "key");
  EXPECT_EQ(OutcomeOf(file, policy, signature), "signed by key, ");

  // One host of two is one host.
  Plan plan = TwoHosts();
  plan.mesh.nodes[1].slots = 2;
  plan.mesh.rank_slots = {{1, 0}, {1, 1}};
  EXPECT_EQ(OutcomeOf(*SealPlan(plan, 7), Policy{}), "sealed");
}

}  // namespace
}  // namespace meshseal
