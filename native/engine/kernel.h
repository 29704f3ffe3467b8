// Compiled kernels: loading a binary, finding a function, launching it (see kernel/launch_abi.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "error.h"
#include "stream.h"

namespace softnpu {

class KernelBinary;

struct KernelFunction {
  std::string name;
  void* entry;                      // SnKernelFn
  KernelBinary& binary;             // owns this function
  std::atomic<int64_t> last_ns{0};  // how long its last run took
  KernelFunction(std::string function_name, void* function_entry, KernelBinary& owner)
      : name(std::move(function_name)), entry(function_entry), binary(owner) {}
};

class KernelBinary : public std::enable_shared_from_this<KernelBinary> {
 public:
  // `data` is a shared object for this machine. The handle stays valid until unload().
  static Error load(const void* data, size_t bytes, KernelBinary** out);
  static KernelBinary* from_handle(void* handle);
  // Handles of the binary and its functions end; the code stays until the last task has run.
  Error unload();
  Error function(const std::string& name, KernelFunction** out);
  KernelBinary(void* library, int file) : library_(library), file_(file) {}
  ~KernelBinary();

 private:
  void* const library_;
  const int file_;
  std::mutex mutex_;  // guards functions_
  std::map<std::string, std::unique_ptr<KernelFunction>> functions_;
};

KernelFunction* kernel_function_from_handle(void* handle);

// Copies `args` at the call. 1 to 65535 blocks.
Error launch_kernel(Stream& stream, KernelFunction& function, uint32_t blocks, const void* args,
                    size_t args_size);

}  // namespace softnpu
