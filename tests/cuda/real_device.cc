#include "tests/cuda/simulated_device.h"

namespace meshseal::cuda {

bool SimulateDevice(uint64_t) { return false; }

}  // namespace meshseal::cuda
