// Shields device work from the thread that runs it. The executor may be the user's own thread (it
// helps while it waits), whose dispatch modes, autocast, functorch levels, profiler and thread
// count must neither see our ATen calls nor be changed by them.
#include "../engine/executor_hooks.h"

#include <ATen/record_function.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include "../engine/log.h"
#include "../engine/settings.h"

namespace softnpu::ops {

namespace {

// OpenMP's and MKL's thread counts are per thread. Both are looked up: only libtorch links them.
struct ThreadCount {
  int (*get)() = nullptr;
  void (*set)(int) = nullptr;
  int (*set_mkl)(int) = nullptr;  // returns the former one; 0 means "as the process"

  ThreadCount() {
    get = reinterpret_cast<int (*)()>(find("omp_get_max_threads"));
    set = reinterpret_cast<void (*)(int)>(find("omp_set_num_threads"));
    set_mkl = reinterpret_cast<int (*)(int)>(find("MKL_Set_Num_Threads_Local"));
  }

 private:
  static void* find(const char* name) {
    static void* torch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
    return torch == nullptr ? nullptr : dlsym(torch, name);
  }
};

const ThreadCount& thread_count() {
  static const ThreadCount functions;
  return functions;
}

// An operator must not give an output another shape: the memory is the caller's. ATen warns before
// it resizes, and that is the moment to stop it, before anything is written. Other warnings are
// logged.
class DeviceWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    const std::string& text = warning.msg();
    const size_t shapes = text.find("had shape");
    if (text.find("was resized") != std::string::npos && shapes != std::string::npos) {
      TORCH_CHECK(false, "an output ", text.substr(shapes, text.find(". ", shapes) - shapes));
    }
    log_line(LogLevel::Warning, "op", text);
  }
};
DeviceWarnings device_warnings;

// The thread's own state while device work runs on it.
struct Saved {
  explicit Saved(c10::impl::LocalDispatchKeySet set) : keys(set) {}
  c10::impl::LocalDispatchKeySet keys;
  bool grad_mode = false;
  bool inference_mode = false;
  bool fw_grad_mode = false;
  bool record_function = false;
  c10::WarningHandler* warnings = nullptr;
  int threads = 0;
  int mkl_threads = 0;
};

c10::impl::LocalDispatchKeySet device_keys() {
  auto keys = c10::impl::tls_local_dispatch_key_set();
  keys.included_ = c10::DispatchKeySet(c10::DispatchKey::BackendSelect);
  keys.excluded_ =
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;
  return keys;
}

thread_local int depth = 0;
thread_local Saved saved(c10::impl::tls_local_dispatch_key_set());

void* enter() {
  if (depth++ > 0) {
    return &saved;
  }
  saved.keys = c10::impl::tls_local_dispatch_key_set();
  c10::impl::_force_tls_local_dispatch_key_set(device_keys());
  auto& autograd = c10::AutogradState::get_tls_state();
  saved.grad_mode = autograd.get_grad_mode();
  saved.inference_mode = autograd.get_inference_mode();
  saved.fw_grad_mode = autograd.get_fw_grad_mode();
  autograd.set_grad_mode(false);
  autograd.set_inference_mode(true);
  autograd.set_fw_grad_mode(false);
  saved.record_function = at::isRecordFunctionEnabled();
  at::enableRecordFunction(false);
  saved.warnings = c10::WarningUtils::get_warning_handler();
  c10::WarningUtils::set_warning_handler(&device_warnings);
  const int wanted = static_cast<int>(settings().threads);
  if (thread_count().set != nullptr) {
    saved.threads = thread_count().get();
    if (saved.threads != wanted) {
      thread_count().set(wanted);
    }
  }
  if (thread_count().set_mkl != nullptr) {
    saved.mkl_threads = thread_count().set_mkl(wanted);
  }
  return &saved;
}

void leave(void* /*cookie*/) {
  if (--depth > 0) {
    return;
  }
  if (thread_count().set_mkl != nullptr) {
    thread_count().set_mkl(saved.mkl_threads);
  }
  if (thread_count().set != nullptr && saved.threads != static_cast<int>(settings().threads)) {
    thread_count().set(saved.threads);
  }
  c10::WarningUtils::set_warning_handler(saved.warnings);
  at::enableRecordFunction(saved.record_function);
  auto& autograd = c10::AutogradState::get_tls_state();
  autograd.set_grad_mode(saved.grad_mode);
  autograd.set_inference_mode(saved.inference_mode);
  autograd.set_fw_grad_mode(saved.fw_grad_mode);
  c10::impl::_force_tls_local_dispatch_key_set(saved.keys);
}

const bool registered = [] {
  set_executor_hooks({&enter, &leave});
  return true;
}();

}  // namespace

}  // namespace softnpu::ops
