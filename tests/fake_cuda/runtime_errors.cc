// Error codes: their names and texts, and the calling thread's last one.
#include "tests/fake_cuda/machine.h"

namespace {

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrorTexts[] = {
#define X(name, text) {name, #name, text},
#include "tests/fake_cuda/cuda_errors.def"
#undef X
};

const ErrorText* FindText(cudaError_t error) {
  for (const ErrorText& row : kErrorTexts) {
    if (row.error == error) return &row;
  }
  return nullptr;
}

constexpr char kUnknown[] = "unrecognized error code";

// A lost device's error is every thread's last one, and stays.
cudaError_t LastError(const char* function, bool clear) {
  fake_cuda::Machine& machine = fake_cuda::TheMachine();
  const fake_cuda::Lock lock(machine.mutex());
  machine.calls().Enter(function);
  const int device = machine.current_device();
  if (device < machine.device_count() && machine.DeviceError(device) != cudaSuccess) return machine.DeviceError(device);
  const cudaError_t error = machine.last_error();
  if (clear) machine.last_error() = cudaSuccess;
  return error;
}

}  // namespace

cudaError_t cudaPeekAtLastError() { return LastError("cudaPeekAtLastError", false); }

cudaError_t cudaGetLastError() { return LastError("cudaGetLastError", true); }

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* const row = FindText(error);
  return row ? row->name : kUnknown;
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* const row = FindText(error);
  return row ? row->text : kUnknown;
}
