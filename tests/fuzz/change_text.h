// A mutator for texts of words and numbers: YAML, JSON.
#ifndef MESHSEAL_TESTS_FUZZ_CHANGE_TEXT_H_
#define MESHSEAL_TESTS_FUZZ_CHANGE_TEXT_H_

#include <cstddef>
#include <cstdint>

namespace meshseal::fuzz {

// Half of the time changes bytes, otherwise one number or word: a number becomes one near it or an extreme one, a word
// another one of the text; or a line goes or comes twice.
size_t ChangeText(uint8_t* data, size_t size, size_t max_size, unsigned int seed);

}  // namespace meshseal::fuzz

#endif  // MESHSEAL_TESTS_FUZZ_CHANGE_TEXT_H_
