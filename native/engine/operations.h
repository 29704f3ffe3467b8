// The device operations that are not operators or kernels. Each checks its arguments, honours
// captures and either runs now (synchronous forms) or submits a task.
#pragma once

#include <cstddef>
#include <cstdint>

#include "error.h"
#include "stream.h"

namespace softnpu {

class Context;

enum class CopyKind { HostToHost, HostToDevice, DeviceToHost, DeviceToDevice, Default };

Error copy(Context& context, void* dst, size_t dst_max, const void* src, size_t count,
           CopyKind kind);
// Pageable host memory, which is legal outside a capture alone: a source is read at the call, a
// destination is written when the call returns.
Error copy_async(Stream& stream, void* dst, size_t dst_max, const void* src, size_t count,
                 CopyKind kind, const char* call);
Error copy_2d(Context& context, void* dst, size_t dst_pitch, const void* src, size_t src_pitch,
              size_t width, size_t height, CopyKind kind);
Error copy_2d_async(Stream& stream, void* dst, size_t dst_pitch, const void* src, size_t src_pitch,
                    size_t width, size_t height, CopyKind kind);
Error fill(Context& context, void* dst, size_t max, int32_t value, size_t count);
Error fill_async(Stream& stream, void* dst, size_t max, int32_t value, size_t count);

enum class ValueTest : uint32_t { GreaterEqual = 0, Equal = 1, And = 2, Nor = 3 };
Error value_write(Stream& stream, void* address, uint64_t value);
Error value_wait(Stream& stream, void* address, uint64_t value, ValueTest test);

// Runs `fn(data)` on the device's host-function thread, in stream order.
Error host_func(Stream& stream, void (*fn)(void*), void* data);
// The older form: the function runs in the thread that subscribed to the stream and calls
// process_report(). A blocking one holds the stream until it has run.
Error subscribe_report(uint64_t thread_id, Stream& stream);
Error unsubscribe_report(uint64_t thread_id, Stream& stream);
Error launch_callback(Stream& stream, void (*fn)(void*), void* data, bool blocking);
Error process_report(int timeout_ms);
void forget_subscription(const Stream& stream);  // the stream ends

}  // namespace softnpu
