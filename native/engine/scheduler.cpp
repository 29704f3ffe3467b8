// How a device's work gets done: who executes, in which order, and what happens when nothing can.
#include <chrono>
#include <optional>
#include <set>

#include "context.h"
#include "device.h"
#include "executor_hooks.h"
#include "log.h"

namespace softnpu {
namespace {

using Clock = std::chrono::steady_clock;

// Tasks run from one stream before the next gets a turn.
constexpr int kBurst = 64;
// An idle device thread looks again after this pause, so that a host that issues many small tasks
// need not wake it for each; after kLinger without work it parks and has to be notified.
constexpr auto kPause = std::chrono::microseconds(50);
constexpr auto kLinger = std::chrono::milliseconds(2);
// Blocked tasks are looked at again this often even if nothing notified us: another device may have
// released them.
constexpr auto kRecheck = std::chrono::milliseconds(1);

std::atomic<uint64_t> g_activity{0};  // submissions and completions of all devices
std::atomic<int> g_busy{0};           // tasks and host functions at work, of all devices

}  // namespace

void Device::note_activity() { g_activity.fetch_add(1, std::memory_order_relaxed); }
void Device::add_busy(int delta) { g_busy.fetch_add(delta, std::memory_order_relaxed); }

void Device::notify_executor(Lock& lock) {
  if (settings().seed || stop_) return;
  if (!thread_.joinable()) {
    thread_ = std::thread(&Device::thread_main, this);
    return;
  }
  if (!parked_) return;
  parked_ = false;
  lock.unlock();
  executor_cv_.notify_one();
  lock.lock();
}

bool Device::runnable(const Stream& stream) const {
  return !stream.running_ && stream.blocked_at_ != progress_;
}

bool Device::has_runnable() const {
  for (const Stream* stream : active_) {
    if (runnable(*stream)) return true;
  }
  return false;
}

Stream* Device::pick() {
  const size_t count = active_.size();
  if (settings().seed) {
    std::vector<Stream*> ready;
    for (Stream* stream : active_) {
      if (runnable(*stream)) ready.push_back(stream);
    }
    return ready.empty() ? nullptr : ready[ready.size() == 1 ? 0 : rng_() % ready.size()];
  }
  if (!count) return nullptr;
  if (cursor_ >= count) cursor_ = 0;
  if (burst_ >= kBurst) {
    burst_ = 0;
    cursor_ = (cursor_ + 1) % count;
  }
  for (size_t step = 0; step < count; ++step) {
    const size_t at = (cursor_ + step) % count;
    if (!runnable(*active_[at])) continue;
    if (step) burst_ = 0;
    cursor_ = at;
    ++burst_;
    return active_[at];
  }
  return nullptr;
}

// Runs the next task of some stream; false when none can run. The lock is released meanwhile.
bool Device::run_one(Lock& lock) {
  Stream* stream = pick();
  if (!stream) return false;
  Task* task = stream->queue_.front().get();
  stream->running_ = true;
  executing_ = true;
  const uint64_t seen = progress_;
  lock.unlock();
  add_busy(1);
  RunContext run{*this, *stream, settings().seed ? &rng_ : nullptr, false, {}};
  const Step step = task->run(run);
  add_busy(-1);
  lock.lock();
  stream->running_ = false;
  if (step == Step::Blocked) {
    if (run.progressed) {
      ++progress_;
      note_activity();
    }
    stream->blocked_at_ = run.progressed ? progress_ : seen;
  } else {
    finish(*stream, step, run.error, lock);
  }
  executing_ = false;
  return true;
}

void Device::finish(Stream& stream, Step step, const Error& error, Lock& lock) {
  TaskPtr task = std::move(stream.queue_.front());
  stream.queue_.pop_front();
  ++stream.completed_;
  ++progress_;
  note_activity();
  const bool drained = stream.queue_.empty();
  if (drained) deactivate(stream);
  if (step == Step::Failed) {
    const Error located{error.code(), error.message() + " [task " + task->name() + " on " +
                                          stream.describe() + "]"};
    log_line(LogLevel::Error, "err", located.message());
    fail_context(stream.context(), located);
  }
  if (host_waiters_ && (drained || task->kind() == TaskKind::EventRecord)) host_cv_.notify_all();
  // A task may own much (tensors, closures): free it without the lock.
  lock.unlock();
  task.reset();
  lock.lock();
}

void Device::thread_main() {
  Lock lock(mutex_);
  std::optional<ExecutorScope> scope;
  auto idle_since = Clock::now();
  while (!stop_) {
    if (!executing_ && has_runnable()) {
      if (!scope) scope.emplace();
      run_one(lock);
      idle_since = Clock::now();
      continue;
    }
    scope.reset();
    if (!active_.empty()) {
      executor_cv_.wait_for(lock, kRecheck);
      if (!executing_) ++progress_;
    } else if (Clock::now() - idle_since < kLinger) {
      executor_cv_.wait_for(lock, kPause);
    } else {
      parked_ = true;
      executor_cv_.wait(lock, [this] { return !parked_ || stop_; });
      idle_since = Clock::now();
    }
  }
}

Error Device::run_until(const Context& context, const std::function<bool()>& done, int timeout_ms,
                        const std::string& what) {
  if (forked()) {
    return {Code::Unsupported, what + ": this process was forked after the device was initialised; "
                               "the device can't be used here."};
  }
  Lock lock(mutex_);
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  Watch watch;
  std::optional<ExecutorScope> scope;
  Error outcome;
  ++host_waiters_;
  while (!done() && !context.broken()) {
    if (stop_) {
      outcome = {Code::Aborted, "Waiting for " + what + ": the device was shut down."};
      break;
    }
    if (timeout_ms >= 0 && Clock::now() >= deadline) {
      outcome = {Code::SyncTimeout, "Waiting for " + what + " took longer than " +
                                        std::to_string(timeout_ms) + " ms."};
      break;
    }
    if (!executing_ && has_runnable()) {
      if (!scope) scope.emplace();
      run_one(lock);
      continue;
    }
    scope.reset();
    if (hung(watch)) {
      report_hang();
      continue;
    }
    host_cv_.wait_for(lock, kRecheck);
    if (!executing_) ++progress_;
  }
  scope.reset();
  --host_waiters_;
  if (host_waiters_) host_cv_.notify_all();
  if (!active_.empty()) notify_executor(lock);
  return outcome.failed() ? outcome : context.first_error();
}

Error Device::poll(Context& context, const std::function<bool()>& done, bool* result) {
  Lock lock(mutex_);
  if (settings().seed && !executing_ && has_runnable()) {
    ExecutorScope scope;
    run_one(lock);
  } else if (hung(poll_watch_)) {
    report_hang();
  } else if (settings().seed) {
    ++progress_;
  }
  *result = done();
  return context.first_error();
}

bool Device::hung(Watch& watch) const {
  const uint64_t activity = g_activity.load(std::memory_order_relaxed);
  bool waits = !active_.empty() && !g_busy.load(std::memory_order_relaxed);
  for (const Stream* stream : active_) waits = waits && stream->queue_.front()->may_hang();
  const int64_t now = now_ns();
  if (!waits || activity != watch.activity) {
    watch = {activity, now};
    return false;
  }
  return static_cast<double>(now - watch.since_ns) > settings().hang_seconds * 1e9;
}

// Fails every context that waits here, saying who waits for whom. Lock held.
void Device::report_hang() {
  std::string who;
  std::set<Context*> contexts;
  for (Stream* stream : active_) {
    const Task& head = *stream->queue_.front();
    who += (who.empty() ? "" : "; ") + stream->describe() + " stands at " + head.name() +
           ", which waits for " + head.waits_for();
    contexts.insert(&stream->context());
  }
  const Error error{Code::Hang, "Nothing can run any more: " + who +
                                    ". What it waits for was not submitted within " +
                                    std::to_string(settings().hang_seconds).substr(0, 4) +
                                    " s (SOFTNPU_HANG_SECONDS)."};
  log_line(LogLevel::Error, "err", error.message());
  for (Context* context : contexts) fail_context(*context, error);
}

}  // namespace softnpu
