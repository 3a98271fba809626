#include "tests/faults/operations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compiler/driver/compile.h"
#include "schema/keyring.h"
#include "schema/minisign_key.h"
#include "schema/minisign_signature.h"
#include "schema/reason.h"
#include "schema/sealed_digests.h"
#include "schema/sealed_plan.h"
#include "schema/small_file.h"
#include "schema/status_macros.h"
#include "schema/within_memory.h"
#include "tools/cli/whole_file.h"

namespace meshseal::faults {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kComment = "plan of the failure loops";

// A digest list of eight tensors of three leaves.
WeightDigests SmallList() {
  WeightDigests list;
  list.model_name = "model";
  list.source = WeightSource::kGguf;
  list.layers = {{{{0, 2}}, {128, 256}, {64}}};
  for (int i = 0; i < 8; ++i) {
    const std::string name = absl::StrCat(i, ": a name that is long enough for memory of its own");
    TensorDigests tensor = {name, DType::kF32, {4, 6}, 96, {}, {Sha256("1"), Sha256("2"), Sha256("3")}};
    tensor.root = TreeRoot(tensor.name, tensor.dtype, tensor.shape, tensor.leaves);
    list.tensors.push_back(std::move(tensor));
  }
  return list;
}

// The content of an opened plan as bytes: sealed again.
std::string Resealed(const SealedPlan& plan) { return SealPlan(plan.plan(), plan.serial()).value(); }

class OpenOperation : public Operation {
 public:
  explicit OpenOperation(fs::path plan) : path_(std::move(plan)) {}

  absl::Status Run() override {
    MESHSEAL_ASSIGN_OR_RETURN(file_, ReadPlanFile(path_));
    MESHSEAL_ASSIGN_OR_RETURN(SealedPlan plan, SealedPlan::Open(file_, Policy{}));
    plan_.emplace(std::move(plan));
    return absl::OkStatus();
  }
  std::string Result() override { return Resealed(*plan_); }
  void Clear() override {
    std::string().swap(file_);
    plan_.reset();
  }

 private:
  const fs::path path_;
  std::string file_;
  std::optional<SealedPlan> plan_;
};

class OpenDigestsOperation : public Operation {
 public:
  explicit OpenDigestsOperation(fs::path list) : path_(std::move(list)) {}

  absl::Status Run() override {
    MESHSEAL_ASSIGN_OR_RETURN(file_, ReadDigestsFile(path_));
    MESHSEAL_ASSIGN_OR_RETURN(SealedDigests list, SealedDigests::Open(file_));
    list_.emplace(std::move(list));
    return absl::OkStatus();
  }
  std::string Result() override { return SealDigests(list_->digests()).value(); }
  void Clear() override {
    std::string().swap(file_);
    list_.reset();
  }

 private:
  const fs::path path_;
  std::string file_;
  std::optional<SealedDigests> list_;
};

class SignOperation : public Operation {
 public:
  SignOperation(fs::path plan, fs::path key, fs::path signature)
      : plan_(std::move(plan)), key_(std::move(key)), signature_(std::move(signature)), secret_(SecretIn(key_)) {}

  absl::Status Run() override {
    MESHSEAL_ASSIGN_OR_RETURN(const std::string file, ReadPlanFile(plan_));
    MESHSEAL_ASSIGN_OR_RETURN(std::string key_file,
                              ReadSmallFile(key_, "a secret key", kMaxSecretKeyFile, Reason::kKeyFormat));
    MESHSEAL_ASSIGN_OR_RETURN(const SecretText text, WithinMemory([&]() -> absl::StatusOr<SecretText> {
                                return SecretText(std::move(key_file));
                              }));
    MESHSEAL_ASSIGN_OR_RETURN(const SecretKey key, SecretKey::Parse(text.view(), std::nullopt));
    MESHSEAL_ASSIGN_OR_RETURN(const std::string signature, SignDetached(file, key, kComment));
    return tools::WriteWholeFile(signature_, {signature});
  }
  std::string Result() override { return ContentOf(signature_); }
  void Clear() override {}
  fs::path output() const override { return signature_; }
  std::string secret() const override { return secret_; }

 private:
  // The last bytes of the key's base64: part of the secret itself.
  static std::string SecretIn(const fs::path& key) {
    const std::string text = ContentOf(key);
    return text.substr(text.size() - 100, 40);
  }

  const fs::path plan_;
  const fs::path key_;
  const fs::path signature_;
  const std::string secret_;
};

class VerifyOperation : public Operation {
 public:
  VerifyOperation(fs::path plan, fs::path keyring) : path_(std::move(plan)), keyring_(std::move(keyring)) {}

  absl::Status Run() override {
    Policy policy;
    policy.require_signature = true;
    MESHSEAL_ASSIGN_OR_RETURN(policy.keyring, ReadKeyring(keyring_));
    MESHSEAL_ASSIGN_OR_RETURN(const std::string file, ReadPlanFile(path_));
    MESHSEAL_ASSIGN_OR_RETURN(const std::optional<std::string> signature, ReadSignatureFile(path_));
    MESHSEAL_ASSIGN_OR_RETURN(SealedPlan plan, SealedPlan::Open(file, policy, signature));
    plan_.emplace(std::move(plan));
    return absl::OkStatus();
  }
  std::string Result() override {
    const Signer& signer = plan_->signer().value();
    return absl::StrCat(Resealed(*plan_), signer.name, KeyIdText(signer.key_id), signer.trusted_comment);
  }
  void Clear() override { plan_.reset(); }

 private:
  const fs::path path_;
  const fs::path keyring_;
  std::optional<SealedPlan> plan_;
};

class CompileOperation : public Operation {
 public:
  CompileOperation(std::string deployment, fs::path plan) : plan_(std::move(plan)) {
    request_.deployment = std::move(deployment);
    request_.serial = 7;
  }

  absl::Status Run() override {
    const absl::StatusOr<compiler::CompileResult> result = compiler::Compile(request_);
    if (!result.ok()) return result.status();
    if (!result->diagnostics.ok() || result->diagnostics.has_warnings()) return absl::InternalError("");
    return tools::WriteWholeFile(plan_, {result->sealed});
  }
  std::string Result() override { return ContentOf(plan_); }
  void Clear() override {}
  fs::path output() const override { return plan_; }

 private:
  const fs::path plan_;
  compiler::CompileRequest request_;
};

}  // namespace

std::string ContentOf(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream.good()) << path;
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

void WriteContent(const fs::path& path, const std::string& content) {
  std::ofstream stream(path, std::ios::binary);
  stream << content;
  EXPECT_TRUE(stream.flush().good()) << path;
}

std::vector<std::string> NamesIn(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

Workplace::Workplace() {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  folder_ = fs::path(testing::TempDir()) / absl::StrCat("faults_", test.test_suite_name(), "_", test.name());
  fs::remove_all(folder_);
  fs::create_directories(folder_ / "keyring");
  const fs::path data = fs::path(MESHSEAL_TEST_DATA) / "minisign";
  fs::copy_file(data / "plain.pub", folder_ / "keyring" / "first.pub");
  fs::copy_file(data / "password.pub", folder_ / "keyring" / "second.pub");
  WriteContent(folder_ / "keyring" / "min-serials", "# lowest serials\n7 tiny-1\n");
  WriteContent(folder_ / "keyring" / "revoked-plans", std::string(64, '0') + "\n");
  fs::copy_file(data / "plain.key", folder_ / "plain.key");
  EXPECT_EQ(CompileOperation(MESHSEAL_MANIFESTS "/deployments/tiny-1.yaml", folder_ / "tiny-1.mseal").Run(),
            absl::OkStatus());
  EXPECT_EQ(SignOperation(folder_ / "tiny-1.mseal", folder_ / "plain.key", folder_ / "tiny-1.mseal.minisig").Run(),
            absl::OkStatus());
  WriteContent(folder_ / "digests", SealDigests(SmallList()).value());
}

Workplace::~Workplace() { fs::remove_all(folder_); }

std::unique_ptr<Operation> Workplace::Open() const { return std::make_unique<OpenOperation>(folder_ / "tiny-1.mseal"); }

std::unique_ptr<Operation> Workplace::Sign() const {
  return std::make_unique<SignOperation>(folder_ / "tiny-1.mseal", folder_ / "plain.key", folder_ / "new.minisig");
}

std::unique_ptr<Operation> Workplace::Verify() const {
  return std::make_unique<VerifyOperation>(folder_ / "tiny-1.mseal", folder_ / "keyring");
}

std::unique_ptr<Operation> Workplace::Compile() const {
  return std::make_unique<CompileOperation>(MESHSEAL_MANIFESTS "/deployments/tiny-1.yaml", folder_ / "new.mseal");
}

std::unique_ptr<Operation> Workplace::OpenDigests() const {
  return std::make_unique<OpenDigestsOperation>(folder_ / "digests");
}

}  // namespace meshseal::faults
