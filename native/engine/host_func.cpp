// Host functions in a stream: run by a thread of ours, or (the older form) by a thread of the
// user's that subscribed to the stream.
#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <map>

#include "context.h"
#include "device.h"
#include "operations.h"

namespace softnpu {
namespace {

// A call under way; shared, since the task may be dropped before the function returns.
struct Call {
  void (*fn)(void*);
  void* data;
  Device* device;
  std::atomic<bool> cancelled{false};
  std::atomic<bool> done{false};
};

struct CallQueue {
  std::mutex mutex;
  std::condition_variable cv;
  std::deque<std::shared_ptr<Call>> calls;  // guarded by mutex

  void post(std::shared_ptr<Call> call) {
    std::lock_guard lock(mutex);
    calls.push_back(std::move(call));
    cv.notify_one();
  }
  // False when nothing came within the time-out; a negative one waits for ever.
  bool run_next(int timeout_ms) {
    std::unique_lock lock(mutex);
    const auto ready = [this] { return !calls.empty(); };
    if (timeout_ms < 0) {
      cv.wait(lock, ready);
    } else if (!cv.wait_for(lock, std::chrono::milliseconds(timeout_ms), ready)) {
      return false;
    }
    std::shared_ptr<Call> call = calls.front();
    calls.pop_front();
    lock.unlock();
    Device::add_busy(1);
    if (!call->cancelled.load()) call->fn(call->data);
    call->done.store(true);
    call->device->poke();
    Device::add_busy(-1);
    return true;
  }
};

CallQueue& own_queue() {
  static CallQueue* queue = [] {
    auto* created = new CallQueue;
    std::thread([created] {
      for (;;) created->run_next(-1);
    }).detach();
    return created;
  }();
  return *queue;
}

std::mutex g_mutex;  // guards the two maps
std::map<uint64_t, std::shared_ptr<CallQueue>>& thread_queues() {
  static auto* queues = new std::map<uint64_t, std::shared_ptr<CallQueue>>;
  return *queues;
}
std::map<const Stream*, uint64_t>& subscriptions() {
  static auto* streams = new std::map<const Stream*, uint64_t>;
  return *streams;
}

class HostFuncTask : public Task {
 public:
  HostFuncTask(void (*fn)(void*), void* data, Stream& stream, std::shared_ptr<CallQueue> queue,
               bool blocking)
      : fn_(fn),
        data_(data),
        device_(stream.device()),
        queue_(std::move(queue)),
        blocking_(blocking) {}
  Step run(RunContext&) override {
    if (!call_) {
      call_ = std::make_shared<Call>();
      call_->fn = fn_;
      call_->data = data_;
      call_->device = &device_;
      queue_ ? queue_->post(call_) : own_queue().post(call_);
    }
    if (blocking_ && !call_->done.load()) return Step::Blocked;
    call_.reset();
    return Step::Done;
  }
  TaskKind kind() const override { return TaskKind::HostFunc; }
  std::string name() const override {
    return queue_ ? "aclrtLaunchCallback" : "aclrtLaunchHostFunc";
  }
  std::string waits_for() const override {
    return queue_ ? "the subscribed thread to call aclrtProcessReport"
                  : "its host function to return";
  }
  void drop() override {
    if (call_) call_->cancelled.store(true);
  }

 private:
  void (*const fn_)(void*);
  void* const data_;
  Device& device_;
  const std::shared_ptr<CallQueue> queue_;  // null: our own thread's
  const bool blocking_;
  std::shared_ptr<Call> call_;
};

}  // namespace

Error host_func(Stream& stream, void (*fn)(void*), void* data) {
  if (!fn) return {Code::InvalidParam, "aclrtLaunchHostFunc needs a function."};
  return stream.submit(std::make_unique<HostFuncTask>(fn, data, stream, nullptr, true));
}

Error subscribe_report(uint64_t thread_id, Stream& stream) {
  std::lock_guard lock(g_mutex);
  if (!subscriptions().emplace(&stream, thread_id).second) {
    return {Code::InvalidParam, "A thread subscribed to " + stream.describe() + " already."};
  }
  auto& queue = thread_queues()[thread_id];
  if (!queue) queue = std::make_shared<CallQueue>();
  return Error::ok();
}

Error unsubscribe_report(uint64_t thread_id, Stream& stream) {
  std::lock_guard lock(g_mutex);
  const auto it = subscriptions().find(&stream);
  if (it == subscriptions().end() || it->second != thread_id) {
    return {Code::NoCallbackThread, "That thread is not subscribed to " + stream.describe() + "."};
  }
  subscriptions().erase(it);
  return Error::ok();
}

void forget_subscription(const Stream& stream) {
  std::lock_guard lock(g_mutex);
  subscriptions().erase(&stream);
}

Error launch_callback(Stream& stream, void (*fn)(void*), void* data, bool blocking) {
  if (!fn) return {Code::InvalidParam, "aclrtLaunchCallback needs a function."};
  std::shared_ptr<CallQueue> queue;
  {
    std::lock_guard lock(g_mutex);
    const auto it = subscriptions().find(&stream);
    if (it != subscriptions().end()) queue = thread_queues()[it->second];
  }
  if (!queue) {
    return {Code::NoCallbackThread, "No thread subscribed to the callbacks of " +
                                        stream.describe() + ". Call aclrtSubscribeReport first."};
  }
  return stream.submit(std::make_unique<HostFuncTask>(fn, data, stream, queue, blocking));
}

Error process_report(int timeout_ms) {
  std::shared_ptr<CallQueue> queue;
  {
    std::lock_guard lock(g_mutex);
    const auto it = thread_queues().find(static_cast<uint64_t>(pthread_self()));
    if (it != thread_queues().end()) queue = it->second;
  }
  if (!queue) {
    return {Code::NoCallbackThread,
            "This thread subscribed to no stream. Call aclrtSubscribeReport first."};
  }
  if (queue->run_next(timeout_ms)) return Error::ok();
  return {Code::ReportTimeout, "No callback came within " + std::to_string(timeout_ms) + " ms."};
}

}  // namespace softnpu
