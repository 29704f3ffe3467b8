#include "process.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>

#include "plog.h"

namespace softnpu::abi {
namespace {

std::atomic<bool> in_use{false};
std::atomic<bool> lost{false};
std::atomic<int> default_index{-1};

// Runs before the static objects of libraries that were loaded before the first use of the device,
// libtorch's among them: a device thread must not run operators while those go.
void at_exit() {
  if (!lost.load()) {
    Device::shut_down_all();
  }
  Plog::instance().flush();
}

void in_child() {
  if (in_use.load()) {
    lost.store(true);
    Device::after_fork_in_child();
  }
}

}  // namespace

void use_device() {
  static std::once_flag once;
  std::call_once(once, [] {
    in_use.store(true);
    std::atexit(&at_exit);
    pthread_atfork(nullptr, nullptr, &in_child);
  });
}

bool lost_by_fork() { return lost.load(std::memory_order_relaxed); }
void set_default_device(int index) { default_index.store(index); }
int default_device() { return default_index.load(); }

aclError check_not_forked(const char* function) {
  if (lost_by_fork()) {
    return fail(kRtDeviceSetup, function, __FILE__, __LINE__,
                "this process was forked from one that uses the device, and a device does not "
                "survive fork; start the process with multiprocessing's \"spawn\" method");
  }
  return kSuccess;
}

aclError find_device(int32_t index, const char* function, Device** out) {
  SN_FIND(check_not_forked(function));
  *out = Device::get(index);
  if (*out == nullptr) {
    return fail(kRtInvalidDevice, function, __FILE__, __LINE__,
                "there is no device " + std::to_string(index) + ", only 0 to " +
                    std::to_string(static_cast<int>(Device::count()) - 1) +
                    "; `softnpu run --devices N` or SOFTNPU_DEVICES sets their number");
  }
  return kSuccess;
}

aclError find_context(const char* function, Context** out) {
  SN_FIND(check_not_forked(function));
  *out = Context::current();
  if (*out == nullptr && default_device() >= 0) {
    use_device();
    if (aclError number = report(Device::select(default_device()), function, __FILE__, __LINE__)) {
      return number;
    }
    *out = Context::current();
  }
  if (*out == nullptr) {
    return fail(kRtContextNull, function, __FILE__, __LINE__,
                "no device is selected in this thread; call aclrtSetDevice first");
  }
  return kSuccess;
}

aclError find_stream(aclrtStream handle, const char* function, Stream** out) {
  if (handle == nullptr) {
    Context* context = nullptr;
    SN_FIND(find_context(function, &context));
    *out = &context->default_stream();
    return kSuccess;
  }
  SN_FIND(check_not_forked(function));
  *out = Stream::from_handle(handle);
  if (*out == nullptr) {
    return fail(kRtInvalidHandle, function, __FILE__, __LINE__,
                "the handle is no live stream: it was destroyed, or its device was reset");
  }
  return kSuccess;
}

}  // namespace softnpu::abi
