// What a thread must do before and after it runs device work, set by a library that knows more than
// the engine (the operators' library guards ATen's thread state). A host thread that blocks in a
// synchronise also runs device work, so its own state must be shielded and restored.
#pragma once

namespace softnpu {

struct ExecutorHooks {
  void* (*enter)() = nullptr;      // returns a cookie
  void (*leave)(void*) = nullptr;  // takes it back
};
void set_executor_hooks(ExecutorHooks hooks);

// One span of device work on this thread.
class ExecutorScope {
 public:
  ExecutorScope();
  ~ExecutorScope();
  ExecutorScope(const ExecutorScope&) = delete;
  ExecutorScope& operator=(const ExecutorScope&) = delete;

 private:
  void (*leave_)(void*) = nullptr;
  void* cookie_ = nullptr;
};

}  // namespace softnpu
