// A sealed and signed plan: whatever differs from it by a byte is refused, by the gate and for the reason that belong
// to that byte, and so is whatever differs from its signature file.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "schema/gate.h"
#include "schema/minisign_key.h"
#include "schema/minisign_signature.h"
#include "schema/reason.h"
#include "schema/seal.h"
#include "schema/sealed_plan.h"
#include "tests/schema/sample_plans.h"
#include "tests/support/plan_builder.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_data.h"

namespace meshseal {
namespace {

constexpr uint64_t kSerial = 7;
constexpr absl::string_view kComment = "serial 7 of the test deployment";

std::string Data(const std::string& name) { return support::TestData("minisign/" + name); }

Plan Medium() {
  support::PlanNumbers n;
  n.tp = 2;
  n.ep = 4;
  n.layers = 4;
  n.moe_layers = {{0, 1}};
  n.second_layers = {{1, 2}};
  return support::BuildPlan(n);
}

class SignedPlan : public testing::Test {
 protected:
  SignedPlan()
      : key_(*SecretKey::Parse(Data("plain.key"), std::nullopt)),
        file_(*SealPlan(Medium(), kSerial)),
        signature_(*SignDetached(file_, key_, kComment)) {
    policy_.keyring.emplace();
    policy_.keyring->keys.push_back({"plain", key_.public_key()});
    policy_.require_signature = true;
  }

  absl::Status Open(absl::string_view file, absl::string_view signature) const {
    return SealedPlan::Open(file, policy_, signature).status();
  }

  // Counts one change of the plan and whether it was refused; `slugs` are the reasons that may be given for it.
  void ExpectRefused(absl::string_view file, std::initializer_list<absl::string_view> slugs, const std::string& what) {
    ++tried_;
    const absl::Status status = Open(file, signature_);
    const std::optional<Reason> reason = ReasonOf(status);
    const absl::string_view slug = reason.has_value() ? RowOf(*reason).slug : "no reason";
    const bool expected = std::find(slugs.begin(), slugs.end(), slug) != slugs.end();
    const std::string gate(slug.substr(0, slug.find('.')));
    if (expected && absl::StartsWith(status.message(), absl::StrCat("refused at gate '", gate, "': "))) {
      ++refused_;
    } else {
      ADD_FAILURE() << what << ": " << slug << ": " << status;
    }
  }

  void Report(const char* what) {
    std::cout << refused_ << " of " << tried_ << " " << what << " refused\n";
    RecordProperty("tried", std::to_string(tried_));
    RecordProperty("refused", std::to_string(refused_));
    EXPECT_EQ(refused_, tried_);
  }

  const SecretKey key_;
  const std::string file_;
  const std::string signature_;
  Policy policy_;
  size_t tried_ = 0;
  size_t refused_ = 0;
};

// The parts of a sealed file and the reason that refuses a change of each.
struct Part {
  size_t begin;
  size_t end;
  const char* slug;
};
constexpr Part kParts[] = {
    {0, 8, "mark.not-a-plan"},         {8, 12, "format.envelope-version"}, {12, 16, "format.header-length"},
    {16, 24, "size.payload-length"},   {24, 32, "size.total-length"},      {32, 34, "format.digest-algorithm"},
    {34, 36, "format.payload-type"},   {36, 40, "format.feature-bits"},    {40, 48, "digest.header"},  // serial
    {48, 64, "digest.header"},                                                                         // stream
    {64, 96, "digest.header"},   // digest of the payload
    {96, 128, "digest.header"},  // plan id
    {128, SIZE_MAX, "digest.payload"},
};

// Whether the sealed payload length is refused before it is compared.
bool IsAboveCap(absl::string_view file) {
  uint64_t length = 0;
  for (size_t at = 24; at-- > 16;) length = length << 8 | static_cast<uint8_t>(file[at]);
  return length > kMaxPayload;
}

TEST_F(SignedPlan, OpensAndNamesItsSigner) {
  const absl::StatusOr<SealedPlan> plan = SealedPlan::Open(file_, policy_, signature_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_TRUE(plan->signer().has_value());
  EXPECT_EQ(plan->signer()->name, "plain");
  EXPECT_EQ(KeyIdText(plan->signer()->key_id), "177D2825347ABD01");
  EXPECT_EQ(plan->signer()->trusted_comment, kComment);
  EXPECT_EQ(plan->serial(), kSerial);
}

TEST_F(SignedPlan, EveryChangeOfEveryByteIsRefusedForTheReasonOfItsPart) {
  ASSERT_GE(file_.size(), 6u << 10);
  std::string changed = file_;
  for (const Part& part : kParts) {
    for (size_t at = part.begin; at < std::min(part.end, file_.size()); ++at) {
      for (int change = 1; change < 256; ++change) {
        // Under sanitizers, three of 255.
        if (support::kSanitized && change != 1 && change != 0x80 && change != 0xff) continue;
        changed[at] = static_cast<char>(file_[at] ^ change);
        const bool above_cap = part.begin == 16 && IsAboveCap(changed);
        ExpectRefused(changed, {above_cap ? "size.payload-too-large" : part.slug},
                      absl::StrCat("byte ", at, " ^ ", change));
      }
      changed[at] = file_[at];
      if (HasFailure()) return;
    }
  }
  Report("changes of one byte");
  EXPECT_EQ(tried_, file_.size() * (support::kSanitized ? 3 : 255));
  EXPECT_GE(tried_, support::kSanitized ? 18000u : 1500000u);
}

TEST_F(SignedPlan, EveryTruncationIsRefused) {
  for (size_t size = 0; size < file_.size(); ++size) {
    const char* expected = size < 8           ? "mark.not-a-plan"
                           : size < kSealSize ? "size.short-header"
                                              : "size.payload-length";
    ExpectRefused(absl::string_view(file_).substr(0, size), {expected}, absl::StrCat(size, " bytes"));
  }
  Report("truncations");
}

TEST_F(SignedPlan, EveryAppendedAndPrependedTextIsRefused) {
  const std::string tails[] = {std::string(1, '\0'),
                               "\n",
                               " ",
                               "\xff",
                               std::string(3, '\0'),
                               "x\r\n",
                               signature_,
                               file_,
                               std::string(kSealSize, '\0'),
                               std::string(4096, 'x')};
  for (const std::string& tail : tails) {
    ExpectRefused(file_ + tail, {"size.payload-length"}, absl::StrCat(tail.size(), " bytes appended"));
    if (tail == file_) continue;
    ExpectRefused(tail + file_, {"mark.not-a-plan"}, absl::StrCat(tail.size(), " bytes prepended"));
  }
  Report("appended and prepended texts");
}

// The file's size is no longer the sealed one, so at the latest the size gate refuses; before it, a field that moved.
TEST_F(SignedPlan, EveryDeletedAndInsertedByteIsRefused) {
  // Fields that are compared before the size, in that order.
  const std::vector<Part> compared = {kParts[0], kParts[1], kParts[2], kParts[5], kParts[6], kParts[7]};
  const auto expect_refused = [&](const std::string& changed, size_t at, const char* what) {
    const auto moved = std::find_if(compared.begin(), compared.end(), [&](const Part& part) {
      return changed.compare(part.begin, part.end - part.begin, file_, part.begin, part.end - part.begin) != 0;
    });
    ExpectRefused(changed, {moved == compared.end() ? "size.payload-length" : moved->slug},
                  absl::StrCat("a byte ", what, " at ", at));
  };
  for (size_t at = 0; at <= file_.size(); ++at) {
    std::string changed = file_;
    if (at < file_.size()) expect_refused(changed.erase(at, 1), at, "deleted");
    const std::string values = {'\0', '\xff', at > 0 ? file_[at - 1] : file_[0]};
    for (const char c : values) {
      changed = file_;
      expect_refused(changed.insert(at, 1, c), at, "inserted");
    }
  }
  Report("deletions and insertions of one byte");
}

// What begins as one valid plan and ends as another, cut at the same place of both: never half of each.
TEST_F(SignedPlan, EverySpliceOfTwoPlansIsRefused) {
  Plan same_size = Medium();
  same_size.model_name = "Tiny";
  const std::string others[] = {
      *SealPlan(Medium(), kSerial + 1),                               // another header
      *SealPlan(same_size, kSerial),                                  // another payload of the same size
      *SealPlan(support::BuildPlan(samples::Shared()), kSerial),      // a shorter one
      *SealPlan(support::BuildPlan(samples::TwoClasses()), kSerial),  // a longer one
  };
  EXPECT_EQ(others[0].size(), file_.size());
  EXPECT_EQ(others[1].size(), file_.size());
  EXPECT_LT(others[2].size(), file_.size());
  EXPECT_GT(others[3].size(), file_.size());
  const auto try_splices = [this](const std::string& first, const std::string& second) {
    for (size_t at = 0; at <= std::min(first.size(), second.size()); ++at) {
      const std::string spliced = first.substr(0, at) + second.substr(at);
      if (spliced == first || spliced == second) continue;
      ExpectRefused(spliced, {"size.payload-length", "size.total-length", "digest.header", "digest.payload"},
                    absl::StrCat("spliced at ", at));
    }
  };
  for (const std::string& spliced : others) {
    ASSERT_EQ(Open(spliced, *SignDetached(spliced, key_, kComment)), absl::OkStatus());
    try_splices(file_, spliced);
    try_splices(spliced, file_);
    // A whole plan with the signature of another.
    ExpectRefused(spliced, {"signature.bytes"}, "another plan");
  }
  Report("splices");
  EXPECT_GE(tried_, 5 * file_.size());
}

class SignatureFile : public SignedPlan {
 protected:
  SignatureFile() : comment_begin_(kUntrustedCommentPrefix.size()), comment_end_(signature_.find('\n')) {}

  // Whether the byte stands in the text of the untrusted comment, which nobody signed.
  bool IsFree(size_t at) const { return at >= comment_begin_ && at < comment_end_; }

  // Counts one change of the signature file.
  void ExpectNoSignature(const std::string& signature, const std::string& what) {
    ++tried_;
    const absl::Status status = Open(file_, signature);
    if (GateOf(status) == Gate::kSignature && absl::StartsWith(status.message(), "refused at gate 'signature': ")) {
      ++refused_;
    } else {
      ADD_FAILURE() << what << ": " << status;
    }
  }

  // A change of the untrusted comment alone: taken for what it is, or refused for its form.
  void ExpectCommentIsFree(const std::string& signature, const std::string& what) {
    const absl::StatusOr<SealedPlan> plan = SealedPlan::Open(file_, policy_, signature);
    if (!plan.ok()) {
      const std::optional<Reason> reason = ReasonOf(plan.status());
      EXPECT_TRUE(reason == Reason::kSignatureFormat || reason == Reason::kSignatureComment)
          << what << ": " << plan.status();
      return;
    }
    ++accepted_;
    EXPECT_EQ(plan->signer()->name, "plain") << what;
    EXPECT_EQ(plan->signer()->key_id, key_.public_key().id) << what;
    EXPECT_EQ(plan->signer()->trusted_comment, kComment) << what;
  }

  const size_t comment_begin_;
  const size_t comment_end_;
  size_t accepted_ = 0;
};

TEST_F(SignatureFile, EveryChangeOfEveryByteIsRefusedOutsideTheUntrustedComment) {
  for (size_t at = 0; at < signature_.size(); ++at) {
    for (int change = 1; change < 256; ++change) {
      if (support::kSanitized && (change & (change - 1)) != 0) continue;  // one bit of each byte
      std::string changed = signature_;
      changed[at] = static_cast<char>(changed[at] ^ change);
      const std::string what = absl::StrCat("byte ", at, " ^ ", change);
      if (IsFree(at)) {
        ExpectCommentIsFree(changed, what);
      } else {
        ExpectNoSignature(changed, what);
      }
    }
  }
  Report("changes of one byte of the signature");
  EXPECT_EQ(tried_, (signature_.size() - (comment_end_ - comment_begin_)) * (support::kSanitized ? 8 : 255));
  EXPECT_GT(accepted_, 0u);
}

TEST_F(SignatureFile, EveryTruncationDeletionAndInsertionIsRefusedOutsideTheUntrustedComment) {
  for (size_t at = 0; at <= signature_.size(); ++at) {
    if (at < signature_.size()) ExpectNoSignature(signature_.substr(0, at), absl::StrCat(at, " bytes"));
    if (at > 0) ExpectNoSignature(signature_.substr(at), absl::StrCat("from ", at));
    if (at < signature_.size()) {
      const std::string changed = std::string(signature_).erase(at, 1);
      if (IsFree(at)) {
        ExpectCommentIsFree(changed, absl::StrCat("deleted at ", at));
      } else {
        ExpectNoSignature(changed, absl::StrCat("deleted at ", at));
      }
    }
    for (const char c : {'\0', '\t', '\n', '\r', ' ', '=', 'A', '/', '\xff'}) {
      const std::string changed = std::string(signature_).insert(at, 1, c);
      // Between the space before the comment and the comment, one more space belongs to it; and so to its end.
      const bool in_comment = (at >= comment_begin_ && at <= comment_end_) || (at + 1 == comment_begin_ && c == ' ');
      if (in_comment) {
        ExpectCommentIsFree(changed, absl::StrCat("inserted at ", at));
      } else {
        ExpectNoSignature(changed, absl::StrCat("inserted at ", at));
      }
    }
  }
  Report("truncations, deletions and insertions of the signature");
}

TEST_F(SignatureFile, EverySpliceOfTwoSignaturesIsRefused) {
  const std::string second = *SealPlan(Medium(), kSerial + 1);
  const SecretKey other_key = *SecretKey::Parse(Data("removed.key"), std::nullopt);
  const std::string others[] = {
      *SignDetached(file_, key_, "serial 8 of the test deployment"),  // the same plan, another comment
      *SignDetached(second, key_, kComment),                          // another plan
      *SignDetached(file_, other_key, kComment),                      // another key
  };
  const std::vector<std::string> lines = absl::StrSplit(signature_, '\n');
  for (const std::string& other : others) {
    // Any lines of one in the places of the other's.
    const std::vector<std::string> other_lines = absl::StrSplit(other, '\n');
    for (unsigned taken = 0; taken < 8; ++taken) {
      std::vector<std::string> spliced = lines;
      for (unsigned line = 1; line < 4; ++line) {
        if ((taken >> (line - 1) & 1) != 0) spliced[line] = other_lines[line];
      }
      const std::string text = absl::StrJoin(spliced, "\n");
      const bool whole = spliced[1] == lines[1] && spliced[2] == lines[2] && spliced[3] == lines[3];
      const bool other_whole = &other == &others[0] && spliced[1] == other_lines[1] && taken >= 6;
      if (whole || other_whole) continue;
      ExpectNoSignature(text, absl::StrCat("lines ", taken));
    }
    // The beginning of one and the end of the other.
    for (size_t at = comment_end_; at < signature_.size(); ++at) {
      const std::string spliced = signature_.substr(0, at) + other.substr(at);
      if (absl::EndsWith(spliced, signature_.substr(comment_end_))) continue;
      if (&other == &others[0] && absl::EndsWith(spliced, other.substr(comment_end_))) continue;
      ExpectNoSignature(spliced, absl::StrCat("spliced at ", at));
    }
  }
  Report("splices of signatures");
}

}  // namespace
}  // namespace meshseal
