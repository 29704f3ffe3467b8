// A context of a device: streams, events and graphs live in it, and a device error sticks to it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "error.h"

namespace softnpu {

class Device;
class Event;
class Graph;
class Stream;

class Context {
 public:
  Context(Device& device, bool is_primary);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Further contexts beside a device's primary one.
  static Error create(Device& device, Context** out);
  static Error destroy(Context& context);
  // The live context behind a handle, or nullptr.
  static Context* from_handle(void* handle);
  // The calling thread's current context, or nullptr.
  static Context* current();
  static Error set_current(Context* context);

  Error create_stream(uint32_t flags, Stream** out);
  // With `force`, work still queued is dropped; without, it runs first.
  Error destroy_stream(Stream& stream, bool force);
  Stream& default_stream() { return *default_stream_; }
  // How many more streams this context's device can have.
  static uint32_t streams_available(const Device& device);

  Error create_event(uint32_t flags, Event** out);
  void destroy_event(Event& event);

  // Waits for everything in all streams of the context.
  Error synchronize(int timeout_ms = -1);

  // The first device error of this context, sticky until reset; Ok when there is none.
  Error first_error() const;
  bool broken() const { return broken_.load(std::memory_order_acquire); }
  void fail(const Error& error);  // keeps the first one

  Device& device() const { return device_; }
  bool is_primary() const { return is_primary_; }
  bool any_capture() const { return captures_under_way_.load(std::memory_order_acquire) != 0; }

 private:
  friend class Graph;
  // One of the device's streams, by its id: for a stream, or for a captured stream of a graph.
  Error lease_stream(bool is_default, uint32_t* id);
  void end_lease(uint32_t id);
  Error new_stream(uint32_t flags, bool is_default, Stream** out);
  void release_stream(Stream& stream);

  Device& device_;
  const bool is_primary_;
  std::atomic<bool> broken_{false};
  std::atomic<int> captures_under_way_{0};
  mutable std::mutex mutex_;  // guards all below
  Error first_error_;
  Stream* default_stream_ = nullptr;  // set once
  std::set<Stream*> streams_;
  std::set<Event*> events_;
  std::vector<std::shared_ptr<Graph>> graphs_;  // all live ones, capturing or not
};

}  // namespace softnpu
