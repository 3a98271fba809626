// A stack of its own, and switches to it and back: what a CUDA thread runs on.
#ifndef MESHSEAL_TESTS_SIMT_FIBER_H_
#define MESHSEAL_TESTS_SIMT_FIBER_H_

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace simt {

// Where a stack of control stands while another runs.
class Context {
 public:
  // `entry` is called, on that stack, by the first switch to here. It never returns.
  void Prepare(void* stack, size_t bytes, void (*entry)());
  static void Switch(Context* from, Context* to);

 private:
#if defined(__x86_64__)
  void* stack_pointer_ = nullptr;
#else
  ucontext_t registers_{};
#endif
};

// Belongs to one operating-system thread. The stack has a guard page at its end. AddressSanitizer and ThreadSanitizer
// are told of each switch.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // From now on the fiber begins with `entry`. What it did before, finished or not, is forgotten without a destructor.
  void Begin(void (*entry)(void* argument), void* argument);

  // Runs it until it suspends itself or `entry` ends. Not within a fiber.
  void Resume();

  // Back to who resumed it. Within this fiber.
  void Suspend();

 private:
  static void Main();

  std::byte* mapping_ = nullptr;
  std::byte* stack_ = nullptr;
  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;
  bool finished_ = false;
  Context context_;
  Context resumer_;
  // What the sanitizers know both stacks by. AddressSanitizer's own stack for frames that somebody points at is kept
  // for the next entry: to make one takes longer than most kernels.
  [[maybe_unused]] void* fake_stack_ = nullptr;
  [[maybe_unused]] bool last_ = false;
  [[maybe_unused]] void* resumer_fake_stack_ = nullptr;
  [[maybe_unused]] const void* resumer_stack_ = nullptr;
  [[maybe_unused]] size_t resumer_stack_bytes_ = 0;
  [[maybe_unused]] void* tsan_fiber_ = nullptr;
  [[maybe_unused]] void* tsan_resumer_ = nullptr;
};

}  // namespace simt

#endif  // MESHSEAL_TESTS_SIMT_FIBER_H_
