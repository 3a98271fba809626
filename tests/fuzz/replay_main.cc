// A fuzz target without a fuzzer: runs every file of its seeds, then cut and changed copies of them, the same ones with
// every compiler. What libFuzzer would find later than this, `tools/fuzz` finds.
// Usage: NAME_replay LIST CHANGES    LIST: a file with a path a line, of a seed or of a folder of seeds
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"
#include "tests/support/sanitized.h"

// Not every target has one.
extern "C" __attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                                                unsigned int seed);
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

namespace fs = std::filesystem;

constexpr size_t kCuts = 64;             // of each seed
constexpr size_t kMostGrowth = 4096;     // bytes that a change may add
constexpr unsigned kMostSeconds = 30;    // of one input
constexpr uint64_t kLessSanitized = 10;  // changes are this many times fewer under sanitizers

struct Seed {
  std::string name;
  std::string bytes;
};

// What is running now, for the message at its end.
std::string running;           // NOLINT: a signal handler has no other way to it
std::string* input = nullptr;  // NOLINT

void SayWhatRan() {
  static const char kFile[] = "fuzz-replay-reproducer";
  const std::string text = "while replaying " + running + "; the input is in " + kFile + "\n";
  (void)!write(STDERR_FILENO, text.data(), text.size());
  if (std::FILE* file = std::fopen(kFile, "wb")) {
    std::fwrite(input->data(), 1, input->size(), file);
    std::fclose(file);
  }
}

void OnSignal(int number) {
  SayWhatRan();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

// In memory of exactly its size, so that a sanitizer sees a byte too many.
void Run(const std::string& name, std::string bytes) {
  running = name;
  input = &bytes;
  const auto exact = std::make_unique<uint8_t[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), exact.get());
  alarm(kMostSeconds);
  LLVMFuzzerTestOneInput(exact.get(), bytes.size());
  alarm(0);
}

std::string ReadAll(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    std::fprintf(stderr, "%s: cannot be opened\n", path.c_str());
    std::exit(1);
  }
  return {std::istreambuf_iterator<char>(in), {}};
}

// Sorted within each folder.
std::vector<Seed> ReadSeeds(const char* list) {
  std::vector<Seed> seeds;
  std::ifstream in(list);
  std::string line;
  while (std::getline(in, line)) {
    std::vector<fs::path> paths = {line};
    if (fs::is_directory(line)) {
      paths.clear();
      for (const auto& entry : fs::directory_iterator(line)) paths.push_back(entry.path());
      std::sort(paths.begin(), paths.end());
    }
    for (const fs::path& path : paths) seeds.push_back({path.filename().string(), ReadAll(path)});
  }
  return seeds;
}

std::mt19937 bytes_generator(1);  // NOLINT: LLVMFuzzerMutate has no argument for it

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size) {
  const auto below = [](size_t end) { return bytes_generator() % end; };
  std::string text(reinterpret_cast<const char*>(data), size);
  for (size_t changes = 1 + below(3); changes > 0; --changes) {
    const size_t at = below(text.size() + 1);
    const auto byte = static_cast<char>(below(256));
    switch (below(6)) {
      case 0:
        if (at < text.size()) text[at] = byte;
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ 1 << below(8));
        break;
      case 2:
        text.insert(at, 1 + below(8), byte);
        break;
      case 3:
        text.erase(at, 1 + below(8));
        break;
      case 4:  // a piece from elsewhere
        text.insert(at, text.substr(below(text.size() + 1), 1 + below(32)));
        break;
      default:  // the bytes of extreme numbers
        for (size_t i = at; i < std::min(text.size(), at + 1 + below(8)); ++i) text[i] = byte < 0 ? '\xff' : '\0';
    }
  }
  return meshseal::fuzz::Replace(text, data, size, max_size);
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s LIST CHANGES\n", argv[0]);
    return 2;
  }
  const std::vector<Seed> seeds = ReadSeeds(argv[1]);
  if (seeds.empty()) {
    std::fprintf(stderr, "%s: there are no seeds\n", argv[1]);
    return 1;
  }
  for (const int number : {SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGSEGV}) std::signal(number, OnSignal);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(SayWhatRan);

  for (const Seed& seed : seeds) Run(seed.name, seed.bytes);
  if (meshseal::fuzz::accepted == 0) {
    std::fprintf(stderr, "%s: the target accepts none of these seeds: they test nothing behind its first refusal\n",
                 argv[1]);
    return 1;
  }
  const uint64_t seeds_accepted = meshseal::fuzz::accepted;

  size_t cuts = 0;
  for (const Seed& seed : seeds) {
    const size_t count = std::min(seed.bytes.size(), kCuts);
    for (size_t i = 0; i < count; ++i, ++cuts) {
      const size_t length = seed.bytes.size() * i / count;
      Run(seed.name + " cut to " + std::to_string(length) + " bytes", seed.bytes.substr(0, length));
    }
  }
  const uint64_t changes = std::strtoull(argv[2], nullptr, 10) / (meshseal::support::kSanitized ? kLessSanitized : 1);
  for (uint64_t i = 0; i < changes; ++i) {
    const Seed& seed = seeds[i % seeds.size()];
    std::string bytes = seed.bytes;
    const size_t size = bytes.size();
    bytes.resize(size + kMostGrowth);
    auto* data = reinterpret_cast<uint8_t*>(bytes.data());
    bytes_generator.seed(static_cast<unsigned int>(i));
    bytes.resize(LLVMFuzzerCustomMutator != nullptr
                     ? LLVMFuzzerCustomMutator(data, size, bytes.size(), static_cast<unsigned int>(i))
                     : LLVMFuzzerMutate(data, size, bytes.size()));
    Run(seed.name + ", change " + std::to_string(i), bytes);
  }
  std::printf("%zu seeds (%llu accepted), %zu cuts, %llu changes (%llu accepted)\n", seeds.size(),
              static_cast<unsigned long long>(seeds_accepted), cuts, static_cast<unsigned long long>(changes),
              static_cast<unsigned long long>(meshseal::fuzz::accepted - seeds_accepted));
  return 0;
}
