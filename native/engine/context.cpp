#include "context.h"

#include <algorithm>

#include "device.h"
#include "event.h"
#include "event_pool.h"
#include "graph.h"
#include "stream_pool.h"

namespace softnpu {
namespace {

constexpr uint32_t kMaxDevices = 64;  // the most that SOFTNPU_DEVICES takes

std::mutex g_mutex;  // guards the set
std::set<Context*>& live_contexts() {
  static auto* contexts = new std::set<Context*>;
  return *contexts;
}
// Grows whenever a context dies, so that a thread notices that its current one may be gone.
std::atomic<uint64_t> g_deaths{0};

struct Current {
  Context* context = nullptr;
  uint64_t deaths = 0;
};
thread_local Current t_current;

// The ids of a device's streams: the smallest free one is taken, so that the limit is one on how
// many there are at the same time.
class StreamIds {
 public:
  static StreamIds& of(const Device& device) {
    static auto* all = new StreamIds[kMaxDevices];
    return all[device.index()];
  }
  // A default stream is given even beyond the limit: a context can't be without it.
  bool take(bool is_default, uint32_t* id) {
    std::lock_guard lock(mutex_);
    if (!is_default && count_ >= settings().stream_limit) return false;
    while (next_ < used_.size() && used_[next_]) ++next_;
    if (next_ == used_.size()) used_.push_back(false);
    used_[next_] = true;
    *id = next_;
    ++count_;
    return true;
  }
  void give_back(uint32_t id) {
    std::lock_guard lock(mutex_);
    used_[id] = false;
    next_ = std::min(next_, id);
    --count_;
  }
  uint32_t count() {
    std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;  // guards the below
  std::vector<bool> used_;
  uint32_t next_ = 0;  // no smaller id is free
  uint32_t count_ = 0;
};

}  // namespace

Context::Context(Device& device, bool is_primary) : device_(device), is_primary_(is_primary) {
  (void)new_stream(0, true, &default_stream_);
  std::lock_guard lock(g_mutex);
  live_contexts().insert(this);
}

Context::~Context() {
  {
    std::lock_guard lock(g_mutex);
    live_contexts().erase(this);
    ++g_deaths;
  }
  for (Stream* stream : streams_) device_.retire(*stream);
  graphs_.clear();
  for (Event* event : events_) event_pool().destroy(event);
  for (Stream* stream : streams_) release_stream(*stream);
}

Error Context::create(Device& device, Context** out) {
  *out = new Context(device, false);
  return set_current(*out);
}

Error Context::destroy(Context& context) {
  if (context.is_primary_) {
    return {Code::InvalidParam,
            "The primary context of a device can't be destroyed; reset the "
            "device instead."};
  }
  const Error error = context.synchronize();
  delete &context;
  return error;
}

Context* Context::from_handle(void* handle) {
  std::lock_guard lock(g_mutex);
  auto* context = static_cast<Context*>(handle);
  return live_contexts().count(context) ? context : nullptr;
}

Context* Context::current() {
  const uint64_t deaths = g_deaths.load(std::memory_order_acquire);
  if (t_current.deaths != deaths) {
    t_current = {from_handle(t_current.context), deaths};
  }
  return t_current.context;
}

Error Context::set_current(Context* context) {
  t_current = {context, g_deaths.load(std::memory_order_acquire)};
  return Error::ok();
}

uint32_t Context::streams_available(const Device& device) {
  const uint32_t used = StreamIds::of(device).count();
  const uint32_t limit = settings().stream_limit;
  return used < limit ? limit - used : 0;
}

Error Context::lease_stream(bool is_default, uint32_t* id) {
  if (StreamIds::of(device_).take(is_default, id)) return Error::ok();
  return {Code::NoStreamResource,
          "Device " + std::to_string(device_.index()) + " has no stream left: all " +
              std::to_string(settings().stream_limit) +
              " are in use (SOFTNPU_STREAM_LIMIT). A graph keeps one for each stream that it "
              "captured. Destroy streams or graphs, or capture fewer graphs."};
}

void Context::end_lease(uint32_t id) { StreamIds::of(device_).give_back(id); }

Error Context::new_stream(uint32_t flags, bool is_default, Stream** out) {
  uint32_t id = 0;
  if (Error error = lease_stream(is_default, &id); error.failed()) return error;
  Stream* stream = stream_pool().create(*this, id, flags, is_default);
  if (!stream) {
    end_lease(id);
    return {Code::NoStreamResource, "This process has no stream left. Destroy some."};
  }
  std::lock_guard lock(mutex_);
  streams_.insert(stream);
  *out = stream;
  return Error::ok();
}

void Context::release_stream(Stream& stream) {
  end_lease(stream.id());
  stream_pool().destroy(&stream);
}

Error Context::create_stream(uint32_t flags, Stream** out) { return new_stream(flags, false, out); }

Error Context::destroy_stream(Stream& stream, bool force) {
  if (stream.is_default()) {
    return {Code::InvalidParam, "The default stream can't be destroyed."};
  }
  if (const auto graph = Graph::of(stream)) graph->abandon(stream);
  Error error;
  if (!force) error = stream.synchronize();
  device_.retire(stream);
  std::lock_guard lock(mutex_);
  streams_.erase(&stream);
  release_stream(stream);
  return error;
}

Error Context::create_event(uint32_t flags, Event** out) {
  Event* event = event_pool().create(*this, flags);
  if (!event) return {Code::NoEventResource, "No event is left; destroy some that are not used."};
  std::lock_guard lock(mutex_);
  events_.insert(event);
  *out = event;
  return Error::ok();
}

void Context::destroy_event(Event& event) {
  std::lock_guard lock(mutex_);
  events_.erase(&event);
  event_pool().destroy(&event);
}

Error Context::synchronize(int timeout_ms) {
  // A capture that a device error left open is not what went wrong.
  if (any_capture() && !broken()) {
    if (Error error = Graph::refuse_context_wait(*this); error.failed()) return error;
  }
  return device_.drain(*this, nullptr, timeout_ms, "device " + std::to_string(device_.index()));
}

Error Context::first_error() const {
  if (!broken()) return Error::ok();
  std::lock_guard lock(mutex_);
  return first_error_;
}

void Context::fail(const Error& error) {
  std::lock_guard lock(mutex_);
  if (broken_.load()) return;
  first_error_ = error;
  broken_.store(true, std::memory_order_release);
}

}  // namespace softnpu
