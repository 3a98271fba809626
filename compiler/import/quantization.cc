#include "compiler/import/quantization.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/tensor_name.h"

namespace meshseal::compiler {
namespace {

constexpr uint64_t kNvfp4Group = 16;
constexpr const char* kKnownMethods =
    "known are fp8 with weight_block_size, mxfp4, and modelopt's NVFP4, FP8 and mixtures";

// Whether a list's entry means the module: its whole name, its leading or its last components, `*` for any text.
bool Names(absl::string_view pattern, absl::string_view module) {
  return MatchesPattern(pattern, module) || MatchesPattern(absl::StrCat(pattern, ".*"), module) ||
         MatchesPattern(absl::StrCat("*.", pattern), module);
}

// modelopt's word for a way of storing.
absl::StatusOr<StoredForm> FormOfAlgorithm(const ConfigFields& fields) {
  MESHSEAL_ASSIGN_OR_RETURN(const std::string algorithm, fields.Text("quant_algo", "how weights are stored"));
  StoredForm form;
  if (algorithm == "NVFP4" || algorithm == "W4A16_NVFP4") {
    form = {Storage::kNvfp4, algorithm == "NVFP4"};
  } else if (algorithm == "FP8") {
    form = {Storage::kFp8Tensor, true};
  } else {
    return fields.Refuse("quant_algo", absl::StrCat("unknown algorithm ", QuotedName(algorithm), "; ", kKnownMethods));
  }
  if (form.storage == Storage::kNvfp4 && fields.Has("group_size")) {
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t group,
                              fields.Unsigned("group_size", 1, 1 << 20, "the size of a scale's group"));
    if (group != kNvfp4Group)
      return fields.Refuse("group_size", absl::StrCat("found ", group, ", NVFP4 has ", kNvfp4Group));
  }
  return form;
}

// What compressed-tensors packs, in words: "INT4".
std::string PackedAs(const ConfigFields& quantization) {
  const absl::StatusOr<ConfigFields> groups = quantization.Map("config_groups", "a message");
  if (!groups.ok()) return "";
  for (const std::string& name : groups->Keys()) {
    const absl::StatusOr<ConfigFields> group = groups->Map(name, "a message");
    if (!group.ok()) continue;
    const absl::StatusOr<ConfigFields> weights = group->Map("weights", "a message");
    if (!weights.ok()) continue;
    const absl::StatusOr<std::string> type = weights->Text("type", "a message");
    const absl::StatusOr<uint64_t> bits = weights->Unsigned("num_bits", 1, 64, "a message");
    if (!type.ok() || !bits.ok()) continue;
    return absl::StrCat(*type == "int" ? "INT" : *type == "float" ? "FP" : QuotedName(*type), *bits, " ");
  }
  return "";
}

}  // namespace

absl::Status Quantization::ReadModelopt(const ConfigFields& quantization, absl::string_view excluded_key) {
  MESHSEAL_ASSIGN_OR_RETURN(const std::string algorithm, quantization.Text("quant_algo", "how weights are stored"));
  if (quantization.Has(excluded_key)) {
    MESHSEAL_ASSIGN_OR_RETURN(excluded_, quantization.Texts(excluded_key, "the modules that are not quantised"));
  }
  if (algorithm != "MIXED_PRECISION") {
    MESHSEAL_ASSIGN_OR_RETURN(all_, FormOfAlgorithm(quantization));
    return absl::OkStatus();
  }
  only_named_ = true;
  MESHSEAL_ASSIGN_OR_RETURN(const ConfigFields layers,
                            quantization.Map("quantized_layers", "how each module is stored"));
  for (const std::string& module : layers.Keys()) {
    MESHSEAL_ASSIGN_OR_RETURN(const ConfigFields fields, layers.Map(module, "how the module is stored"));
    MESHSEAL_ASSIGN_OR_RETURN(const StoredForm form, FormOfAlgorithm(fields));
    named_.emplace_back(module, form);
  }
  return absl::OkStatus();
}

absl::Status Quantization::ReadMethod(const ConfigFields& quantization) {
  MESHSEAL_ASSIGN_OR_RETURN(const std::string method, quantization.Text("quant_method", "how weights are stored"));
  if (method == "modelopt") return ReadModelopt(quantization, "ignore");
  if (quantization.Has("modules_to_not_convert")) {
    MESHSEAL_ASSIGN_OR_RETURN(excluded_,
                              quantization.Texts("modules_to_not_convert", "the modules that are not quantised"));
  }
  if (method == "mxfp4") {
    only_named_ = true;  // the experts alone
    experts_ = StoredForm{Storage::kMxfp4, false};
    return absl::OkStatus();
  }
  if (method == "fp8") {
    if (quantization.Has("fmt")) {
      MESHSEAL_ASSIGN_OR_RETURN(const std::string format, quantization.Text("fmt", "the 8-bit format"));
      if (format != "e4m3" && format != "float8_e4m3fn") {
        return quantization.Refuse("fmt", absl::StrCat("unknown format ", QuotedName(format), ", known is e4m3"));
      }
    }
    MESHSEAL_ASSIGN_OR_RETURN(const std::vector<uint64_t> sides,
                              quantization.Unsigneds("weight_block_size", 1 << 20, "the rows and columns of a scale"));
    if (sides.size() != 2 || sides[0] == 0 || sides[1] == 0) {
      return quantization.Refuse(
          "weight_block_size", absl::StrCat("found ", quantization.Found("weight_block_size"), ", expected two sizes"));
    }
    fp8_block_ = ScaleBlock{sides[0], sides[1]};
    all_ = {Storage::kFp8Block, false};
    return absl::OkStatus();
  }
  if (quantization.Has("format")) {
    MESHSEAL_ASSIGN_OR_RETURN(const std::string format, quantization.Text("format", "how weights are packed"));
    return quantization.Refuse(
        "format", absl::StrCat(PackedAs(quantization), "weights in the format ", QuotedName(format), " of ",
                               QuotedName(method), " are not known; ", kKnownMethods));
  }
  return quantization.Refuse("quant_method", absl::StrCat("unknown method ", QuotedName(method), "; ", kKnownMethods));
}

absl::StatusOr<Quantization> Quantization::Read(const Family& family, const ConfigFields& config,
                                                const ConfigFields& text, const std::optional<ConfigFields>& hf_quant) {
  Quantization result;
  result.config_file_ = config.file();
  result.place_ = config.file();
  const ConfigFields* holder = config.Has("quantization_config") ? &config
                               : text.Has("quantization_config") ? &text
                                                                 : nullptr;
  std::optional<std::string> algorithm;
  if (holder != nullptr) {
    MESHSEAL_ASSIGN_OR_RETURN(const ConfigFields quantization,
                              holder->Map("quantization_config", "how weights are stored"));
    result.place_ = absl::StrCat(config.file(), ": quantization_config");
    MESHSEAL_RETURN_IF_ERROR(result.ReadMethod(quantization));
    if (quantization.Has("quant_algo")) {
      MESHSEAL_ASSIGN_OR_RETURN(algorithm, quantization.Text("quant_algo", "how weights are stored"));
    }
  }
  if (hf_quant.has_value()) {
    MESHSEAL_ASSIGN_OR_RETURN(const ConfigFields quantization, hf_quant->Map("quantization", "how weights are stored"));
    if (holder == nullptr) {
      result.place_ = absl::StrCat(hf_quant->file(), ": quantization");
      MESHSEAL_RETURN_IF_ERROR(result.ReadModelopt(quantization, "exclude_modules"));
    } else {
      MESHSEAL_ASSIGN_OR_RETURN(const std::string other, quantization.Text("quant_algo", "how weights are stored"));
      if (!algorithm.has_value() || other != *algorithm) {
        return quantization.Refuse("quant_algo",
                                   absl::StrCat("found ", QuotedName(other), ", ", config.file(), " says ",
                                                algorithm.has_value() ? QuotedName(*algorithm) : "nothing"));
      }
    }
  }
  // The experts of one family have a dtype of their own in config.json.
  if (text.Has("expert_dtype")) {
    MESHSEAL_ASSIGN_OR_RETURN(const std::string word, text.Text("expert_dtype", "how experts are stored"));
    if (word == "fp4") {
      result.experts_ = StoredForm{Storage::kMxfp4, false};
    } else if (word != "fp8" || result.all_.storage != Storage::kFp8Block) {
      return text.Refuse("expert_dtype",
                         absl::StrCat("found ", text.Found("expert_dtype"), " in the family ", family.name,
                                      ", known are \"fp4\" and, where all weights are so, \"fp8\""));
    }
  }
  return result;
}

bool Quantization::TellsExpertsApart() const {
  const auto names_one = [](absl::string_view pattern) {
    constexpr absl::string_view kExperts = "experts.";
    for (size_t at = pattern.find(kExperts); at != absl::string_view::npos; at = pattern.find(kExperts, at + 1)) {
      const absl::string_view rest = pattern.substr(at + kExperts.size());
      if (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') return true;
    }
    return false;
  };
  for (const std::string& pattern : excluded_) {
    if (names_one(pattern)) return true;
  }
  for (const auto& [pattern, form] : named_) {
    if (names_one(pattern)) return true;
  }
  return false;
}

StoredForm Quantization::FormOf(absl::string_view tensor, bool expert) const {
  const absl::string_view module = absl::StripSuffix(tensor, ".weight");
  for (const std::string& pattern : excluded_) {
    if (Names(pattern, module)) return {};
  }
  if (expert && experts_.has_value()) return *experts_;
  for (const auto& [pattern, form] : named_) {
    if (Names(pattern, module)) return form;
  }
  return only_named_ ? StoredForm{} : all_;
}

}  // namespace meshseal::compiler
