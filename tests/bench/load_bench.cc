// Loading weights, verified and not, next to plain reads of the same bytes into memory of the same kind; with the file
// in the page cache and without.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/memory/arena.h"
#include "runtime/weights/rank_weights.h"
#include "runtime/weights/synthetic_weights.h"
#include "runtime/weights/weight_files.h"
#include "schema/checkpoint_listing.h"
#include "schema/hash_tensors.h"
#include "schema/sealed_digests.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/plan_builder.h"

namespace meshseal::runtime {
namespace {

uint32_t Threads() { return std::max(1u, std::thread::hardware_concurrency()); }

template <class T>
T Must(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::cerr << value.status() << "\n";
    std::exit(1);
  }
  return *std::move(value);
}

void Must(const absl::Status& status) {
  if (status.ok()) return;
  std::cerr << status << "\n";
  std::exit(1);
}

// One layer with the shapes of Qwen3-30B-A3B and half of its experts: 0.6 GB of bf16.
class Model {
 public:
  static const Model& Get() {
    static const Model model;
    return model;
  }

  const SealedPlan& plan() const { return plan_; }
  const WeightDigests& digests() const { return digests_.digests(); }
  std::filesystem::path folder() const { return folder_.path(); }
  std::string file() const { return (folder_.path() / "model.safetensors").string(); }
  uint64_t bytes() const { return plan_.plan().memory[0].weights; }

 private:
  Model() : content_(Content()), digests_(WriteFiles()), plan_(support::Seal(content_)) {}

  static Plan Content() {
    support::PlanNumbers n;
    n.hidden = 2048;
    n.intermediate = 768;
    n.experts = 64;
    n.top_k = 8;
    n.dtype = DType::kBf16;
    n.decode_tokens = n.prefill_tokens = n.prefill_chunk = 8;
    return support::BuildPlan(n);
  }

  SealedDigests WriteFiles() {
    const LayerClass& c = content_.layer_classes[0];
    support::RawTensors tensors;
    for (const TensorClass& tensor : c.tensors) {
      for (uint32_t expert = 0; expert < (tensor.role == TensorRole::kRouter ? 1 : c.experts); ++expert) {
        const Atom atom = {{content_.hidden, &c, &tensor, nullptr}, 0, expert, {0, c.intermediate}};
        const StoredForm form = StoredForms(atom.of, WeightSource::kSafetensors).front();
        std::string bytes(*BytesOf(form.dtype, *ElementsOf(form.shape)), '\0');
        Must(MakeSynthetic(1, atom, absl::MakeSpan(reinterpret_cast<std::byte*>(bytes.data()), bytes.size())));
        tensors.push_back({NameOf(atom), form.dtype, form.shape, std::move(bytes)});
      }
    }
    support::WriteFile(file(), support::EncodeSafetensors(tensors));
    const int descriptor = ::open(file().c_str(), O_RDWR | O_CLOEXEC);
    ::fsync(descriptor);
    ::close(descriptor);
    std::vector<RegularFile> files;
    const CheckpointListing listing = Must(CheckpointListing::Open(folder_.path(), &files));
    const WeightDigests digests = Must(DigestCheckpoint(content_.model_name, content_.hidden, content_.layer_classes,
                                                        listing, files, Threads(), [](const HashProgress&) {}));
    SealedDigests sealed = Must(SealedDigests::Open(Must(SealDigests(digests))));
    content_.weights_digest = sealed.id();
    return sealed;
  }

  support::TempFolder folder_;
  Plan content_;
  SealedDigests digests_;
  SealedPlan plan_;
};

enum Cache : int64_t { kCold, kWarm };

// The file is in the page cache, or the kernel was asked to forget it.
void Prepare(benchmark::State& state, const std::string& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (state.range(0) == kCold) {
    ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  } else {
    std::vector<char> buffer(8 << 20);
    while (::read(descriptor, buffer.data(), buffer.size()) > 0) {
    }
  }
  ::close(descriptor);
}

void Count(benchmark::State& state, uint64_t bytes) {
  state.SetBytesProcessed(static_cast<int64_t>(bytes) * state.iterations());
  state.SetLabel(state.range(0) == kCold ? "not cached" : "cached");
  state.counters["threads"] = Threads();
}

// Every thread takes the next 8 MiB, as far as they belong to the weights.
void PlainRead(benchmark::State& state) {
  const Model& model = Model::Get();
  constexpr uint64_t kChunk = uint64_t{8} << 20;
  for (auto _ : state) {
    state.PauseTiming();
    Prepare(state, model.file());
    state.ResumeTiming();
    const Arena memory = Must(Arena::Reserve(model.bytes(), "the copy"));
    std::atomic<uint64_t> next{0};
    const auto work = [&] {
      const int descriptor = ::open(model.file().c_str(), O_RDONLY | O_CLOEXEC);
      const auto begin = static_cast<uint64_t>(std::filesystem::file_size(model.file()) - model.bytes());
      for (uint64_t at = next.fetch_add(kChunk); at < model.bytes(); at = next.fetch_add(kChunk)) {
        const uint64_t size = std::min(kChunk, model.bytes() - at);
        for (uint64_t done = 0; done < size;) {
          const ssize_t got = ::pread(descriptor, memory.bytes().data() + at + done, size - done,
                                      static_cast<off_t>(begin + at + done));
          if (got <= 0) std::exit(1);
          done += static_cast<uint64_t>(got);
        }
      }
      ::close(descriptor);
    };
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < Threads(); ++i) threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
    benchmark::DoNotOptimize(memory.bytes().data());
  }
  Count(state, model.bytes());
}

void Load(benchmark::State& state, bool verified) {
  const Model& model = Model::Get();
  const WeightFiles files =
      Must(WeightFiles::Open(model.plan(), model.folder(), verified ? &model.digests() : nullptr));
  for (auto _ : state) {
    state.PauseTiming();
    Prepare(state, model.file());
    state.ResumeTiming();
    RankWeights weights = Must(RankWeights::Reserve(model.plan(), 0));
    Must(weights.Load(files, Threads(), nullptr));
    benchmark::DoNotOptimize(weights.Layer(0));
  }
  Count(state, model.bytes());
}
void LoadUnverified(benchmark::State& state) { Load(state, false); }
void LoadVerified(benchmark::State& state) { Load(state, true); }

BENCHMARK(PlainRead)->Arg(kCold)->Arg(kWarm)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(LoadUnverified)->Arg(kCold)->Arg(kWarm)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(LoadVerified)->Arg(kCold)->Arg(kWarm)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace meshseal::runtime

BENCHMARK_MAIN();
