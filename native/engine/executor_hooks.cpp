#include "executor_hooks.h"

#include <atomic>

namespace softnpu {
namespace {
// A pointer, since an atomic pair would need libatomic. Hooks are set once per library, and a
// thread may still be using the former ones, so they are not freed.
std::atomic<const ExecutorHooks*> g_hooks{nullptr};
}  // namespace

void set_executor_hooks(ExecutorHooks hooks) {
  g_hooks.store(new ExecutorHooks(hooks), std::memory_order_release);
}

ExecutorScope::ExecutorScope() {
  const ExecutorHooks* hooks = g_hooks.load(std::memory_order_acquire);
  if (!hooks || !hooks->enter) return;
  leave_ = hooks->leave;
  cookie_ = hooks->enter();
}

ExecutorScope::~ExecutorScope() {
  if (leave_) leave_(cookie_);
}

}  // namespace softnpu
