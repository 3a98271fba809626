#include "runtime/session/job_key.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "schema/hmac_sha256.h"
#include "schema/reason.h"
#include "schema/uninterrupted.h"
#include "schema/within_memory.h"

namespace meshseal::runtime {
namespace {

constexpr absl::string_view kDomain = "meshseal preflight 1";

// Wiped where it ends.
std::shared_ptr<std::string> Secret(size_t size) {
  return {new std::string(size, '\0'), [](std::string* bytes) {
            OPENSSL_cleanse(bytes->data(), bytes->size());
            delete bytes;
          }};
}

absl::Status Usage(const std::filesystem::path& path, absl::string_view text) {
  return Refuse(Reason::kUsage, absl::StrCat("job key ", path.string(), ": ", text));
}

absl::Status CheckSize(absl::string_view what, uint64_t size) {
  if (size >= kFewestJobKeyBytes && size <= kMostJobKeyBytes) return absl::OkStatus();
  return Refuse(Reason::kUsage, absl::StrCat(what, ": ", size, " bytes, expected ", kFewestJobKeyBytes, " to ",
                                             kMostJobKeyBytes, ", such as of 'head -c 32 /dev/urandom'"));
}

}  // namespace

absl::StatusOr<JobKey> JobKey::Of(absl::string_view bytes) {
  return WithinMemory([&]() -> absl::StatusOr<JobKey> {
    if (const absl::Status status = CheckSize("job key", bytes.size()); !status.ok()) return status;
    const std::shared_ptr<std::string> secret = Secret(bytes.size());
    secret->assign(bytes.data(), bytes.size());
    return JobKey(secret);
  });
}

absl::StatusOr<JobKey> JobKey::Read(const std::filesystem::path& path) {
  return WithinMemory([&]() -> absl::StatusOr<JobKey> {
    const auto failed = [&path](int error) { return Usage(path, std::generic_category().message(error)); };
    // O_NONBLOCK: opening a FIFO must not wait for a writer.
    const int descriptor =
        Uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); });
    if (descriptor < 0 && errno == ELOOP) return Usage(path, "is a symbolic link, expected a regular file");
    if (descriptor < 0) return failed(errno);
    const absl::Cleanup closer = [descriptor] { ::close(descriptor); };
    struct stat info = {};
    if (::fstat(descriptor, &info) != 0) return failed(errno);
    if (!S_ISREG(info.st_mode)) return Usage(path, "not a regular file");
    if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
      return Usage(path, absl::StrCat("others than its owner may use it; run: chmod 600 ", path.string()));
    }
    const auto size = static_cast<uint64_t>(info.st_size);
    if (const absl::Status status = CheckSize(absl::StrCat("job key ", path.string()), size); !status.ok()) {
      return status;
    }
    const std::shared_ptr<std::string> secret = Secret(size);
    size_t done = 0;
    while (done < size) {
      const ssize_t got = Uninterrupted([&] { return ::read(descriptor, secret->data() + done, size - done); });
      if (got < 0) return failed(errno);
      if (got == 0) return Usage(path, "shrank while it was read");
      done += static_cast<size_t>(got);
    }
    return JobKey(secret);
  });
}

Sha256Digest JobKey::Proof(uint32_t rank, const Sha256Digest& records) const {
  std::string message(kDomain);
  for (uint32_t shift = 0; shift < 32; shift += 8) message.push_back(static_cast<char>(rank >> shift & 0xff));
  message.append(records.begin(), records.end());
  return HmacSha256(*bytes_, message);
}

}  // namespace meshseal::runtime
