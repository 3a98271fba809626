#include "tests/simt/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MESHSEAL_SIMT_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define MESHSEAL_SIMT_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define MESHSEAL_SIMT_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define MESHSEAL_SIMT_TSAN 1
#endif

#if defined(MESHSEAL_SIMT_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(MESHSEAL_SIMT_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__x86_64__)
// Saves the registers that a call keeps and the stack pointer, and goes on where the other one stopped.
extern "C" void meshseal_simt_switch(void** save, void* to);
asm(R"(
.text
.globl meshseal_simt_switch
.hidden meshseal_simt_switch
.type meshseal_simt_switch, @function
meshseal_simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size meshseal_simt_switch, . - meshseal_simt_switch
)");
#endif

namespace simt {
namespace {

constexpr size_t kStackBytes = size_t{256} << 10;  // touched pages alone cost memory

// The fiber that is being resumed, for its first instructions.
thread_local Fiber* resumed = nullptr;

size_t PageBytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

#if defined(__x86_64__)

void Context::Prepare(void* stack, size_t bytes, void (*entry)()) {
  auto** top = reinterpret_cast<void**>(static_cast<std::byte*>(stack) + bytes);
  *--top = nullptr;  // what `entry` would return to
  *--top = reinterpret_cast<void*>(entry);
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  stack_pointer_ = top;
}

void Context::Switch(Context* from, Context* to) { meshseal_simt_switch(&from->stack_pointer_, to->stack_pointer_); }

#else

void Context::Prepare(void* stack, size_t bytes, void (*entry)()) {
  ::getcontext(&registers_);
  registers_.uc_stack.ss_sp = stack;
  registers_.uc_stack.ss_size = bytes;
  registers_.uc_link = nullptr;
  ::makecontext(&registers_, entry, 0);
}

void Context::Switch(Context* from, Context* to) { ::swapcontext(&from->registers_, &to->registers_); }

#endif

Fiber::Fiber() {
  void* mapping =
      ::mmap(nullptr, PageBytes() + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED || ::mprotect(mapping, PageBytes(), PROT_NONE) != 0) {
    std::perror("simt: a stack");
    std::abort();
  }
  mapping_ = static_cast<std::byte*>(mapping);
  stack_ = mapping_ + PageBytes();
#if defined(MESHSEAL_SIMT_TSAN)
  tsan_fiber_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if defined(MESHSEAL_SIMT_ASAN)
  if (finished_) {  // frees the fake stack, which only who leaves it can
    Begin([](void*) {}, nullptr);
    last_ = true;
    Resume();
  }
  __asan_unpoison_memory_region(stack_, kStackBytes);
#endif
#if defined(MESHSEAL_SIMT_TSAN)
  __tsan_destroy_fiber(tsan_fiber_);
#endif
  ::munmap(mapping_, PageBytes() + kStackBytes);
}

void Fiber::Begin(void (*entry)(void* argument), void* argument) {
#if defined(MESHSEAL_SIMT_ASAN)
  // An entry that ended has left the stack as it was: whoever returns takes the marks off its frame.
  if (!finished_) {
    __asan_unpoison_memory_region(stack_, kStackBytes);
    fake_stack_ = nullptr;  // it is full of frames that nobody returns from: another one
  }
#endif
  entry_ = entry;
  argument_ = argument;
  finished_ = false;
  context_.Prepare(stack_, kStackBytes, &Fiber::Main);
}

void Fiber::Resume() {
  resumed = this;
#if defined(MESHSEAL_SIMT_ASAN)
  __sanitizer_start_switch_fiber(&resumer_fake_stack_, stack_, kStackBytes);
#endif
#if defined(MESHSEAL_SIMT_TSAN)
  tsan_resumer_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsan_fiber_, 0);
#endif
  Context::Switch(&resumer_, &context_);
#if defined(MESHSEAL_SIMT_ASAN)
  __sanitizer_finish_switch_fiber(resumer_fake_stack_, nullptr, nullptr);
#endif
}

void Fiber::Suspend() {
#if defined(MESHSEAL_SIMT_ASAN)
  __sanitizer_start_switch_fiber(last_ ? nullptr : &fake_stack_, resumer_stack_, resumer_stack_bytes_);
#endif
#if defined(MESHSEAL_SIMT_TSAN)
  __tsan_switch_to_fiber(tsan_resumer_, 0);
#endif
  Context::Switch(&context_, &resumer_);
#if defined(MESHSEAL_SIMT_ASAN)
  __sanitizer_finish_switch_fiber(fake_stack_, &resumer_stack_, &resumer_stack_bytes_);
#endif
}

void Fiber::Main() {
  Fiber* self = resumed;
#if defined(MESHSEAL_SIMT_ASAN)
  __sanitizer_finish_switch_fiber(self->fake_stack_, &self->resumer_stack_, &self->resumer_stack_bytes_);
#endif
  self->entry_(self->argument_);
  self->finished_ = true;
  self->Suspend();
  std::abort();  // nobody resumes a finished fiber
}

}  // namespace simt
