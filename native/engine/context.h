// A context of a device: streams, events and graphs live in it, and a device error sticks to it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "error.h"

namespace softnpu {

class Device;
class Stream;

class Context {
 public:
  Context(Device& device, bool is_primary);
  ~Context();

  static Context* from_handle(void* handle);
  // The calling thread's current context: the one it set, or NoContext.
  static Context* current();
  static Error set_current(Context* context);

  Error create_stream(uint32_t flags, Stream** out);
  // With `force`, work still queued is dropped; without, it runs first.
  Error destroy_stream(Stream& stream, bool force);
  Stream& default_stream() { return *default_stream_; }
  uint32_t streams_available() const;

  // Waits for everything in all streams of the context.
  Error synchronize(int timeout_ms = -1);

  // The first device error of this context, sticky until reset; Ok when there is none.
  Error first_error() const;
  bool broken() const { return broken_.load(std::memory_order_acquire); }
  void fail(const Error& error);  // keeps the first one

  Device& device() const { return device_; }
  bool is_primary() const { return is_primary_; }

 private:
  friend class Device;
  friend class Graph;
  Device& device_;
  const bool is_primary_;
  std::atomic<bool> broken_{false};
  std::atomic<int> global_captures_{0};     // captures under way in GLOBAL mode
  mutable std::mutex mutex_;                // guards the below
  Error first_error_;
  std::unique_ptr<Stream> default_stream_;
  std::set<Stream*> streams_;
};

}  // namespace softnpu
