// An event marks a place in a stream. A wait waits for the record that was the latest when the wait
// was submitted; an event never recorded is complete.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "error.h"

namespace softnpu {

class Context;
class Graph;
class Stream;

enum EventFlag : uint32_t {  // bits, as the runtime's users pass them
  kEventSync = 0x1,
  kEventCaptureProgress = 0x2,
  kEventTimeline = 0x8,
  kEventDeviceUseOnly = 0x10,
  kEventExternal = 0x20,
  kEventIpc = 0x40,
};

// Shared with the tasks that record and wait, so that an event may be destroyed before they run.
struct EventState {
  std::atomic<uint64_t> recorded{0};   // records submitted
  std::atomic<uint64_t> completed{0};  // the latest record that has run
  std::atomic<int64_t> time_ns{0};     // device clock at that record
};

class Event {
 public:
  Event(Context& context, uint32_t flags);
  ~Event();
  static Event* from_handle(void* handle);  // live events only, else nullptr

  Error record(Stream& stream);
  Error wait(Stream& stream);
  Error reset(Stream& stream);
  Error query(bool* complete) const;
  Error synchronize(int timeout_ms = -1) const;
  // Milliseconds from `start` to this event; both must be complete.
  Error elapsed_since(const Event& start, float* ms) const;
  Error timestamp_us(uint64_t* out) const;

  uint32_t id() const { return id_; }
  uint32_t flags() const { return flags_; }
  std::string describe() const;

 private:
  friend class Graph;
  Context& context_;
  const uint32_t id_;
  const uint32_t flags_;
  std::shared_ptr<EventState> state_;
  // The capture in which this event was last recorded, and its node there; {0, -1} outside one.
  std::atomic<uint64_t> capture_id_{0};
  int capture_node_ = -1;
};

}  // namespace softnpu
