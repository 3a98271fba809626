// How fast the matrix kernels are on the current device, beside what the device can do: decode as a share of the
// bandwidth of copies, prefill as a share of what cuBLAS does with one large matrix, both measured in the same run; and
// cuBLAS's grouped products, which also say whether those of tiles are right. One JSON object a line.
//
//   kernel_bench [--layers TEXT] [--repeat N]
//
// Weights are random numbers, a layer's as many bytes as it has; consecutive decode steps take other experts, so that
// caches hold none of them. Exit 0; 1: products of tiles are not cuBLAS's; 2: bad arguments; 7: the device failed, or
// there is none.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/kernels/activation.h"
#include "runtime/cuda/kernels/combine.h"
#include "runtime/cuda/kernels/down.h"
#include "runtime/cuda/kernels/gate_up_activation.h"
#include "runtime/cuda/kernels/gate_up_grouped.h"
#include "runtime/cuda/kernels/scatter.h"
#include "runtime/cuda/kernels/tile_pieces.h"
#include "runtime/cuda/stream.h"
#include "schema/dtype.h"
#include "schema/float_bits.h"
#include "schema/status_macros.h"
#include "tests/cuda/stored_layer.h"

namespace meshseal::cuda {
namespace {

struct BenchLayer {
  const char* name;
  uint32_t experts;
  uint32_t columns;
  uint32_t hidden;
  uint32_t top_k;
};
constexpr BenchLayer kLayers[] = {{"Mixtral-8x7B", 8, 14336, 4096, 2},
                                  {"Qwen3-30B-A3B", 128, 768, 2048, 8},
                                  {"DeepSeek-V3, a rank of 8", 32, 2048, 7168, 8}};
constexpr uint32_t kDecodeTokens[] = {1, 4, 16, 64};
constexpr uint32_t kPrefillTokens = 4096;
constexpr uint32_t kRoutings = 32;  // that consecutive decode steps take in turn
constexpr uint32_t kTileRows = 8;

absl::Status FromCublas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": cuBLAS says ", cublasGetStatusString(status)));
}

// Device memory that lives as long as this.
class Memory {
 public:
  explicit Memory(cudaStream_t stream) : stream_(stream) {}

  template <class T>
  absl::StatusOr<T*> Take(uint64_t count) {
    MESHSEAL_ASSIGN_OR_RETURN(DeviceMemory block, DeviceMemory::Reserve(count * sizeof(T), "a benchmark"));
    blocks_.push_back(std::move(block));
    return reinterpret_cast<T*>(blocks_.back().bytes().data());
  }
  template <class T>
  absl::StatusOr<T*> Put(const std::vector<T>& values) {
    MESHSEAL_ASSIGN_OR_RETURN(T* const device, Take<T>(values.size()));
    MESHSEAL_RETURN_IF_ERROR(EnqueueCopy(device, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice,
                                         stream_, "a benchmark's input"));
    MESHSEAL_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_), "a benchmark's input");
    return device;
  }

 private:
  const cudaStream_t stream_;
  std::vector<DeviceMemory> blocks_;
};

// Microseconds of one of `inner` calls that `enqueue` makes at once: the median of `repeat` replays of them as a graph.
template <class Enqueue>
absl::StatusOr<double> Time(cudaStream_t stream, uint32_t inner, uint32_t repeat, const Enqueue& enqueue) {
  struct Handles {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    cudaEvent_t before = nullptr;
    cudaEvent_t after = nullptr;
    ~Handles() {
      if (after != nullptr) static_cast<void>(cudaEventDestroy(after));
      if (before != nullptr) static_cast<void>(cudaEventDestroy(before));
      if (exec != nullptr) static_cast<void>(cudaGraphExecDestroy(exec));
      if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
    }
  } handles;
  MESHSEAL_RETURN_IF_ERROR(enqueue());  // what is made at the first call is not captured
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream), "a benchmark");
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "a capture");
  MESHSEAL_RETURN_IF_ERROR(enqueue());
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaStreamEndCapture(stream, &handles.graph), "a capture");
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaGraphInstantiate(&handles.exec, handles.graph, 0), "a graph");
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaEventCreate(&handles.before), "an event");
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaEventCreate(&handles.after), "an event");
  std::vector<double> times;
  for (uint32_t i = 0; i < repeat + 2; ++i) {
    MESHSEAL_RETURN_IF_CUDA_ERROR(cudaEventRecord(handles.before, stream), "an event");
    MESHSEAL_RETURN_IF_CUDA_ERROR(cudaGraphLaunch(handles.exec, stream), "a replay");
    MESHSEAL_RETURN_IF_CUDA_ERROR(cudaEventRecord(handles.after, stream), "an event");
    MESHSEAL_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream), "a replay");
    float milliseconds = 0;
    MESHSEAL_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&milliseconds, handles.before, handles.after), "an event");
    if (i >= 2) times.push_back(double{milliseconds} * 1000 / inner);
  }
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

struct Limits {
  double copy_gb_per_s = 0;  // read and written
  double dense_tflop_per_s = 0;
};

absl::StatusOr<Limits> MeasureLimits(cudaStream_t stream, cublasHandle_t cublas, uint32_t repeat) {
  Memory memory(stream);
  Limits limits;
  constexpr uint64_t kBytes = uint64_t{1} << 30;
  MESHSEAL_ASSIGN_OR_RETURN(std::byte* const from, memory.Take<std::byte>(kBytes));
  MESHSEAL_ASSIGN_OR_RETURN(std::byte* const to, memory.Take<std::byte>(kBytes));
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(from, 0x5A, kBytes, stream), "a copy");
  MESHSEAL_ASSIGN_OR_RETURN(const double copy, Time(stream, 1, repeat, [&]() -> absl::Status {
                              return EnqueueCopy(to, from, kBytes, cudaMemcpyDeviceToDevice, stream, "a copy");
                            }));
  limits.copy_gb_per_s = 2.0 * kBytes / copy / 1000;

  constexpr int kSide = 8192;
  std::vector<uint16_t> numbers(uint64_t{kSide} * kSide);
  std::mt19937 random(1);
  for (uint16_t& number : numbers) number = FloatToBf16(std::normal_distribution<float>()(random));
  MESHSEAL_ASSIGN_OR_RETURN(uint16_t* const a, memory.Put(numbers));
  std::reverse(numbers.begin(), numbers.end());
  MESHSEAL_ASSIGN_OR_RETURN(uint16_t* const b, memory.Put(numbers));
  MESHSEAL_ASSIGN_OR_RETURN(uint16_t* const c, memory.Take<uint16_t>(numbers.size()));
  const float one = 1;
  const float zero = 0;
  MESHSEAL_ASSIGN_OR_RETURN(
      const double dense, Time(stream, 1, repeat, [&] {
        return FromCublas(
            cublasGemmEx(cublas, CUBLAS_OP_T, CUBLAS_OP_N, kSide, kSide, kSide, &one, a, CUDA_R_16BF, kSide, b,
                         CUDA_R_16BF, kSide, &zero, c, CUDA_R_16BF, kSide, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            "a dense product");
      }));
  limits.dense_tflop_per_s = 2.0 * kSide * kSide * kSide / dense / 1e6;
  std::printf("{\"what\":\"limit\",\"copy_gb_per_s\":%.1f,\"dense_tflop_per_s\":%.1f}\n", limits.copy_gb_per_s,
              limits.dense_tflop_per_s);
  return limits;
}

// A layer's experts on the device, in one format.
class Weights {
 public:
  absl::Status Make(const BenchLayer& layer, const Storage& storage, Memory& memory, cudaStream_t stream) {
    // A piece of the rows, stored over and over.
    StoredWeights piece(3);
    const uint64_t row_bytes = piece.Add(storage, 1, layer.hidden).row_bytes;
    const uint64_t down_row_bytes = piece.Add(storage, 1, layer.columns).row_bytes;
    const auto rows = static_cast<uint32_t>((uint64_t{4} << 20) / row_bytes / 8 * 8);
    const runtime::WeightMatrix added = piece.Add(storage, rows, layer.hidden);
    piece.Upload();
    const DeviceMatrix many = piece.Device(added);  // of the host still
    // All experts' bytes, or all of each plane: gate, up and down of one after those of the other.
    struct Part {
      const std::byte* piece;
      uint64_t period;
      uint64_t in_bytes;
      uint64_t down_bytes;
      std::byte* device = nullptr;
      uint64_t expert_bytes() const { return 2 * in_bytes + down_bytes; }
    };
    std::vector<Part> parts;
    if (many.planes.are_there()) {
      for (const runtime::Plane& plane : runtime::PlanesOf(storage.dtype)) {
        parts.push_back({many.planes.data[parts.size()], runtime::BytesOfPlane(plane, rows, layer.hidden),
                         runtime::BytesOfPlane(plane, layer.columns, layer.hidden),
                         runtime::BytesOfPlane(plane, layer.hidden, layer.columns)});
      }
    } else {
      parts.push_back({many.data, rows * row_bytes, layer.columns * row_bytes, layer.hidden * down_row_bytes});
    }
    for (Part& part : parts) {
      expert_bytes_ += part.expert_bytes();
      const uint64_t bytes = part.expert_bytes() * layer.experts;
      MESHSEAL_ASSIGN_OR_RETURN(part.device, memory.Take<std::byte>(bytes));
      for (uint64_t at = 0; at < bytes; at += part.period) {
        MESHSEAL_RETURN_IF_ERROR(EnqueueCopy(part.device + at, part.piece, std::min(part.period, bytes - at),
                                             cudaMemcpyHostToDevice, stream, "the weights of a benchmark"));
      }
    }
    MESHSEAL_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream), "the weights of a benchmark");
    for (uint32_t expert = 0; expert < layer.experts; ++expert) {
      const auto matrix = [&](uint32_t rows_of, uint32_t columns, uint32_t number) {
        DeviceMatrix one = many;
        one.rows = rows_of;
        one.columns = columns;
        for (size_t i = 0; i < parts.size(); ++i) {
          const std::byte* const at = parts[i].device + expert * parts[i].expert_bytes() + number * parts[i].in_bytes;
          (many.planes.are_there() ? one.planes.data[i] : one.data) = at;
        }
        return one;
      };
      DeviceExpert& one = experts_.emplace_back();
      one.gate = matrix(layer.columns, layer.hidden, 0);
      one.up = matrix(layer.columns, layer.hidden, 1);
      one.down = matrix(layer.hidden, layer.columns, 2);
      if (!many.planes.are_there()) one.down.row_bytes = down_row_bytes;
    }
    MESHSEAL_ASSIGN_OR_RETURN(table_, memory.Put(experts_));
    return absl::OkStatus();
  }

  const std::vector<DeviceExpert>& experts() const { return experts_; }
  const DeviceExpert* table() const { return table_; }
  uint64_t expert_bytes() const { return expert_bytes_; }

 private:
  std::vector<DeviceExpert> experts_;
  const DeviceExpert* table_ = nullptr;
  uint64_t expert_bytes_ = 0;
};

// Different experts for each token.
std::vector<int32_t> Routing(const BenchLayer& layer, uint32_t tokens, std::mt19937& random) {
  std::vector<int32_t> experts(layer.experts);
  std::iota(experts.begin(), experts.end(), 0);
  std::vector<int32_t> routing;
  for (uint32_t token = 0; token < tokens; ++token) {
    std::shuffle(experts.begin(), experts.end(), random);
    routing.insert(routing.end(), experts.begin(), experts.begin() + std::min(layer.top_k, layer.experts));
  }
  return routing;
}

std::vector<float> Normal(uint64_t count, std::mt19937& random) {
  std::vector<float> values(count);
  for (float& value : values) value = std::normal_distribution<float>()(random);
  return values;
}

// What every step has.
struct Step {
  StepGrid grid;
  const runtime::ExpertPlace* places = nullptr;
  const float* x = nullptr;
  const float* routing_weights = nullptr;
  float* activations = nullptr;
  float* slots = nullptr;
  float* out = nullptr;
  uint64_t* failures = nullptr;
};

absl::StatusOr<Step> MakeStep(const BenchLayer& layer, uint32_t tokens, Memory& memory, std::mt19937& random) {
  const uint64_t slots = uint64_t{tokens} * layer.top_k;
  std::vector<runtime::ExpertPlace> places(layer.experts);
  for (uint32_t expert = 0; expert < layer.experts; ++expert) places[expert].local = static_cast<int32_t>(expert);
  Step step;
  MESHSEAL_ASSIGN_OR_RETURN(const StepTokens* const step_tokens, memory.Put<StepTokens>({{0, tokens, 0}}));
  step.grid = {step_tokens, tokens, layer.top_k, layer.hidden, layer.columns, true};
  MESHSEAL_ASSIGN_OR_RETURN(step.places, memory.Put(places));
  MESHSEAL_ASSIGN_OR_RETURN(step.x, memory.Put(Normal(uint64_t{tokens} * layer.hidden, random)));
  MESHSEAL_ASSIGN_OR_RETURN(step.routing_weights, memory.Put(std::vector<float>(slots, 1.0f / 8)));
  MESHSEAL_ASSIGN_OR_RETURN(step.activations, memory.Take<float>(slots * layer.columns));
  MESHSEAL_ASSIGN_OR_RETURN(step.slots, memory.Take<float>(slots * layer.hidden));
  MESHSEAL_ASSIGN_OR_RETURN(step.out, memory.Take<float>(uint64_t{tokens} * layer.hidden));
  MESHSEAL_ASSIGN_OR_RETURN(step.failures, memory.Take<uint64_t>(uint64_t{tokens} * CombineChunks(layer.hidden)));
  return step;
}

DownStep DownOf(const Step& step, const DeviceOwned& owned, const Weights& weights) {
  DownStep down;
  down.grid = step.grid;
  down.owned = owned;
  down.basis = Basis::kBf16;
  down.experts = weights.table();
  down.activations = step.activations;
  down.out = step.slots;
  return down;
}

absl::Status EnqueueCombine(const Step& step, const DeviceOwned& owned, cudaStream_t stream) {
  CombineStep combine;
  combine.grid = step.grid;
  combine.owned = owned;
  combine.weighs = true;
  combine.slots = step.slots;
  combine.out = step.out;
  combine.failures = step.failures;
  return FromCuda(LaunchCombine(stream, combine), "combine");
}

constexpr meshseal::Activation kRule = {ActivationKind::kSwiGlu, 0, 0};

absl::Status BenchDecode(const BenchLayer& layer, const Storage& storage, const Weights& weights, uint32_t tokens,
                         const Limits& limits, cudaStream_t stream, uint32_t repeat) {
  Memory memory(stream);
  std::mt19937 random(tokens);
  MESHSEAL_ASSIGN_OR_RETURN(const Step step, MakeStep(layer, tokens, memory, random));
  std::vector<const int32_t*> routings;
  double bytes = 0;  // of the experts that a step selects, on average
  for (uint32_t i = 0; i < kRoutings; ++i) {
    std::vector<int32_t> routing = Routing(layer, tokens, random);
    MESHSEAL_ASSIGN_OR_RETURN(const int32_t* const device, memory.Put(routing));
    routings.push_back(device);
    std::sort(routing.begin(), routing.end());
    const auto distinct = std::unique(routing.begin(), routing.end()) - routing.begin();
    bytes += static_cast<double>(distinct) * static_cast<double>(weights.expert_bytes()) / kRoutings;
  }
  MESHSEAL_ASSIGN_OR_RETURN(
      const double us, Time(stream, kRoutings, repeat, [&]() -> absl::Status {
        for (const int32_t* const routing : routings) {
          const DeviceOwned owned = {routing, step.routing_weights, step.places};
          GateUpActivationStep gate_up;
          gate_up.grid = step.grid;
          gate_up.owned = owned;
          gate_up.basis = Basis::kBf16;
          gate_up.rule = kRule;
          gate_up.experts = weights.table();
          gate_up.x = step.x;
          gate_up.out = step.activations;
          MESHSEAL_RETURN_IF_CUDA_ERROR(LaunchGateUpActivation(stream, ProductKind::kLanes, gate_up), "gate_up");
          MESHSEAL_RETURN_IF_CUDA_ERROR(LaunchDown(stream, ProductKind::kLanes, DownOf(step, owned, weights)), "down");
          MESHSEAL_RETURN_IF_ERROR(EnqueueCombine(step, owned, stream));
        }
        return absl::OkStatus();
      }));
  const double rate = bytes / us / 1000;
  std::printf(
      "{\"what\":\"decode\",\"layer\":\"%s\",\"format\":\"%s\",\"tokens\":%u,\"us\":%.2f,\"gb_per_s\":%.1f,"
      "\"of_copy\":%.3f,\"floor_us\":%.2f}\n",
      layer.name, storage.name.c_str(), tokens, us, rate, rate / limits.copy_gb_per_s,
      bytes / limits.copy_gb_per_s / 1000);
  return absl::OkStatus();
}

// cuBLAS's grouped product of the same rows with `up` of every expert; sizes come from the host, which has read them.
absl::StatusOr<bool> BenchCublasGrouped(const BenchLayer& layer, const Weights& weights, const Step& step,
                                        const std::vector<int32_t>& slot_of_row, const std::vector<int32_t>& first_row,
                                        const float* tiles, cublasHandle_t cublas, cudaStream_t stream,
                                        uint32_t repeat) {
  Memory memory(stream);
  const uint64_t rows = slot_of_row.size();
  std::vector<float> x(uint64_t{step.grid.max_tokens} * layer.hidden);
  MESHSEAL_RETURN_IF_ERROR(
      EnqueueCopy(x.data(), step.x, x.size() * sizeof(float), cudaMemcpyDeviceToHost, stream, "x"));
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream), "x");
  std::vector<uint16_t> halves(rows * layer.hidden, 0);
  for (uint64_t row = 0; row < rows; ++row) {
    if (slot_of_row[row] < 0) continue;
    const uint64_t token = static_cast<uint64_t>(slot_of_row[row]) / layer.top_k;
    for (uint32_t i = 0; i < layer.hidden; ++i) {
      halves[row * layer.hidden + i] = FloatToBf16(x[token * layer.hidden + i]);
    }
  }
  MESHSEAL_ASSIGN_OR_RETURN(const uint16_t* const operands, memory.Put(halves));
  MESHSEAL_ASSIGN_OR_RETURN(uint16_t* const out, memory.Take<uint16_t>(rows * layer.columns));
  std::vector<const void*> a;
  std::vector<const void*> b;
  std::vector<void*> c;
  std::vector<int> counts;
  for (uint32_t expert = 0; expert < layer.experts; ++expert) {
    const int count = first_row[expert + 1] - first_row[expert];
    if (count == 0) continue;
    const auto first = static_cast<uint64_t>(first_row[expert]);
    a.push_back(weights.experts()[expert].up.data);
    b.push_back(operands + first * layer.hidden);
    c.push_back(out + first * layer.columns);
    counts.push_back(count);
  }
  const size_t groups = counts.size();
  MESHSEAL_ASSIGN_OR_RETURN(const void** const device_a, memory.Put(a));
  MESHSEAL_ASSIGN_OR_RETURN(const void** const device_b, memory.Put(b));
  MESHSEAL_ASSIGN_OR_RETURN(void** const device_c, memory.Put(c));
  const std::vector<cublasOperation_t> transposed(groups, CUBLAS_OP_T);
  const std::vector<cublasOperation_t> plain(groups, CUBLAS_OP_N);
  const std::vector<int> columns(groups, static_cast<int>(layer.columns));
  const std::vector<int> hidden(groups, static_cast<int>(layer.hidden));
  const std::vector<int> ones(groups, 1);
  const std::vector<float> alpha(groups, 1.0f);
  const std::vector<float> beta(groups, 0.0f);
  MESHSEAL_ASSIGN_OR_RETURN(
      const double us, Time(stream, 1, repeat, [&] {
        return FromCublas(
            cublasGemmGroupedBatchedEx(cublas, transposed.data(), plain.data(), columns.data(), counts.data(),
                                       hidden.data(), alpha.data(), device_a, CUDA_R_16BF, hidden.data(), device_b,
                                       CUDA_R_16BF, hidden.data(), beta.data(), device_c, CUDA_R_16BF, columns.data(),
                                       static_cast<int>(groups), ones.data(), CUBLAS_COMPUTE_32F),
            "a grouped product");
      }));
  // Of every expert its first and last row.
  double largest = 0;
  double furthest = 0;
  std::vector<float> mine(layer.columns);
  std::vector<uint16_t> theirs(layer.columns);
  for (uint32_t expert = 0; expert < layer.experts; ++expert) {
    for (const int32_t row : {first_row[expert], first_row[expert + 1] - 1}) {
      if (row < first_row[expert] || slot_of_row[static_cast<size_t>(row)] < 0) continue;
      const auto at = static_cast<uint64_t>(row);
      MESHSEAL_RETURN_IF_ERROR(EnqueueCopy(mine.data(), tiles + at * 2 * layer.columns + layer.columns,
                                           mine.size() * sizeof(float), cudaMemcpyDeviceToHost, stream, "a row"));
      MESHSEAL_RETURN_IF_ERROR(EnqueueCopy(theirs.data(), out + at * layer.columns, theirs.size() * sizeof(uint16_t),
                                           cudaMemcpyDeviceToHost, stream, "a row"));
      MESHSEAL_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream), "a row");
      for (uint32_t i = 0; i < layer.columns; ++i) {
        const double value = double{Bf16ToFloat(theirs[i])};
        largest = std::max(largest, std::fabs(value));
        furthest = std::max(furthest, std::fabs(value - double{mine[i]}));
      }
    }
  }
  const bool same = furthest <= std::ldexp(largest, -7);  // theirs are rounded to bf16
  const double operations = 2.0 * step.grid.max_tokens * layer.top_k * layer.hidden * layer.columns;
  std::printf(
      "{\"what\":\"peer\",\"peer\":\"cuBLAS grouped, up alone\",\"layer\":\"%s\",\"format\":\"bf16\",\"tokens\":%u,"
      "\"us\":%.2f,\"tflop_per_s\":%.1f,\"furthest\":%.3g,\"largest\":%.3g,\"same\":%s}\n",
      layer.name, step.grid.max_tokens, us, operations / us / 1e6, furthest, largest, same ? "true" : "false");
  return same;
}

absl::StatusOr<bool> BenchPrefill(const BenchLayer& layer, const Storage& storage, const Weights& weights,
                                  const Limits& limits, cublasHandle_t cublas, cudaStream_t stream, uint32_t repeat) {
  Memory memory(stream);
  std::mt19937 random(7);
  MESHSEAL_ASSIGN_OR_RETURN(const Step step, MakeStep(layer, kPrefillTokens, memory, random));
  const uint64_t slots = step.grid.max_slots();
  const auto capacity = static_cast<uint32_t>(slots + uint64_t{layer.experts} * (kTileRows - 1));
  MESHSEAL_ASSIGN_OR_RETURN(const int32_t* const routing, memory.Put(Routing(layer, kPrefillTokens, random)));
  const DeviceOwned owned = {routing, step.routing_weights, step.places};
  ScatterStep scatter;
  scatter.grid = step.grid;
  scatter.owned = owned;
  scatter.local_experts = layer.experts;
  scatter.tile_rows = kTileRows;
  scatter.capacity = capacity;
  scatter.x = step.x;
  MESHSEAL_ASSIGN_OR_RETURN(scatter.rows, memory.Take<float>(uint64_t{capacity} * layer.hidden));
  MESHSEAL_ASSIGN_OR_RETURN(scatter.slot_of_row, memory.Take<int32_t>(capacity));
  MESHSEAL_ASSIGN_OR_RETURN(scatter.row_of_slot, memory.Take<int32_t>(slots));
  MESHSEAL_ASSIGN_OR_RETURN(scatter.first_row, memory.Take<int32_t>(layer.experts + 1));
  MESHSEAL_ASSIGN_OR_RETURN(scatter.failure, memory.Take<uint64_t>(1));
  MESHSEAL_ASSIGN_OR_RETURN(scatter.local_of_slot, memory.Take<int32_t>(slots));
  MESHSEAL_ASSIGN_OR_RETURN(scatter.counts, memory.Take<uint32_t>(layer.experts));
  MESHSEAL_ASSIGN_OR_RETURN(float* const grouped, memory.Take<float>(uint64_t{capacity} * step.grid.products()));
  MESHSEAL_ASSIGN_OR_RETURN(float* const products, memory.Take<float>(slots * step.grid.products()));
  const DeviceGrouping grouping = {capacity, layer.experts, scatter.slot_of_row, scatter.first_row};
  GateUpGroupedStep gate_up;
  gate_up.grid = step.grid;
  gate_up.grouping = grouping;
  gate_up.basis = Basis::kBf16;
  gate_up.experts = weights.table();
  gate_up.rows = scatter.rows;
  gate_up.out = grouped;
  gate_up.are_halves = AreHalves(HalfType::kBf16, weights.experts()[0].up);
  DownStep down = DownOf(step, owned, weights);
  down.grouping = grouping;
  down.are_halves = AreHalves(HalfType::kBf16, weights.experts()[0].down);
  const auto whole = [&]() -> absl::Status {
    MESHSEAL_RETURN_IF_CUDA_ERROR(LaunchScatter(stream, scatter), "scatter");
    MESHSEAL_RETURN_IF_CUDA_ERROR(LaunchGateUpGrouped(stream, ProductKind::kTiles, gate_up), "gate_up");
    MESHSEAL_RETURN_IF_CUDA_ERROR(
        LaunchUnscatter(stream, {step.grid, scatter.row_of_slot, step.grid.products(), grouped, products}),
        "unscatter");
    MESHSEAL_RETURN_IF_CUDA_ERROR(
        LaunchActivation(stream, {step.grid, owned, false, kRule, products, step.activations}), "activation");
    MESHSEAL_RETURN_IF_CUDA_ERROR(LaunchDown(stream, ProductKind::kTiles, down), "down");
    return EnqueueCombine(step, owned, stream);
  };
  MESHSEAL_ASSIGN_OR_RETURN(const double whole_us, Time(stream, 1, repeat, whole));
  MESHSEAL_ASSIGN_OR_RETURN(const double us, Time(stream, 1, repeat, [&]() -> absl::Status {
                              MESHSEAL_RETURN_IF_CUDA_ERROR(LaunchGateUpGrouped(stream, ProductKind::kTiles, gate_up),
                                                            "gate_up");
                              return FromCuda(LaunchDown(stream, ProductKind::kTiles, down), "down");
                            }));
  const double operations = 6.0 * static_cast<double>(slots) * layer.hidden * layer.columns;
  const double rate = operations / us / 1e6;
  std::printf(
      "{\"what\":\"prefill\",\"layer\":\"%s\",\"format\":\"%s\",\"tokens\":%u,\"us\":%.1f,\"tflop_per_s\":%.1f,"
      "\"of_dense\":%.3f,\"whole_us\":%.1f}\n",
      layer.name, storage.name.c_str(), kPrefillTokens, us, rate, rate / limits.dense_tflop_per_s, whole_us);
  if (storage.dtype != DType::kBf16) return true;
  std::vector<int32_t> slot_of_row(capacity);
  std::vector<int32_t> first_row(layer.experts + 1);
  MESHSEAL_RETURN_IF_ERROR(EnqueueCopy(slot_of_row.data(), scatter.slot_of_row, capacity * sizeof(int32_t),
                                       cudaMemcpyDeviceToHost, stream, "the grouping"));
  MESHSEAL_RETURN_IF_ERROR(EnqueueCopy(first_row.data(), scatter.first_row, first_row.size() * sizeof(int32_t),
                                       cudaMemcpyDeviceToHost, stream, "the grouping"));
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream), "the grouping");
  return BenchCublasGrouped(layer, weights, step, slot_of_row, first_row, grouped, cublas, stream, repeat);
}

absl::StatusOr<bool> BenchAll(const std::string& layers, uint32_t repeat) {
  int devices = 0;
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaGetDeviceCount(&devices), "the devices of this machine");
  MESHSEAL_ASSIGN_OR_RETURN(const Stream stream, Stream::Make());
  struct Handle {
    cublasHandle_t handle = nullptr;
    ~Handle() {
      if (handle != nullptr) static_cast<void>(cublasDestroy(handle));
    }
  } cublas;
  MESHSEAL_RETURN_IF_ERROR(FromCublas(cublasCreate(&cublas.handle), "cuBLAS"));
  MESHSEAL_RETURN_IF_ERROR(FromCublas(cublasSetStream(cublas.handle, stream.get()), "cuBLAS"));
  Memory workspace(stream.get());
  constexpr uint64_t kWorkspace = uint64_t{64} << 20;
  MESHSEAL_ASSIGN_OR_RETURN(std::byte* const room, workspace.Take<std::byte>(kWorkspace));
  MESHSEAL_RETURN_IF_ERROR(FromCublas(cublasSetWorkspace(cublas.handle, room, kWorkspace), "cuBLAS"));
  MESHSEAL_ASSIGN_OR_RETURN(const Limits limits, MeasureLimits(stream.get(), cublas.handle, repeat));
  bool right = true;
  for (const BenchLayer& layer : kLayers) {
    if (std::string(layer.name).find(layers) == std::string::npos) continue;
    for (const char* const format :
         {"bf16", "q8_0", "q8_0 repacked", "q4_k", "q4_k repacked", "q6_k", "q6_k repacked"}) {
      const Storage storage = StorageNamed(format);
      Memory memory(stream.get());
      Weights weights;
      MESHSEAL_RETURN_IF_ERROR(weights.Make(layer, storage, memory, stream.get()));
      for (const uint32_t tokens : kDecodeTokens) {
        MESHSEAL_RETURN_IF_ERROR(BenchDecode(layer, storage, weights, tokens, limits, stream.get(), repeat));
      }
      MESHSEAL_ASSIGN_OR_RETURN(const bool same,
                                BenchPrefill(layer, storage, weights, limits, cublas.handle, stream.get(), repeat));
      right = right && same;
    }
  }
  return right;
}

int Main(const std::vector<std::string>& words) {
  std::string layers;
  uint32_t repeat = 20;
  bool understood = words.size() % 2 == 0;
  for (size_t i = 0; understood && i < words.size(); i += 2) {
    if (words[i] == "--layers") {
      layers = words[i + 1];
    } else {
      understood = words[i] == "--repeat" && absl::SimpleAtoi(words[i + 1], &repeat) && repeat > 0;
    }
  }
  if (!understood) {
    std::fprintf(stderr, "kernel_bench: [--layers TEXT] [--repeat N]\n");
    return 2;
  }
  const absl::StatusOr<bool> right = BenchAll(layers, repeat);
  if (!right.ok()) {
    std::fprintf(stderr, "kernel_bench: %s\n", std::string(right.status().message()).c_str());
    return 7;
  }
  return *right ? 0 : 1;
}

}  // namespace
}  // namespace meshseal::cuda

int main(int argc, char** argv) { return meshseal::cuda::Main({argv + 1, argv + argc}); }
