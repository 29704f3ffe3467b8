// Compiled kernels: loading a binary, finding a function, launching it (see kernel/launch_abi.h).
#pragma once

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
  void* entry;                            // SnKernelFn
  std::shared_ptr<KernelBinary> binary;   // kept loaded while tasks refer to it
};

class KernelBinary : public std::enable_shared_from_this<KernelBinary> {
 public:
  // `data` is a shared object for this machine. The handle stays valid until unload().
  static Error load(const void* data, size_t bytes, KernelBinary** out);
  static KernelBinary* from_handle(void* handle);
  Error unload();
  Error function(const std::string& name, KernelFunction** out);
  explicit KernelBinary(void* library) : library_(library) {}
  ~KernelBinary();

 private:
  void* library_;
  std::mutex mutex_;  // guards functions_
  std::map<std::string, std::unique_ptr<KernelFunction>> functions_;
};

KernelFunction* kernel_function_from_handle(void* handle);

// Copies `args` at the call. 1 to 65535 blocks.
Error launch_kernel(Stream& stream, KernelFunction& function, uint32_t blocks, const void* args,
                    size_t args_size);

}  // namespace softnpu
