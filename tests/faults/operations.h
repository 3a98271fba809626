// What must end cleanly whatever fails in it: a plan opened, signed, verified, compiled, a digest list
// opened.
#ifndef MESHSEAL_TESTS_FAULTS_OPERATIONS_H_
#define MESHSEAL_TESTS_FAULTS_OPERATIONS_H_

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace meshseal::faults {

class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  // As a user's program would do it, and nothing else: what is allocated and called in here is the product's.
  virtual absl::Status Run() = 0;
  // What came out of a Run that succeeded, as bytes to compare.
  virtual std::string Result() = 0;
  // Gives back what Run has left in memory.
  virtual void Clear() = 0;

  // The file that Run writes; empty when it writes none.
  virtual std::filesystem::path output() const { return {}; }
  // What nobody may find in memory that was given back.
  virtual std::string secret() const { return ""; }
};

// In a folder of its own, with plan, digest list, keys, signature and keyring.
class Workplace {
 public:
  Workplace();
  ~Workplace();
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  const std::filesystem::path& folder() const { return folder_; }

  std::unique_ptr<Operation> Open() const;
  std::unique_ptr<Operation> Sign() const;
  std::unique_ptr<Operation> Verify() const;
  std::unique_ptr<Operation> Compile() const;
  std::unique_ptr<Operation> OpenDigests() const;

 private:
  std::filesystem::path folder_;
};

// The names of what lies in `folder`, sorted.
std::vector<std::string> NamesIn(const std::filesystem::path& folder);
std::string ContentOf(const std::filesystem::path& path);
void WriteContent(const std::filesystem::path& path, const std::string& content);

}  // namespace meshseal::faults

#endif  // MESHSEAL_TESTS_FAULTS_OPERATIONS_H_
