// A trained model, and what PyTorch recorded of its MoE blocks (tests/data/tiny-qwen3-moe).
#ifndef MESHSEAL_TESTS_RUNTIME_RECORDED_MODEL_H_
#define MESHSEAL_TESTS_RUNTIME_RECORDED_MODEL_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schema/safetensors.h"
#include "tests/support/plan_builder.h"

namespace meshseal::runtime {

// Its checkpoint; FOLDER/recorded/prompt-TOKENS.safetensors has layer.L.hidden_in and the like.
inline std::filesystem::path RecordedFolder() { return std::filesystem::path(MESHSEAL_TEST_DATA) / "tiny-qwen3-moe"; }

// A world of one rank.
inline support::PlanNumbers RecordedModel() {
  support::PlanNumbers n;
  n.layers = 3;
  n.hidden = 256;
  n.intermediate = 128;
  n.experts = 16;
  n.top_k = 4;
  n.dtype = DType::kBf16;
  n.prefill_tokens = 192;
  n.prefill_chunk = 50;
  n.router_name = "model.layers.{layer}.mlp.gate.weight";
  n.gate_name = "model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight";
  n.up_name = "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight";
  n.down_name = "model.layers.{layer}.mlp.experts.{expert}.down_proj.weight";
  n.ignored_tensors = {"model.embed_tokens.*",
                       "model.norm.*",
                       "lm_head.*",
                       "model.layers.{layer}.self_attn.*",
                       "model.layers.{layer}.input_layernorm.*",
                       "model.layers.{layer}.post_attention_layernorm.*"};
  return n;
}

// All values of a tensor.
template <class T>
std::vector<T> Recorded(const SafetensorsFile& file, const std::string& name) {
  const absl::StatusOr<const TensorEntry*> entry = file.Find(name);
  if (!entry.ok()) {
    ADD_FAILURE() << entry.status();
    return {};
  }
  std::vector<T> values(((*entry)->end - (*entry)->begin) / sizeof(T));
  const absl::Status read = file.Read(
      (*entry)->begin, absl::MakeSpan(reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T)));
  EXPECT_TRUE(read.ok()) << read;
  return values;
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_TESTS_RUNTIME_RECORDED_MODEL_H_
