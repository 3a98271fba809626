// The C interface: what it refuses with which words, and a program in C that runs a layer.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/include/meshseal/meshseal.h"
#include "schema/minisign_key.h"
#include "schema/minisign_signature.h"
#include "schema/safetensors.h"
#include "schema/sealed_plan.h"
#include "tests/runtime/oracle.h"
#include "tests/runtime/recorded_model.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/plan_builder.h"

namespace meshseal::runtime {
namespace {

using support::TempFolder;

// "3 digest.payload: TEXT"; "ok" for NULL.
std::string TextOf(meshseal_error* error) {
  if (error == nullptr) return "ok";
  const std::string text = absl::StrCat(meshseal_error_exit_code(error), " ", meshseal_error_reason(error), ": ",
                                        meshseal_error_text(error));
  meshseal_error_free(error);
  return text;
}

class CApiTest : public testing::Test {
 protected:
  ~CApiTest() override {
    meshseal_session_destroy(session_);
    meshseal_plan_close(plan_);
  }

  std::string Open(const std::string& signature = "") {
    meshseal_plan_close(plan_);
    plan_ = nullptr;
    return TextOf(meshseal_plan_open(file_.data(), file_.size(), signature.empty() ? nullptr : signature.data(),
                                     signature.size(), &policy_, &plan_));
  }
  std::string Create() { return TextOf(meshseal_session_create(plan_, &options_, &session_)); }

  const TempFolder folder_;
  std::string file_ = *SealPlan(support::BuildPlan(RecordedModel()), 7);
  meshseal_policy policy_ = MESHSEAL_POLICY;
  meshseal_session_options options_ = MESHSEAL_SESSION_OPTIONS;
  meshseal_plan* plan_ = nullptr;
  meshseal_session* session_ = nullptr;
};

TEST_F(CApiTest, APlanSaysWhatItIs) {
  ASSERT_EQ(Open(), "ok");
  const SealedPlan same = SealedPlan::Open(file_, Policy{}).value();
  EXPECT_EQ(meshseal_plan_id(plan_), HexOf(same.id()));
  EXPECT_EQ(meshseal_plan_serial(plan_), 7u);
  EXPECT_EQ(meshseal_plan_hidden(plan_), 256u);
  EXPECT_EQ(meshseal_plan_layers(plan_), 3u);
  EXPECT_EQ(meshseal_plan_world(plan_), 1u);
  EXPECT_EQ(meshseal_plan_signer(plan_), nullptr);
  EXPECT_EQ(meshseal_plan_signer_key_id(plan_), nullptr);
  EXPECT_EQ(meshseal_plan_trusted_comment(plan_), nullptr);
  EXPECT_EQ(meshseal_abi_version(), uint32_t{MESHSEAL_ABI_VERSION});
}

TEST_F(CApiTest, AChangedPlanIsRefusedAndNothingIsWritten) {
  file_.back() = static_cast<char>(file_.back() ^ 1);
  const std::string text = Open();
  const std::string expected = "3 digest.payload: refused at gate 'digest': the payload hashes to ";
  EXPECT_EQ(text.substr(0, expected.size()), expected) << text;
  EXPECT_EQ(plan_, nullptr);
}

TEST_F(CApiTest, ThePolicyIsAsked) {
  const std::string id = HexOf(SealedPlan::Open(file_, Policy{}).value().id());
  policy_.pinned_id = id.c_str();
  EXPECT_EQ(Open(), "ok");
  const std::string other(64, '0');
  policy_.pinned_id = other.c_str();
  EXPECT_EQ(Open(), absl::StrCat("3 policy.pinned-id: refused at gate 'policy': plan id ", id, ", pinned is ", other));
  policy_.pinned_id = "00";
  EXPECT_EQ(Open(),
            "2 usage: policy->pinned_id: expected the whole plan id, 64 lower-case hexadecimal digits, found '00'");
  policy_.pinned_id = nullptr;
  policy_.min_serial = 8;
  EXPECT_EQ(Open(), "3 policy.serial: refused at gate 'policy': serial 7, the lowest one accepted is 8");
  policy_.min_serial = 7;
  EXPECT_EQ(Open(), "ok");
  policy_.require_signature = 1;
  EXPECT_EQ(Open(),
            "3 signature.keyring: refused at gate 'signature': a signature is required, but no keyring says which keys "
            "are trusted");
}

TEST_F(CApiTest, PlansForSeveralHostsNeedTheLeaveToGoUnsigned) {
  support::PlanNumbers n;
  n.ep = 2;
  Plan plan = support::BuildPlan(n);
  plan.mesh.nodes.push_back(plan.mesh.nodes[0]);
  plan.mesh.nodes[1].name = "node1";
  plan.mesh.rank_slots[1] = {1, 0};
  file_ = *SealPlan(plan, 1);
  EXPECT_EQ(Open().substr(0, 23), "3 policy.unsigned-hosts");
  policy_.allow_unsigned_hosts = 1;
  EXPECT_EQ(Open(), "ok");
}

TEST_F(CApiTest, AKeyringRequiresASignatureAndNamesTheSigner) {
  const SecretKey key = SecretKey::Generate().value();
  const std::string keyring = folder_.path().string();
  support::WriteFile(folder_.path() / "alice.pub", PublicKeyFile(key.public_key()));
  policy_.keyring = keyring.c_str();
  const std::string key_id = KeyIdText(key.public_key().id);
  EXPECT_EQ(Open(),
            absl::StrCat("3 signature.missing: refused at gate 'signature': no signature, expected one by alice (",
                         key_id, ")"));
  ASSERT_EQ(Open(SignDetached(file_, key, "for the C interface").value()), "ok");
  EXPECT_STREQ(meshseal_plan_signer(plan_), "alice");
  EXPECT_EQ(meshseal_plan_signer_key_id(plan_), key_id);
  EXPECT_STREQ(meshseal_plan_trusted_comment(plan_), "for the C interface");
  EXPECT_EQ(Open("not a signature").substr(0, 18), "3 signature.format");
  policy_.keyring = "/does/not/exist";
  EXPECT_EQ(Open().substr(0, 19), "3 signature.keyring");
}

TEST_F(CApiTest, NullArgumentsAreErrors) {
  EXPECT_EQ(TextOf(meshseal_plan_open(nullptr, 1, nullptr, 0, &policy_, &plan_)), "2 usage: bytes is NULL");
  EXPECT_EQ(TextOf(meshseal_plan_open("", 0, nullptr, 1, &policy_, &plan_)), "2 usage: signature is NULL");
  EXPECT_EQ(TextOf(meshseal_plan_open("", 0, nullptr, 0, nullptr, &plan_)), "2 usage: policy is NULL");
  EXPECT_EQ(TextOf(meshseal_plan_open("", 0, nullptr, 0, &policy_, nullptr)), "2 usage: plan is NULL");
  EXPECT_EQ(Create(), "2 usage: plan is NULL");
  ASSERT_EQ(Open(), "ok");
  EXPECT_EQ(TextOf(meshseal_session_create(plan_, nullptr, &session_)), "2 usage: options is NULL");
  EXPECT_EQ(TextOf(meshseal_session_create(plan_, &options_, nullptr)), "2 usage: session is NULL");
  EXPECT_EQ(Create(), "2 usage: options->weights is NULL");
  options_.weights = "weights";
  options_.backend = nullptr;
  EXPECT_EQ(Create(), "2 usage: options->backend is NULL");
  float row = 0;
  EXPECT_EQ(TextOf(meshseal_session_run_layer(nullptr, 0, MESHSEAL_DECODE, 1, &row, &row, 1)),
            "2 usage: session is NULL");
  EXPECT_EQ(meshseal_plan_id(nullptr), nullptr);
  EXPECT_EQ(meshseal_plan_signer(nullptr), nullptr);
  EXPECT_EQ(meshseal_plan_signer_key_id(nullptr), nullptr);
  EXPECT_EQ(meshseal_plan_trusted_comment(nullptr), nullptr);
  EXPECT_EQ(meshseal_plan_serial(nullptr) + meshseal_plan_hidden(nullptr) + meshseal_plan_layers(nullptr) +
                meshseal_plan_world(nullptr),
            0u);
  EXPECT_EQ(meshseal_error_exit_code(nullptr), 0);
  EXPECT_STREQ(meshseal_error_reason(nullptr), "ok");
  EXPECT_STREQ(meshseal_error_text(nullptr), "");
  meshseal_error_free(nullptr);
  meshseal_plan_close(nullptr);
  meshseal_session_destroy(nullptr);
}

TEST_F(CApiTest, StructsOfAnotherVersionAndOtherFlagsAreRefused) {
  policy_.struct_size = 8;
  EXPECT_EQ(Open(), absl::StrCat("2 usage: policy->struct_size is 8, this version's is ", sizeof(policy_)));
  policy_ = MESHSEAL_POLICY;
  policy_.require_signature = 2;
  EXPECT_EQ(Open(), "2 usage: policy->require_signature is 2, expected 0 or 1");
  policy_ = MESHSEAL_POLICY;
  policy_.allow_unsigned_hosts = -1;
  EXPECT_EQ(Open(), "2 usage: policy->allow_unsigned_hosts is -1, expected 0 or 1");
  policy_ = MESHSEAL_POLICY;
  ASSERT_EQ(Open(), "ok");
  const auto refusal = [&](auto change) {
    options_ = MESHSEAL_SESSION_OPTIONS;
    options_.weights = "weights";
    change(options_);
    return Create();
  };
  EXPECT_EQ(refusal([](auto& o) { o.struct_size = 0; }),
            absl::StrCat("2 usage: options->struct_size is 0, this version's is ", sizeof(options_)));
  EXPECT_EQ(refusal([](auto& o) { o.unverified_weights = 2; }),
            "2 usage: options->unverified_weights is 2, expected 0 or 1");
  EXPECT_EQ(refusal([](auto& o) { o.emulate = 3; }), "2 usage: options->emulate is 3, expected 0 or 1");
  EXPECT_EQ(refusal([](auto& o) { o.deadline_ms = 0; }), "2 usage: options->deadline_ms is 0");
  EXPECT_EQ(refusal([](auto& o) { o.reserved = 9; }), "2 usage: options->reserved is 9, expected 0");
}

TEST_F(CApiTest, APlanMakesOneSession) {
  ASSERT_EQ(Open(), "ok");
  options_.weights = "/does/not/exist";
  EXPECT_EQ(Create(),
            "5 weights.unverified: the plan binds no weights digests; allow unverified weights to run it all the same");
  options_.unverified_weights = 1;
  EXPECT_EQ(Create(), "2 usage: the plan was moved from: it is another session's");
  EXPECT_EQ(meshseal_plan_hidden(plan_), 256u);
  EXPECT_EQ(session_, nullptr);
}

TEST_F(CApiTest, ALayerGivesWhatWasRecorded) {
  ASSERT_EQ(Open(), "ok");
  const std::string weights = RecordedFolder().string();
  options_.weights = weights.c_str();
  options_.unverified_weights = 1;
  ASSERT_EQ(Create(), "ok");
  const SafetensorsFile recorded =
      SafetensorsFile::Open(RecordedFolder() / "recorded" / "prompt-7.safetensors").value();
  const std::vector<float> hidden = Recorded<float>(recorded, "layer.1.hidden_in");
  const std::vector<float> expected = Recorded<float>(recorded, "layer.1.hidden_out");
  std::vector<float> output(hidden.size());
  const auto run = [&](int32_t phase, const float* in, float* out, size_t elements) {
    return TextOf(meshseal_session_run_layer(session_, 1, phase, 7, in, out, elements));
  };
  EXPECT_EQ(run(0, hidden.data(), output.data(), hidden.size()),
            "2 usage: phase is 0, expected MESHSEAL_DECODE or MESHSEAL_PREFILL");
  EXPECT_EQ(run(MESHSEAL_PREFILL, nullptr, output.data(), hidden.size()), "2 usage: hidden is NULL");
  EXPECT_EQ(run(MESHSEAL_PREFILL, hidden.data(), nullptr, hidden.size()), "2 usage: output is NULL");
  EXPECT_EQ(run(MESHSEAL_PREFILL, nullptr, nullptr, 0),
            "2 usage: hidden has 0 and output 0 elements, 7 tokens have 1792");
  EXPECT_EQ(run(MESHSEAL_PREFILL, output.data(), output.data(), output.size()), "2 usage: hidden and output overlap");
  for (const int32_t phase : {MESHSEAL_DECODE, MESHSEAL_PREFILL}) {
    ASSERT_EQ(run(phase, hidden.data(), output.data(), hidden.size()), "ok");
    EXPECT_LE(support::RelativeDifference(output, expected), 2e-6);
  }
  EXPECT_EQ(TextOf(meshseal_session_run_layer(session_, 1, MESHSEAL_DECODE, 0, nullptr, nullptr, 0)), "ok");
}

TEST_F(CApiTest, AProgramInCRunsALayer) {
  const SafetensorsFile recorded =
      SafetensorsFile::Open(RecordedFolder() / "recorded" / "prompt-7.safetensors").value();
  std::string command = absl::StrCat("'", MESHSEAL_C_PROGRAM, "'");
  const auto add_file = [&](const std::string& name, const std::string& bytes) {
    support::WriteFile(folder_.path() / name, bytes);
    absl::StrAppend(&command, " '", (folder_.path() / name).string(), "'");
  };
  const auto bytes_of = [&](const std::string& tensor) {
    const std::vector<float> values = Recorded<float>(recorded, tensor);
    return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  };
  add_file("plan.mseal", file_);
  absl::StrAppend(&command, " '", RecordedFolder().string(), "' 7");
  add_file("in", bytes_of("layer.0.hidden_in"));
  add_file("out", bytes_of("layer.0.hidden_out"));
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

}  // namespace
}  // namespace meshseal::runtime
