// A source of random numbers for schedules: a few instructions a number, and nothing to set up, because every block of
// a kernel has its own (SplitMix64, Steele, Lea and Flood 2014).
#ifndef MESHSEAL_TESTS_SIMT_RANDOM_H_
#define MESHSEAL_TESTS_SIMT_RANDOM_H_

#include <cstdint>

namespace simt {

class Random {
 public:
  using result_type = uint64_t;

  explicit Random(uint64_t seed) : state_(seed) {}

  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return UINT64_MAX; }

  uint64_t operator()() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t mixed = state_;
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBu;
    return mixed ^ mixed >> 31;
  }

 private:
  uint64_t state_;
};

}  // namespace simt

#endif  // MESHSEAL_TESTS_SIMT_RANDOM_H_
