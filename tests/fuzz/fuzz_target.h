// What every fuzz target is made of: libFuzzer's entry points, and how a target says that its property does not hold.
#ifndef MESHSEAL_TESTS_FUZZ_FUZZ_TARGET_H_
#define MESHSEAL_TESTS_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"

// Each target defines the first and may define the second, which changes `data` in place (libFuzzer's documentation has
// the contract). libFuzzer, or replay_main.cc, defines the third, which changes bytes without knowing what they are.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed);
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace meshseal::fuzz {

// Inputs that a target took to be good, all the way. A corpus of which none is has lost its use.
inline uint64_t accepted = 0;

inline absl::string_view TextOf(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Ends the program unless `holds`.
inline void Expect(bool holds, const std::string& text) {
  if (holds) return;
  std::fprintf(stderr, "property does not hold: %s\n", text.c_str());
  std::abort();
}

// A mutator's result: `text` in place of the `max_size` bytes at `data`, unless it is longer.
inline size_t Replace(const std::string& text, uint8_t* data, size_t size, size_t max_size) {
  if (text.size() > max_size) return size;
  for (size_t i = 0; i < text.size(); ++i) data[i] = static_cast<uint8_t>(text[i]);
  return text.size();
}

}  // namespace meshseal::fuzz

#endif  // MESHSEAL_TESTS_FUZZ_FUZZ_TARGET_H_
