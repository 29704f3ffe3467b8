// How a device's work gets done: who executes, in which order, and what happens when nothing can.
#include <chrono>
#include <optional>
#include <set>

#include "context.h"
#include "device.h"
#include "draw.h"
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
// Blocked tasks are looked at again this often even if nothing notified us: what they wait for may
// lie outside the queues (a value that the host writes).
constexpr auto kRecheck = std::chrono::milliseconds(1);

std::atomic<uint64_t> g_activity{0};  // submissions and completions of all devices
std::atomic<int> g_busy{0};           // tasks and host functions at work, of all devices
std::atomic<int> g_active{0};         // streams with work, of all devices

// Set while this thread runs a host function, which the device waits for.
thread_local int t_busy = 0;

// A host function that waits for the device is not at work meanwhile: it may wait for itself.
class NotBusy {
 public:
  NotBusy() { Device::add_busy(-busy_); }
  ~NotBusy() { Device::add_busy(busy_); }

 private:
  const int busy_ = t_busy;
};

}  // namespace

void Device::note_activity() { g_activity.fetch_add(1, std::memory_order_relaxed); }
void Device::add_busy(int delta) {
  t_busy += delta;
  g_busy.fetch_add(delta, std::memory_order_relaxed);
}

void Device::activate(Stream& stream) {
  if (stream.active_) return;
  stream.active_ = true;
  stream.blocked_at_ = ~0ull;
  active_.push_back(&stream);
  g_active.fetch_add(1, std::memory_order_relaxed);
}

void Device::deactivate(Stream& stream) {
  if (!stream.active_) return;
  stream.active_ = false;
  std::erase(active_, &stream);
  burst_ = 0;
  g_active.fetch_sub(1, std::memory_order_relaxed);
}

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
  if (settings().seed) return pick_by_seed();
  const size_t count = active_.size();
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

Stream* Device::pick_by_seed() {
  Stream* best = nullptr;
  uint64_t lowest = ~0ull;
  for (Stream* stream : active_) {
    if (!runnable(*stream)) continue;
    const uint64_t drawn = draw(seed_, steps_, stream->id());
    if (best && drawn >= lowest) continue;
    best = stream;
    lowest = drawn;
  }
  return best;
}

// Runs the next task of some stream; false when none can run. The lock is released meanwhile.
bool Device::run_one(Lock& lock) {
  if (executing_) return false;
  Stream* stream = pick();
  if (!stream) return false;
  Task& task = *stream->queue_.front();
  stream->running_ = true;
  executing_ = true;
  g_busy.fetch_add(1, std::memory_order_relaxed);
  const uint64_t seen = progress_;
  lock.unlock();
  RunContext run{*this, *stream, {}, false, false, {}};
  if (settings().seed) run.seed = draw(seed_, steps_, ~0ull);
  const Step step = check_and_run(task, run);
  lock.lock();
  stream->running_ = false;
  if (step != Step::Blocked) {
    finish(*stream, step, run.error, lock);
  } else {
    if (run.progressed) note_progress();
    stream->blocked_at_ = run.yields ? ~0ull : run.progressed ? progress_ : seen;
  }
  // Only after what it did has been noted: see hung().
  g_busy.fetch_sub(1, std::memory_order_relaxed);
  executing_ = false;
  return true;
}

// Memory that was freed since the task was submitted may be its own: it would touch what is gone.
Step Device::check_and_run(Task& task, RunContext& run) {
  const uint64_t generation = memory_.generation();
  if (task.memory_generation != generation) {
    run.error = task.check_memory(memory_);
    if (run.error.failed()) return Step::Failed;
    task.memory_generation = generation;
  }
  return run_task(task, run);
}

void Device::note_progress() {
  ++progress_;
  ++steps_;
  note_activity();
}

void Device::finish(Stream& stream, Step step, const Error& error, Lock& lock) {
  std::vector<TaskPtr> ended;
  ended.push_back(std::move(stream.queue_.front()));
  const Task& task = *ended.front();
  stream.queue_.pop_front();
  ++stream.completed_;
  note_progress();
  const bool drained = stream.queue_.empty();
  if (drained) deactivate(stream);
  if (step == Step::Failed) {
    const Error located{
        error.code(), error.message() + " [task " + task.name() + " on " + stream.describe() + "]"};
    log_line(LogLevel::Error, "err", located.message());
    fail_context(stream.context(), located, &ended);
  }
  if (host_waiters_ && (drained || task.kind() == TaskKind::EventRecord)) host_cv_.notify_all();
  // A task may own much (tensors, closures): free it without the lock.
  stream.freeing_ = true;
  lock.unlock();
  ended.clear();
  lock.lock();
  stream.freeing_ = false;
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
  if (Error error = check_usable(what); error.failed()) return error;
  const NotBusy waiting;
  Lock lock(mutex_);
  // A thread that must not be late does not start a task that may take long.
  const bool timed = timeout_ms >= 0 && !settings().seed;
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  Watch watch;
  std::optional<ExecutorScope> scope;
  Error outcome;
  ++host_waiters_;
  while (!done() && !context.broken()) {
    if (stop_) {
      outcome = shut_down_error(what);
      break;
    }
    if (timeout_ms >= 0 && Clock::now() >= deadline) {
      outcome = {Code::SyncTimeout, "Waiting for " + what + " took longer than " +
                                        std::to_string(timeout_ms) + " ms."};
      break;
    }
    if (!timed && !executing_ && has_runnable()) {
      if (!scope) scope.emplace();
      run_one(lock);
      continue;
    }
    scope.reset();
    if (settings().seed && step_other_devices(lock)) continue;
    if (hung(watch)) {
      report_hang(lock);
      continue;
    }
    if (timed) notify_executor(lock);
    host_cv_.wait_for(lock, kRecheck);
    if (!executing_) ++progress_;
  }
  scope.reset();
  --host_waiters_;
  if (host_waiters_) host_cv_.notify_all();
  if (!active_.empty()) notify_executor(lock);
  return outcome.failed() ? outcome : context.first_error();
}

Error Device::poll(const Context& context, const std::function<bool()>& done, bool* result,
                   const std::string& what) {
  if (Error error = check_usable(what); error.failed()) return error;
  Lock lock(mutex_);
  if (stop_) return shut_down_error(what);
  bool moved = false;
  if (settings().seed) {
    ExecutorScope scope;
    moved = run_one(lock) || step_other_devices(lock);
    if (!moved) ++progress_;
  }
  if (!moved && hung(poll_watch_)) report_hang(lock);
  *result = done();
  return context.first_error();
}

// Under a seed there are no device threads: who waits for one device has to move the others too,
// for its work may wait for theirs. True when a task ran.
bool Device::step_other_devices(Lock& lock) {
  lock.unlock();
  bool ran = false;
  for (uint32_t index = 0; index < count() && !ran; ++index) {
    Device& other = *get(static_cast<int>(index));
    if (&other == this) continue;
    Lock other_lock(other.mutex_);
    ++other.progress_;
    const uint64_t steps = other.steps_;
    ExecutorScope scope;
    while (other.run_one(other_lock) && other.steps_ == steps) {
    }
    ran = other.steps_ != steps;
  }
  lock.lock();
  if (ran) ++progress_;
  return ran;
}

bool Device::hung(Watch& watch) const {
  const uint64_t activity = g_activity.load(std::memory_order_relaxed);
  const bool waits =
      g_active.load(std::memory_order_relaxed) > 0 && g_busy.load(std::memory_order_relaxed) == 0;
  const int64_t now = now_ns();
  const double limit = settings().hang_seconds * 1e9;
  // Between two looks that lie far apart the host did something else: it is no waiting host.
  const bool looked_away = static_cast<double>(now - watch.looked_ns) > limit / 4;
  watch.looked_ns = now;
  if (activity != watch.activity || looked_away) {
    watch.activity = activity;
    watch.since_ns = now;
    return false;
  }
  // What is at work may only be another look at a blocked task, so the clock goes on.
  if (!waits) return false;
  return static_cast<double>(now - watch.since_ns) > limit;
}

// Says who waits for whom, and fails every context that waits. The lock is released meanwhile,
// since every device has its part in it.
void Device::report_hang(Lock& lock) {
  const uint64_t activity = g_activity.load();
  lock.unlock();
  std::string who;
  for (uint32_t index = 0; index < count(); ++index) {
    Device& device = *get(static_cast<int>(index));
    Lock device_lock(device.mutex_);
    for (const Stream* stream : device.active_) {
      if (stream->running_) continue;
      const Task& head = *stream->queue_.front();
      who += (who.empty() ? "" : "; ") + stream->describe() + " stands at " + head.name() +
             ", which waits for " + head.waits_for();
    }
  }
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%g", settings().hang_seconds);
  const Error error{Code::Hang, "Nothing can run any more: " + who +
                                    ". What it waits for did not come within " + seconds +
                                    " s (SOFTNPU_HANG_SECONDS)."};
  for (uint32_t index = 0; index < count(); ++index) {
    if (g_activity.load() != activity) break;  // something moved after all
    get(static_cast<int>(index))->fail_waiting_contexts(error);
  }
  lock.lock();
}

void Device::fail_waiting_contexts(const Error& error) {
  Lock lock(mutex_);
  std::vector<TaskPtr> dropped;  // freed under the lock, so that no context can go meanwhile
  std::set<Context*> contexts;
  for (const Stream* stream : active_) contexts.insert(&stream->context());
  if (!contexts.empty()) log_line(LogLevel::Error, "err", error.message());
  for (Context* context : contexts) fail_context(*context, error, &dropped);
}

}  // namespace softnpu
