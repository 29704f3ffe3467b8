// The process's part in the device: who may use it, and how it ends.
#pragma once

#include "context.h"
#include "device.h"
#include "errors.h"
#include "stream.h"

namespace softnpu::abi {

// Says that the device is about to be used: from now on it is parked at exit, and a forked child
// has lost it.
void use_device();
// Whether this is a child that was forked when the device was in use: its thread is not here.
bool lost_by_fork();

// The device that threads without a context use; -1 without one.
void set_default_device(int index);
int default_device();

// Finders. Each returns 0 or the recorded failure of `function`.
aclError find_device(int32_t index, const char* function, Device** out);
aclError find_context(const char* function, Context** out);
// A null handle is the default stream of the current context.
aclError find_stream(aclrtStream handle, const char* function, Stream** out);
// Calls that use no context, but locks that a fork may have left held.
aclError check_not_forked(const char* function);

}  // namespace softnpu::abi

#define SN_FIND(call)                            \
  do {                                           \
    if (aclError number = (call)) return number; \
  } while (false)

#define SN_DEVICE(name, index)       \
  ::softnpu::Device* name = nullptr; \
  SN_FIND(::softnpu::abi::find_device(index, __func__, &name))

#define SN_CONTEXT(name)              \
  ::softnpu::Context* name = nullptr; \
  SN_FIND(::softnpu::abi::find_context(__func__, &name))

#define SN_STREAM(name, handle)      \
  ::softnpu::Stream* name = nullptr; \
  SN_FIND(::softnpu::abi::find_stream(handle, __func__, &name))
