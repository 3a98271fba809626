// Whether this program runs under the address or the thread sanitizer: loops are shorter there, and what limits memory
// does not work.
#ifndef MESHSEAL_TESTS_SUPPORT_SANITIZED_H_
#define MESHSEAL_TESTS_SUPPORT_SANITIZED_H_

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MESHSEAL_TEST_SANITIZED 1
#elif defined(__has_feature)
#define MESHSEAL_TEST_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define MESHSEAL_TEST_SANITIZED 0
#endif

namespace meshseal::support {
inline constexpr bool kSanitized = MESHSEAL_TEST_SANITIZED != 0;
}  // namespace meshseal::support

#endif  // MESHSEAL_TESTS_SUPPORT_SANITIZED_H_
