#include "executor_hooks.h"

#include <atomic>

namespace softnpu {
namespace {
std::atomic<ExecutorHooks> g_hooks{};
}  // namespace

void set_executor_hooks(ExecutorHooks hooks) { g_hooks.store(hooks, std::memory_order_release); }

ExecutorScope::ExecutorScope() {
  const ExecutorHooks hooks = g_hooks.load(std::memory_order_acquire);
  if (!hooks.enter) return;
  leave_ = hooks.leave;
  cookie_ = hooks.enter();
}

ExecutorScope::~ExecutorScope() {
  if (leave_) leave_(cookie_);
}

}  // namespace softnpu
