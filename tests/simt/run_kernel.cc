#include "tests/simt/run_kernel.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include "tests/simt/block.h"
#include "tests/simt/fiber.h"
#include "tests/simt/known_kernels.h"
#include "tests/simt/random.h"
#include "tests/simt/symbol_name.h"

namespace simt {
namespace {

constexpr size_t kMaxThreads = 1024;  // of a block
constexpr size_t kMaxShared = 227 << 10;

// Of this operating-system thread, for all blocks that it runs.
thread_local std::vector<std::unique_ptr<Fiber>> fibers;

uint64_t Count(const dim3& size) { return uint64_t{size.x} * size.y * size.z; }

}  // namespace

bool RunKernel(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes, void** args, uint64_t seed,
               std::string* error) {
  const auto fail = [&](const std::string& what) {
    *error = "kernel " + SymbolName(kernel) + ", " + what;
    return false;
  };
  const KnownKernel* known = FindKernel(kernel);
  if (known == nullptr) return fail("which Launch did not make known");
  if (current_block != nullptr) return fail("launched by a kernel");
  if (Count(grid) == 0 || Count(block) == 0) return fail("without a block or a thread");
  if (Count(block) > kMaxThreads) return fail(std::to_string(Count(block)) + " threads in a block");
  if (shared_bytes > kMaxShared) return fail(std::to_string(shared_bytes) + " bytes of dynamic shared memory");
  while (fibers.size() < Count(block)) fibers.push_back(std::make_unique<Fiber>());

  std::vector<uint64_t> order(Count(grid));
  std::iota(order.begin(), order.end(), uint64_t{0});
  Random random(seed);
  if (seed != 0) std::shuffle(order.begin(), order.end(), random);
  const LaunchedKernel launched{kernel, known, grid, block, shared_bytes, args};
  for (const uint64_t number : order) {
    const uint3 index{static_cast<unsigned>(number % grid.x), static_cast<unsigned>(number / grid.x % grid.y),
                      static_cast<unsigned>(number / grid.x / grid.y)};
    Block running(launched, index, seed == 0 ? 0 : random(), fibers);
    const std::optional<std::string> found = running.Run();
    if (found.has_value()) return fail(*found);
  }
  return true;
}

std::vector<size_t> ParameterBytes(const void* kernel) {
  const KnownKernel* known = FindKernel(kernel);
  return known == nullptr ? std::vector<size_t>{} : known->parameter_bytes;
}

}  // namespace simt
