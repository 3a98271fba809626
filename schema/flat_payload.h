// What the codecs of all payload types share: a writer and a strict reader of FlatBuffers. Seen by schema/*.cc alone.
#ifndef MESHSEAL_SCHEMA_FLAT_PAYLOAD_H_
#define MESHSEAL_SCHEMA_FLAT_PAYLOAD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "flatbuffers/flatbuffers.h"
#include "schema/reason.h"
#include "schema/sha256.h"

namespace meshseal {

// Deeper than any payload (plan > layer class > program > step > vector), far below the stack.
inline constexpr flatbuffers::uoffset_t kMaxDepth = 16;

template <class E>
uint8_t Wire(E term) {
  return static_cast<uint8_t>(term);
}

template <class WireDigest>
WireDigest PackDigest(const Sha256Digest& digest) {
  return WireDigest(flatbuffers::span<const uint8_t, 32>(digest.data(), digest.size()));
}

template <class WireDigest>
Sha256Digest UnpackDigest(const WireDigest& from) {
  Sha256Digest digest;
  std::copy(from.bytes()->begin(), from.bytes()->end(), digest.begin());
  return digest;
}

// A codec derives from it and packs one table a function, children first, in the order of the fields: the order is part
// of the bytes.
class FlatWriter {
 protected:
  // `expected` bytes are reserved; more may come.
  explicit FlatWriter(size_t expected) : builder_(expected) { builder_.ForceDefaults(true); }

  // What was finished; valid as long as this object.
  absl::string_view Finished() const {
    return {reinterpret_cast<const char*>(builder_.GetBufferPointer()), builder_.GetSize()};
  }

  flatbuffers::Offset<flatbuffers::String> Text(const std::string& text) { return builder_.CreateString(text); }

  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>> Texts(
      const std::vector<std::string>& texts) {
    std::vector<flatbuffers::Offset<flatbuffers::String>> packed;
    packed.reserve(texts.size());
    for (const std::string& text : texts) packed.push_back(Text(text));
    return builder_.CreateVector(packed);
  }

  // A vector of frozen structs.
  template <class Wire, class T, class F>
  flatbuffers::Offset<flatbuffers::Vector<const Wire*>> Structs(const std::vector<T>& items, F make) {
    const auto fill = [&](size_t i, Wire* packed) { *packed = make(items[i]); };
    return builder_.CreateVectorOfStructs<Wire>(items.size(), fill);
  }

  flatbuffers::FlatBufferBuilder builder_;
};

// A codec derives from it and unpacks what the verifier accepted. Of a child that is shared, or misaligned, nothing is
// read: the content is incomplete then, and fault() says so.
class FlatReader {
 public:
  // OK when the content is complete.
  absl::Status fault() const {
    if (fault_ == Fault::kShared) return Refuse(Reason::kSharedChildren, "children are shared between tables");
    if (fault_ == Fault::kMisaligned) return Refuse(Reason::kMisaligned, "a vector is misaligned");
    return absl::OkStatus();
  }

 protected:
  explicit FlatReader(size_t payload_bytes) : left_(payload_bytes) {}

  // Whether a child of `bytes` may be read; without shared children, all of them together fit the payload.
  bool Take(size_t bytes) {
    if (bytes > left_) fault_ = Fault::kShared;
    left_ -= std::min(bytes, left_);
    return fault_ == Fault::kNone;
  }

  std::string Text(const flatbuffers::String* from) { return Take(from->size()) ? from->str() : std::string(); }

  std::vector<std::string> Texts(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* from) {
    std::vector<std::string> texts;
    if (!Take(from->size() * sizeof(flatbuffers::Offset<flatbuffers::String>))) return texts;
    texts.reserve(from->size());
    for (const flatbuffers::String* text : *from) texts.push_back(Text(text));
    return texts;
  }

  template <class T, class Wire, class F>
  std::vector<T> TablesBy(const flatbuffers::Vector<flatbuffers::Offset<Wire>>* from, F unpack) {
    std::vector<T> items;
    if (!Take(from->size() * sizeof(flatbuffers::Offset<Wire>))) return items;
    items.reserve(from->size());
    for (const Wire* item : *from) items.push_back(unpack(*item));
    return items;
  }

  template <class T, class Wire, class F>
  std::vector<T> Structs(const flatbuffers::Vector<const Wire*>* from, F make) {
    std::vector<T> items;
    if (IsMisaligned<Wire>(*from)) fault_ = Fault::kMisaligned;
    if (!Take(from->size() * sizeof(Wire))) return items;
    items.reserve(from->size());
    for (const Wire* item : *from) items.push_back(make(*item));
    return items;
  }

  template <class T>
  std::vector<T> Scalars(const flatbuffers::Vector<T>* from) {
    if (IsMisaligned<T>(*from)) fault_ = Fault::kMisaligned;
    if (!Take(from->size() * sizeof(T))) return {};
    return {from->begin(), from->end()};
  }

 private:
  enum class Fault : uint8_t { kNone, kShared, kMisaligned };

  // An empty vector has no elements to align, and the writer does not align it.
  template <class Element, class V>
  static bool IsMisaligned(const V& from) {
    return from.size() > 0 && reinterpret_cast<uintptr_t>(from.Data()) % alignof(Element) != 0;
  }

  size_t left_;
  Fault fault_ = Fault::kNone;
};

// The FlatBuffers verifier with our limits. `verify` is the generated function of the root.
template <class Verify>
absl::Status VerifyPayload(absl::string_view payload, Verify verify) {
  // A table takes at least four bytes of a buffer without aliases; a buffer with more tables than that shares them.
  const auto max_tables = static_cast<flatbuffers::uoffset_t>(payload.size() / 4);
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(payload.data()), payload.size(), kMaxDepth,
                                 max_tables);
  if (verify(verifier)) return absl::OkStatus();
  return Refuse(Reason::kFlatBuffer,
                absl::StrCat("the FlatBuffers verifier refuses the payload of ", payload.size(), " bytes"));
}

// Whether the payload is the `canonical` encoding of its content.
inline absl::Status CheckCanonical(absl::string_view payload, absl::string_view canonical) {
  if (canonical == payload) return absl::OkStatus();
  const size_t shorter = std::min(canonical.size(), payload.size());
  const auto* difference = std::mismatch(canonical.data(), canonical.data() + shorter, payload.data()).second;
  return Refuse(Reason::kNotCanonical,
                absl::StrCat("payload of ", payload.size(), " bytes, the canonical encoding of its content has ",
                             canonical.size(), " and first differs at byte ", difference - payload.data()));
}

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_FLAT_PAYLOAD_H_
