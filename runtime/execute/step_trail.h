// Where a rank was: the last collectives it entered, in a fixed space that is written even when nothing else
// works.
#ifndef MESHSEAL_RUNTIME_EXECUTE_STEP_TRAIL_H_
#define MESHSEAL_RUNTIME_EXECUTE_STEP_TRAIL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace meshseal::runtime {

// Used by the rank's thread alone.
class StepTrail {
 public:
  // `mnemonic` must live for ever: a row of the step table.
  void Enter(uint32_t layer, uint32_t step, const char* mnemonic);

  // The newest first: "layer 3 step 5 collective, layer 2 step 5 collective"; "nothing" for an empty trail.
  std::string Text() const;

 private:
  struct Mark {
    uint32_t layer = 0;
    uint32_t step = 0;
    const char* mnemonic = "";
  };
  std::array<Mark, 4> marks_{};
  uint64_t entered_ = 0;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_EXECUTE_STEP_TRAIL_H_
