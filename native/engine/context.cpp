#include "context.h"

#include <algorithm>

#include "device.h"
#include "event.h"
#include "event_pool.h"
#include "graph.h"
#include "stream_pool.h"

namespace softnpu {
namespace {

std::mutex g_mutex;                 // guards g_contexts
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

std::atomic<uint32_t>& streams_in_use(const Device& device) {
  static auto* counts = new std::atomic<uint32_t>[64]();
  return counts[device.index()];
}

// Ids are per device and never used twice at the same time; the smallest free one is taken.
uint32_t take_stream_id(const std::set<Stream*>& streams) {
  std::set<uint32_t> used;
  for (const Stream* stream : streams) used.insert(stream->id());
  uint32_t id = 0;
  while (used.count(id)) ++id;
  return id;
}

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
  graphs_.clear();
  for (Event* event : events_) event_pool().destroy(event);
  for (Stream* stream : streams_) {
    stream_pool().destroy(stream);
    --streams_in_use(device_);
  }
}

Error Context::create(Device& device, Context** out) {
  *out = new Context(device, false);
  return set_current(*out);
}

Error Context::destroy(Context& context) {
  if (context.is_primary_) {
    return {Code::InvalidParam, "The primary context of a device can't be destroyed; reset the "
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
  const uint32_t used = streams_in_use(device).load();
  const uint32_t limit = settings().stream_limit;
  return used < limit ? limit - used : 0;
}

Error Context::new_stream(uint32_t flags, bool is_default, Stream** out) {
  std::lock_guard lock(mutex_);
  const uint32_t used = streams_in_use(device_).fetch_add(1);
  Stream* stream = used < settings().stream_limit
                       ? stream_pool().create(*this, take_stream_id(streams_), flags, is_default)
                       : nullptr;
  if (!stream) {
    --streams_in_use(device_);
    return {Code::NoStreamResource,
            "Device " + std::to_string(device_.index()) + " has no stream left: " +
                std::to_string(used) + " of " + std::to_string(settings().stream_limit) +
                " are in use (SOFTNPU_STREAM_LIMIT). Destroy streams, or capture fewer graphs."};
  }
  streams_.insert(stream);
  *out = stream;
  return Error::ok();
}

Error Context::create_stream(uint32_t flags, Stream** out) { return new_stream(flags, false, out); }

Error Context::destroy_stream(Stream& stream, bool force) {
  if (stream.is_default()) {
    return {Code::InvalidParam, "The default stream can't be destroyed."};
  }
  if (Graph* graph = stream.capturing()) graph->abandon(stream);
  Error error;
  if (!force) error = stream.synchronize();
  device_.retire(stream);
  std::lock_guard lock(mutex_);
  streams_.erase(&stream);
  stream_pool().destroy(&stream);
  --streams_in_use(device_);
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
  if (any_capture()) {
    if (Error error = Graph::refuse_context_wait(*this); error.failed()) return error;
  }
  std::vector<Stream*> streams;
  {
    std::lock_guard lock(mutex_);
    streams.assign(streams_.begin(), streams_.end());
  }
  return device_.drain(*this, streams, timeout_ms);
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
