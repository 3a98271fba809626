#include "runtime/weights/synthetic_weights.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/formats/block_bits.h"
#include "runtime/formats/format.h"
#include "schema/dtype.h"
#include "schema/reason.h"
#include "schema/sha256.h"
#include "schema/status_macros.h"
#include "schema/weight_digests.h"

namespace meshseal::runtime {
namespace {

// The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators): equally likely
// words of a counter.
uint64_t Word(uint64_t start, uint64_t counter) {
  uint64_t word = start + (counter + 1) * 0x9E3779B97F4A7C15u;
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
  return word ^ (word >> 31);
}

// What the words of a tensor begin with.
uint64_t StartOf(uint64_t seed, const std::string& name) {
  const Sha256Digest digest = Sha256(absl::StrCat("meshseal synthetic ", seed, " ", name));
  uint64_t start = 0;
  std::memcpy(&start, digest.data(), sizeof(start));
  return start;
}

// Writes the units of one tensor.
class Maker {
 public:
  Maker(uint64_t seed, const Atom& atom, DType stored)
      : start_(StartOf(seed, NameOf(atom))), side_(atom.of.side), dtype_(stored), format_(FindFormat(stored)) {
    const LayerClass& c = *atom.of.layer_class;
    const uint64_t element = FindDType(stored)->block_bits / 8;
    if (side_ == nullptr && atom.of.tensor->role == TensorRole::kTokenTable) {
      experts_ = c.experts;
      unit_ = element * c.top_k;
    } else {
      unit_ = element;
      packed_ = side_ == nullptr && stored != atom.of.tensor->dtype;
    }
  }

  uint64_t unit() const { return unit_; }

  // Unit `number` of the tensor.
  void Make(uint64_t number, std::byte* out) const {
    const uint64_t words = (unit_ + 7) / 8;
    for (uint64_t i = 0; i < words; ++i) {
      const uint64_t word = Word(start_, number * words + i);
      std::memcpy(out + 8 * i, &word, std::min<uint64_t>(8, unit_ - 8 * i));
    }
    if (experts_ > 0) {
      MakeTableRow(Word(start_, number), out);
    } else if (side_ != nullptr) {
      MakeScale(out);
    } else if (!packed_) {  // all codes of four bits are good
      format_->tame(out);
    }
  }

 private:
  // Different experts for a token.
  void MakeTableRow(uint64_t word, std::byte* out) const {
    const uint64_t element = FindDType(dtype_)->block_bits / 8;
    for (uint64_t i = 0; i < unit_ / element; ++i) {
      const uint64_t expert = (word + i) % experts_;
      std::memcpy(out + i * element, &expert, element);
    }
  }

  // Of any bytes, one with which weights are of about 2^-5: codes of float8 are of about 2^7, those of E2M1 of about 2.
  void MakeScale(std::byte* out) const {
    const unsigned low = ByteAt(out, 0) & 1u;
    switch (dtype_) {
      case DType::kF8E8M0:
      case DType::kU8:
        SetByte(out, 0, 127 - 7 + low);
        return;
      case DType::kF8E4M3:
        SetByte(out, 0, 0x30 + (ByteAt(out, 0) & 15u));  // 0.5 to 1.9
        return;
      default:
        break;
    }
    const bool second = side_->kind == SideKind::kScale2;
    const double scale = std::ldexp(1 + 0.5 * low, second ? -7 : -12);
    const double applied = side_->applies == ScaleApplies::kDivide ? 1 / scale : scale;
    const auto value = static_cast<float>(applied);
    if (dtype_ == DType::kF32) {
      std::memcpy(out, &value, sizeof(value));
    } else {  // bf16: no format has scales of another type
      const uint16_t bits = FloatToBf16(value);
      std::memcpy(out, &bits, sizeof(bits));
    }
  }

  uint64_t start_;
  const SideTensor* side_;
  DType dtype_;
  const Format* format_;
  uint64_t experts_ = 0;  // of a token table's layer
  uint64_t unit_ = 0;     // bytes of what is made at once
  bool packed_ = false;
};

}  // namespace

absl::Status MakeSynthetic(uint64_t seed, const Atom& atom, absl::Span<std::byte> out) {
  // Of the forms that files may have, the one that fills it: gate and up have a scale each.
  for (const StoredForm& form : StoredForms(atom.of, WeightSource::kSynthetic)) {
    MESHSEAL_ASSIGN_OR_RETURN(const StoredTensor stored, StoredTensor::Of(atom.of, WeightSource::kSynthetic, form));
    MESHSEAL_ASSIGN_OR_RETURN(const std::vector<ByteRuns> atom_runs, stored.Atom(atom.expert, atom.columns));
    if (SizeOf(atom_runs) != out.size()) continue;
    const Maker maker(seed, atom, form.dtype);
    std::byte* to = out.data();
    for (const ByteRuns& runs : atom_runs) {
      for (uint64_t row = 0; row < runs.count; ++row) {
        const uint64_t begin = runs.begin + row * runs.stride;
        for (uint64_t at = 0; at < runs.bytes; at += maker.unit(), to += maker.unit()) {
          maker.Make((begin + at) / maker.unit(), to);
        }
      }
    }
    return absl::OkStatus();
  }
  return Refuse(Reason::kBug, absl::StrCat("tensor '", NameOf(atom), "': no atom has ", out.size(), " bytes"));
}

}  // namespace meshseal::runtime
