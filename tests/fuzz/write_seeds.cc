// Writes the seeds that depend on the plan format or repeat what is shipped: built and run by the build, never kept.
// Usage: write_fuzz_seeds FOLDER    makes FOLDER/envelope, FOLDER/payload, FOLDER/digests, FOLDER/compile
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schema/digests_codec.h"
#include "schema/plan_codec.h"
#include "schema/seal.h"
#include "schema/weight_digests.h"
#include "tests/schema/sample_plans.h"
#include "tests/support/checkpoint_writer.h"

namespace meshseal::fuzz {
namespace {

namespace fs = std::filesystem;

std::string FileName(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !absl::ascii_isalnum(static_cast<unsigned char>(c)); }, '-');
  return name;
}

std::string ReadAll(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The document that a deployment names.
std::string Named(const fs::path& deployment, absl::string_view text, absl::string_view key) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::string start = absl::StrCat("  ", key, ": ");
    if (absl::StartsWith(line, start)) {
      return ReadAll(deployment.parent_path() / std::string(line.substr(start.size())));
    }
  }
  return "";
}

// A list of the first tensors that a plan reads, of other sizes.
WeightDigests DigestsFor(const Plan& plan) {
  WeightDigests list;
  list.model_name = plan.model_name;
  list.source = WeightSource::kSafetensors;
  for (const LayerClass& c : plan.layer_classes) {
    list.layers.push_back({c.layers, c.segment_ends, c.shared_expert.segment_ends});
  }
  for (const ReadTensor& read : ReadTensors(plan.hidden, plan.layer_classes)) {
    if (list.tensors.size() == 12) break;
    TensorDigests tensor = {read.name, DType::kF32, {2, 3}, 24, {}, {Sha256(read.name), Sha256("leaf")}};
    tensor.root = TreeRoot(tensor.name, tensor.dtype, tensor.shape, tensor.leaves);
    list.tensors.push_back(tensor);
  }
  std::sort(list.tensors.begin(), list.tensors.end(),
            [](const TensorDigests& a, const TensorDigests& b) { return a.name < b.name; });
  return list;
}

bool Write(const fs::path& folder) {
  for (const char* name : {"envelope", "payload", "digests", "compile"}) fs::create_directories(folder / name);
  for (const samples::SamplePlan& sample : samples::ValidPlans()) {
    const std::string payload = EncodePlan(sample.plan);
    const std::string file = SealPayload(payload, PayloadType::kPlan, 7, StreamOf(sample.plan.deployment_name));
    support::WriteFile(folder / "envelope" / FileName(sample.name), file);
    support::WriteFile(folder / "payload" / FileName(sample.name), payload);
    support::WriteFile(folder / "digests" / FileName(sample.name), EncodeDigests(DigestsFor(sample.plan)));
  }
  for (const std::string name :
       {"tiny-1", "tiny-ep2-tp2", "tiny-ep3-round-robin", "tiny-ep3", "gpt-oss-20b-dgx-spark-2", "phi-3.5-moe-h100-5",
        "qwen3-next-80b-a3b-h100-3", "qwen2-57b-a14b-h100-1x8", "deepseek-v4-flash-h100-1x8",
        "granite-3.x-1b-a400m-host-8", "qwen3-30b-a3b-q4-k-mixed-24-8"}) {
    const fs::path path = fs::path(MESHSEAL_MANIFESTS) / "deployments" / (name + ".yaml");
    const std::string deployment = ReadAll(path);
    const std::string model = Named(path, deployment, "model");
    const std::string mesh = Named(path, deployment, "mesh");
    if (deployment.empty() || model.empty() || mesh.empty()) {
      std::fprintf(stderr, "%s: not there, or it does not name its model and mesh on lines of their own\n",
                   path.c_str());
      return false;
    }
    support::WriteFile(folder / "compile" / name, absl::StrCat(deployment, "%%%%\n", model, "%%%%\n", mesh));
  }
  return true;
}

}  // namespace
}  // namespace meshseal::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  return meshseal::fuzz::Write(argv[1]) ? 0 : 1;
}
