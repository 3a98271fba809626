// The C interface: what it refuses with which words, what it hands over, and a program in C that runs a layer.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/include/meshseal/meshseal.h"
#include "schema/fingerprint.h"
#include "schema/minisign_key.h"
#include "schema/minisign_signature.h"
#include "schema/safetensors.h"
#include "schema/sealed_plan.h"
#include "tests/runtime/c_error_text.h"
#include "tests/runtime/oracle.h"
#include "tests/runtime/recorded_model.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/digest_list.h"
#include "tests/support/plan_builder.h"

namespace meshseal::runtime {
namespace {

using support::TempFolder;

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
  std::string Replace(uint64_t* model) { return TextOf(meshseal_session_replace(session_, plan_, &options_, model)); }
  std::string Run() { return TextOf(meshseal_session_run(session_, &run_)); }

  // A session of a plan of `n` with weights that are made.
  void CreateSynthetic(support::PlanNumbers n) {
    n.weight_source = WeightSource::kSynthetic;
    file_ = *SealPlan(support::BuildPlan(n), 7);
    ASSERT_EQ(Open(), "ok");
    ASSERT_EQ(Create(), "ok");
  }
  // A decode of `tokens` rows through layer 0 of the open plan, whose output is in output_.
  void SetRun(uint32_t tokens) {
    hidden_ = support::RandomValues(size_t{tokens} * meshseal_plan_hidden(plan_), 3);
    output_.assign(hidden_.size(), 0);
    run_ = MESHSEAL_RUN;
    run_.phase = MESHSEAL_DECODE;
    run_.tokens = tokens;
    run_.elements = hidden_.size();
    run_.hidden = hidden_.data();
    run_.output = output_.data();
  }

  const TempFolder folder_;
  std::string file_ = *SealPlan(support::BuildPlan(RecordedModel()), 7);
  meshseal_policy policy_ = MESHSEAL_POLICY;
  meshseal_session_options options_ = MESHSEAL_SESSION_OPTIONS;
  meshseal_plan* plan_ = nullptr;
  meshseal_session* session_ = nullptr;
  meshseal_run run_ = MESHSEAL_RUN;
  std::vector<float> hidden_;
  std::vector<float> output_;
};

TEST_F(CApiTest, APlanSaysWhatItIs) {
  ASSERT_EQ(Open(), "ok");
  const SealedPlan same = SealedPlan::Open(file_, Policy{}).value();
  EXPECT_EQ(meshseal_plan_id(plan_), HexOf(same.id()));
  EXPECT_EQ(meshseal_plan_serial(plan_), 7u);
  EXPECT_EQ(meshseal_plan_hidden(plan_), 256u);
  EXPECT_EQ(meshseal_plan_layers(plan_), 3u);
  EXPECT_EQ(meshseal_plan_world(plan_), 1u);
  EXPECT_EQ(meshseal_plan_replicas(plan_), 1u);
  EXPECT_EQ(meshseal_plan_top_k(plan_, 2), 4u);
  EXPECT_EQ(meshseal_plan_top_k(plan_, 3), 0u);
  EXPECT_EQ(meshseal_plan_signer(plan_), nullptr);
  EXPECT_EQ(meshseal_plan_signer_key_id(plan_), nullptr);
  EXPECT_EQ(meshseal_plan_trusted_comment(plan_), nullptr);
  EXPECT_EQ(meshseal_abi_version(), uint32_t{MESHSEAL_ABI_VERSION});
}

TEST_F(CApiTest, ALayerWithoutExpertsSelectsNone) {
  support::PlanNumbers n;
  n.layers = 3;
  n.moe_layers = {{1, 2}};
  file_ = *SealPlan(support::BuildPlan(n), 7);
  ASSERT_EQ(Open(), "ok");
  EXPECT_EQ(meshseal_plan_top_k(plan_, 0), 0u);
  EXPECT_EQ(meshseal_plan_top_k(plan_, 1), 2u);
  EXPECT_EQ(meshseal_plan_top_k(plan_, 2), 0u);
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
  options_.backend = nullptr;
  EXPECT_EQ(Create(), "2 usage: options->backend is NULL");
  uint64_t model = 0;
  EXPECT_EQ(Run(), "2 usage: session is NULL");
  EXPECT_EQ(Replace(&model), "2 usage: session is NULL");
  EXPECT_EQ(TextOf(meshseal_session_unload(nullptr, 1)), "2 usage: session is NULL");
  EXPECT_EQ(meshseal_session_model(nullptr), 0u);
  EXPECT_EQ(meshseal_plan_id(nullptr), nullptr);
  EXPECT_EQ(meshseal_plan_signer(nullptr), nullptr);
  EXPECT_EQ(meshseal_plan_signer_key_id(nullptr), nullptr);
  EXPECT_EQ(meshseal_plan_trusted_comment(nullptr), nullptr);
  EXPECT_EQ(meshseal_plan_serial(nullptr) + meshseal_plan_hidden(nullptr) + meshseal_plan_layers(nullptr) +
                meshseal_plan_world(nullptr) + meshseal_plan_top_k(nullptr, 0),
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
    change(options_);
    return Create();
  };
  EXPECT_EQ(refusal([](auto& o) { o.struct_size = 0; }),
            absl::StrCat("2 usage: options->struct_size is 0, this version's is ", sizeof(options_)));
  EXPECT_EQ(refusal([](auto& o) { o.unverified_weights = 2; }),
            "2 usage: options->unverified_weights is 2, expected 0 or 1");
  EXPECT_EQ(refusal([](auto& o) { o.emulate = 3; }), "2 usage: options->emulate is 3, expected 0 or 1");
  EXPECT_EQ(refusal([](auto& o) { o.deadline_ms = 0; }), "2 usage: options->deadline_ms is 0");
  EXPECT_EQ(refusal([](auto& o) { o.load_deadline_ms = 0; }), "2 usage: options->load_deadline_ms is 0");
  EXPECT_EQ(refusal([](auto& o) { o.isolated_network = 2; }),
            "2 usage: options->isolated_network is 2, expected 0 or 1");
  EXPECT_EQ(refusal([](auto& o) { o.without_management_library = -1; }),
            "2 usage: options->without_management_library is -1, expected 0 or 1");
  EXPECT_EQ(refusal([](auto& o) {
              o.isolated_network = 1;
              o.job_key = "/does/not/exist";
            }),
            "2 usage: options->job_key and options->isolated_network are both given, expected one of them");
  EXPECT_EQ(refusal([](auto& o) { o.job_key = "/does/not/exist"; }),
            "2 usage: job key /does/not/exist: No such file or directory");
  EXPECT_EQ(refusal([](auto& o) { o.load_threads = 1025; }),
            "2 usage: options->load_threads is 1025, expected at most 1024");

  options_ = MESHSEAL_SESSION_OPTIONS;
  CreateSynthetic({});
  SetRun(1);
  run_.struct_size = 1;
  EXPECT_EQ(Run(), absl::StrCat("2 usage: run->struct_size is 1, this version's is ", sizeof(run_)));
  SetRun(1);
  std::vector<int32_t> ends(2, 9);
  run_.replica_ends = ends.data();
  for (const uint32_t replicas : {0u, 2u}) {
    run_.replicas = replicas;
    EXPECT_EQ(Run(), absl::StrCat("2 usage: run->replicas is ", replicas, ", the plan has 1"));
  }
  EXPECT_EQ(ends, std::vector<int32_t>(2, 9));
  EXPECT_EQ(TextOf(meshseal_session_run(session_, nullptr)), "2 usage: run is NULL");
  EXPECT_EQ(TextOf(meshseal_session_replace(session_, plan_, &options_, nullptr)), "2 usage: model is NULL");
  EXPECT_EQ(TextOf(meshseal_session_replace(session_, plan_, nullptr, &run_.model)), "2 usage: options is NULL");
  EXPECT_EQ(TextOf(meshseal_session_replace(session_, nullptr, &options_, &run_.model)), "2 usage: plan is NULL");
  EXPECT_EQ(run_.model, 0u);
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
  const std::vector<int32_t> experts = Recorded<int32_t>(recorded, "layer.1.expert_ids");
  const std::vector<float> expert_weights = Recorded<float>(recorded, "layer.1.expert_weights");
  SetRun(7);
  hidden_ = hidden;
  const auto run = [&](int32_t phase, const float* in, float* out, size_t elements) {
    run_.layer = 1;
    run_.phase = phase;
    run_.hidden = in;
    run_.output = out;
    run_.elements = elements;
    return Run();
  };
  EXPECT_EQ(run(0, hidden_.data(), output_.data(), hidden_.size()),
            "2 usage: run->phase is 0, expected MESHSEAL_DECODE or MESHSEAL_PREFILL");
  EXPECT_EQ(run(MESHSEAL_PREFILL, nullptr, output_.data(), hidden_.size()), "2 usage: run->hidden is NULL");
  EXPECT_EQ(run(MESHSEAL_PREFILL, hidden_.data(), nullptr, hidden_.size()), "2 usage: run->output is NULL");
  EXPECT_EQ(run(MESHSEAL_PREFILL, nullptr, nullptr, 0),
            "2 usage: hidden has 0 and output 0 elements, 7 tokens have 1792");
  EXPECT_EQ(run(MESHSEAL_PREFILL, output_.data(), output_.data(), output_.size()),
            "2 usage: hidden and output overlap");
  for (const int32_t phase : {MESHSEAL_DECODE, MESHSEAL_PREFILL}) {
    ASSERT_EQ(run(phase, hidden_.data(), output_.data(), hidden_.size()), "ok");
    EXPECT_LE(support::RelativeDifference(output_, expected), 2e-6);
  }

  // What it selected, both or one of them; of exactly their size.
  std::vector<int32_t> ids(28, -1);
  std::vector<float> weights_of(28, -1);
  run_.selected_ids = ids.data();
  run_.selected_weights = weights_of.data();
  for (const size_t slots : {size_t{0}, size_t{27}, size_t{29}}) {
    run_.slots = slots;
    EXPECT_EQ(Run(), absl::StrCat("2 usage: run->slots is ", slots, ", 7 tokens of 4 experts have 28"));
  }
  EXPECT_EQ(ids, std::vector<int32_t>(28, -1));
  run_.slots = 28;
  ASSERT_EQ(Run(), "ok");
  EXPECT_EQ(ids, experts);
  EXPECT_LE(support::RelativeDifference(weights_of, expert_weights), 2e-6);
  ids.assign(28, -1);
  run_.selected_weights = nullptr;
  ASSERT_EQ(Run(), "ok");
  EXPECT_EQ(ids, experts);
  run_.layer = 3;
  EXPECT_EQ(Run(), "2 usage: layer 3 is not a layer with experts of this plan");

  run_ = MESHSEAL_RUN;
  run_.phase = MESHSEAL_DECODE;
  EXPECT_EQ(Run(), "ok");  // no token
}

TEST_F(CApiTest, AReplicaThatFailsAloneLeavesTheOthers) {
  support::PlanNumbers n;
  n.dp = 2;
  n.failure_scope = FailureScope::kReplica;
  CreateSynthetic(n);
  EXPECT_EQ(meshseal_plan_replicas(plan_), 2u);
  SetRun(4);
  std::vector<int32_t> ends(2, 9);
  std::vector<int32_t> ids(4 * meshseal_plan_top_k(plan_, 0), 9);
  std::vector<float> weights(ids.size());
  run_.replicas = 2;
  run_.replica_ends = ends.data();
  run_.slots = ids.size();
  run_.selected_ids = ids.data();
  run_.selected_weights = weights.data();
  ASSERT_EQ(Run(), "ok");
  EXPECT_EQ(ends, (std::vector<int32_t>{MESHSEAL_REPLICA_WELL, MESHSEAL_REPLICA_WELL}));
  const std::vector<float> output = output_;
  const std::vector<int32_t> selected = ids;
  hidden_[0] = NAN;  // of the first replica, which has two rows
  EXPECT_EQ(
      Run(),
      "8 compute.non-finite: replica 0 (rank 0) failed: rank 0 (dp0 pp0 tp0 ep0): layer 0, step 0 route: token 0: "
      "the router score of expert 0 is not finite; replica 1 ended well");
  EXPECT_EQ(ends, (std::vector<int32_t>{MESHSEAL_REPLICA_FAILED, MESHSEAL_REPLICA_WELL}));
  for (size_t i = 0; i < output.size(); ++i) {
    if (i < output.size() / 2) {
      EXPECT_TRUE(std::isnan(output_[i]));
    } else {
      EXPECT_EQ(output_[i], output[i]);
    }
  }
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(ids[i], i < ids.size() / 2 ? -1 : selected[i]);
}

TEST_F(CApiTest, WithoutAnMpiThereAreNoProcesses) {
  const meshseal_mpi_options options = MESHSEAL_MPI_OPTIONS;
  meshseal_world* world = nullptr;
  EXPECT_EQ(TextOf(meshseal_mpi_start(&options, &world)),
            "2 not-built: libmeshseal has no MPI: link libmeshseal_mpi to run ranks as processes");
  EXPECT_EQ(world, nullptr);
  EXPECT_EQ(meshseal_world_rank(world), 0u);
  EXPECT_EQ(meshseal_world_size(world), 0u);
  meshseal_world_finish(world, nullptr, MESHSEAL_OTHERS_END);
}

// As for `run`: the plan's hosts need a key or an isolated network, before anything is opened.
TEST_F(CApiTest, RanksOnSeveralHostsNeedAKey) {
  support::PlanNumbers n;
  n.ep = 2;
  n.weight_source = WeightSource::kSynthetic;
  Plan plan = support::BuildPlan(n);
  plan.mesh.emulated = false;
  plan.mesh.nodes = {{"node0", 0, 1, 0, {}}, {"node1", 0, 1, 0, {}}};
  plan.mesh.rank_slots = {{0, 0}, {1, 0}};
  plan.execution_fingerprint = ExecutionFingerprint(plan);
  file_ = *SealPlan(plan, 7);
  policy_.allow_unsigned_hosts = 1;
  ASSERT_EQ(Open(), "ok");
  EXPECT_EQ(
      Create(),
      "4 preflight.job-key: preflight: the plan's ranks are on several hosts, and nothing tells who may join: give "
      "every rank the same --job-key FILE, or say --isolated-network");
  const std::string key = (folder_.path() / "key").string();
  support::WriteFile(key, std::string(32, 'k'));
  std::filesystem::permissions(key, std::filesystem::perms::owner_read);
  for (const bool has_key : {false, true}) {
    options_ = MESHSEAL_SESSION_OPTIONS;
    options_.job_key = has_key ? key.c_str() : nullptr;
    options_.isolated_network = has_key ? 0 : 1;
    ASSERT_EQ(Open(), "ok");
    const std::string text = Create();  // threads are on one host
    EXPECT_TRUE(absl::StartsWith(text, "4 preflight.record: rank 0 (dp0 pp0 tp0 ep0): preflight: host ")) << text;
  }
}

TEST_F(CApiTest, WeightsAreNamedOrMade) {
  ASSERT_EQ(Open(), "ok");
  options_.unverified_weights = 1;
  EXPECT_EQ(Create(), "2 usage: 0 weights folders for 1 ranks, expected one for all or one per rank");
  options_ = MESHSEAL_SESSION_OPTIONS;
  CreateSynthetic({});
  SetRun(3);
  EXPECT_EQ(Run(), "ok");
  EXPECT_NE(output_, std::vector<float>(output_.size(), 0));
  options_.weights = "/does/not/exist";
  uint64_t model = 9;
  ASSERT_EQ(Open(), "ok");
  EXPECT_EQ(Replace(&model),
            "2 usage: rank 0 (dp0 pp0 tp0 ep0): /does/not/exist: the plan's weights are synthetic, nothing is read");
  EXPECT_EQ(model, 9u);
  EXPECT_EQ(meshseal_session_model(session_), 1u);
}

TEST_F(CApiTest, WeightsAreVerifiedByTheListThatThePlanBinds) {
  Plan plan = support::BuildPlan({});
  support::Checkpoint checkpoint = support::RandomCheckpoint(plan, 5);
  support::WriteCheckpoint(folder_.path(), checkpoint);
  const std::string weights = folder_.path().string();
  const std::string digests = (folder_.path() / "list").string();
  support::WriteFile(digests, support::BindDigests(folder_.path(), &plan));
  file_ = *SealPlan(plan, 7);
  options_.weights = weights.c_str();
  options_.digests = digests.c_str();
  options_.load_threads = 3;
  ASSERT_EQ(Open(), "ok");
  ASSERT_EQ(Create(), "ok");
  uint64_t model = 0;
  support::Tensor(checkpoint, "layers.0.experts.5.up").values[0] += 1;
  support::WriteCheckpoint(folder_.path(), checkpoint);
  ASSERT_EQ(Open(), "ok");
  EXPECT_EQ(Replace(&model),
            absl::StrCat("5 weights.digest: rank 0 (dp0 pp0 tp0 ep0): ", weights,
                         "/model.safetensors: tensor 'layers.0.experts.5.up': expert 5, leaf 0 of 1: the bytes are not "
                         "those of the digest list"));
  options_.digests = nullptr;
  ASSERT_EQ(Open(), "ok");
  EXPECT_EQ(Replace(&model), absl::StrCat("5 weights.unverified: the plan binds the weights digests ",
                                          HexOf(plan.weights_digest).substr(0, 16),
                                          "..., and no list is given; give it, or allow unverified weights"));
  options_.unverified_weights = 1;
  ASSERT_EQ(Open(), "ok");
  EXPECT_EQ(Replace(&model), "ok");
  EXPECT_EQ(model, 2u);
}

TEST_F(CApiTest, TheCallersRoutingIsTaken) {
  support::PlanNumbers n;
  n.router.scoring = Scoring::kPrecomputed;
  n.router.renormalize = Renormalize::kNone;
  CreateSynthetic(n);
  SetRun(2);
  const std::vector<int32_t> ids = {3, 0, 7, 1};
  const std::vector<float> weights = {1, 0.5f, 0.25f, 2};
  run_.slots = 4;
  run_.given_ids = ids.data();
  EXPECT_EQ(Run(), "2 usage: layer 0 reads 4 expert weights, 0 are given: its routing is route_given");
  run_.given_weights = weights.data();
  run_.slots = 3;
  EXPECT_EQ(Run(), "2 usage: layer 0 reads 4 expert ids, 3 are given: its routing is route_given");
  run_.slots = 4;
  std::vector<int32_t> selected(4);
  std::vector<float> selected_weights(4);
  run_.selected_ids = selected.data();
  run_.selected_weights = selected_weights.data();
  ASSERT_EQ(Run(), "ok");
  EXPECT_EQ(selected, ids);
  EXPECT_EQ(selected_weights, weights);
}

TEST_F(CApiTest, TokenIdsSelectRowsOfTheTable) {
  support::PlanNumbers n;
  n.router.vocabulary = 5;
  CreateSynthetic(n);
  SetRun(3);
  EXPECT_EQ(Run(), "2 usage: layer 0 reads 3 token ids, 0 are given: its routing is route_by_table");
  const std::vector<int32_t> ids = {4, 1, 4};
  run_.token_ids = ids.data();
  std::vector<int32_t> selected(6);
  run_.slots = 6;
  run_.selected_ids = selected.data();
  ASSERT_EQ(Run(), "ok");
  EXPECT_EQ(selected[0], selected[4]);
  EXPECT_EQ(selected[1], selected[5]);
}

TEST_F(CApiTest, AnotherModelTakesThePlaceAndIsUnloaded) {
  CreateSynthetic({});
  EXPECT_EQ(meshseal_session_model(session_), 1u);
  SetRun(3);
  run_.model = 1;
  ASSERT_EQ(Run(), "ok");
  const std::vector<float> before = output_;
  uint64_t model = 0;
  EXPECT_EQ(Replace(&model), "2 usage: the plan was moved from: it is another session's");
  support::PlanNumbers n;
  n.weight_source = WeightSource::kSynthetic;
  n.experts = 4;
  file_ = *SealPlan(support::BuildPlan(n), 8);
  ASSERT_EQ(Open(), "ok");
  ASSERT_EQ(Replace(&model), "ok");
  EXPECT_EQ(model, 2u);
  EXPECT_EQ(meshseal_session_model(session_), 2u);
  EXPECT_EQ(Run(), "5 weights.stale: model 1 is not resident, model 2 is");
  run_.model = 0;
  ASSERT_EQ(Run(), "ok");
  EXPECT_NE(output_, before);
  EXPECT_EQ(TextOf(meshseal_session_unload(session_, 1)), "5 weights.stale: model 1 is not resident, model 2 is");
  EXPECT_EQ(TextOf(meshseal_session_unload(session_, 2)), "ok");
  EXPECT_EQ(TextOf(meshseal_session_unload(session_, 2)), "ok");
  EXPECT_EQ(meshseal_session_model(session_), 0u);
  EXPECT_EQ(Run(), "5 weights.stale: model 0 is not resident, none is");
  std::vector<int32_t> ids(6);
  run_.slots = 6;
  run_.selected_ids = ids.data();
  EXPECT_EQ(Run(), "5 weights.stale: no model is resident");
}

// Runs that want to know what was selected go on while models of another k come and go.
TEST_F(CApiTest, ARunHasOneModelWhileOthersComeAndGo) {
  CreateSynthetic({});
  std::vector<std::string> files;
  for (const uint32_t top_k : {3u, 2u}) {
    support::PlanNumbers n;
    n.weight_source = WeightSource::kSynthetic;
    n.top_k = top_k;
    files.push_back(*SealPlan(support::BuildPlan(n), 7));
  }
  SetRun(2);
  std::vector<int32_t> ids(4);
  run_.slots = 4;
  run_.selected_ids = ids.data();
  std::atomic<bool> done{false};
  std::vector<std::string> others;  // than these
  std::thread runner([&] {
    while (!done.load()) {
      const std::string text = Run();
      const bool stale = text.substr(0, 16) == "5 weights.stale:";
      if (text != "ok" && !stale && text != "2 usage: run->slots is 4, 2 tokens of 3 experts have 6") {
        others.push_back(text);
      }
    }
  });
  for (size_t i = 0; i < 20; ++i) {
    file_ = files[i % 2];
    uint64_t model = 0;
    EXPECT_EQ(Open(), "ok");
    EXPECT_EQ(Replace(&model), "ok");
    EXPECT_EQ(model, i + 2);
  }
  done.store(true);
  runner.join();
  EXPECT_EQ(others, std::vector<std::string>());
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
