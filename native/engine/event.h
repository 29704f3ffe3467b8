// An event marks a place in a stream. A wait waits for the record that was the latest when the wait
// was submitted; an event never recorded is complete. An external event is a flag instead: a wait
// waits until a record has run, inside a graph or outside, and a reset lowers the flag.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "error.h"

namespace softnpu {

class Context;
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
  std::string name;                    // "event 7"
  std::atomic<uint64_t> recorded{0};   // records submitted
  std::atomic<uint64_t> completed{0};  // the latest record that has run
  std::atomic<int64_t> time_ns{0};     // device clock at that record
  std::atomic<bool> raised{false};     // for external events
  std::atomic<uint64_t> lost{0};       // the latest record dropped because its context had failed
  std::atomic<uint64_t> waiting_devices{0};  // bit per device whose streams ever waited
};

class Event {
 public:
  Event(Context& context, uint32_t flags);
  static Event* from_handle(void* handle);  // live events only, else nullptr

  Error record(Stream& stream);
  Error wait(Stream& stream);
  Error reset(Stream& stream);
  Error query(bool* complete) const;
  Error synchronize(int timeout_ms = -1) const;
  // Milliseconds from `start` to this event; both must be complete.
  Error elapsed_since(const Event& start, float* ms) const;
  Error timestamp_us(uint64_t* out) const;

  Context& context() const { return context_; }
  uint32_t id() const { return id_; }
  uint32_t flags() const { return flags_; }
  bool external() const { return flags_ & kEventExternal; }
  bool never_recorded() const { return state_->recorded.load() == 0; }
  const std::string& describe() const { return state_->name; }

  // The capture in which this event was last recorded (a graph's id, 0 for none) and its node
  // there.
  uint32_t capture_id() const { return capture_id_.load(std::memory_order_acquire); }
  int capture_node() const { return capture_node_; }
  void set_captured(uint32_t graph_id, int node);
  static uint32_t next_id();

 private:
  Error check_not_captured(const char* call) const;
  Error check_not_lost(uint64_t record) const;
  bool complete() const { return state_->completed.load() >= state_->recorded.load(); }

  Context& context_;
  const uint32_t id_;
  const uint32_t flags_;
  std::shared_ptr<EventState> state_;
  std::atomic<uint32_t> capture_id_{0};
  int capture_node_ = -1;
};

}  // namespace softnpu
