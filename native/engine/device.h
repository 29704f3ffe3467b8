// A device: one executor at a time takes tasks from its streams. The executor is the device's own
// thread, or a host thread that would otherwise only wait.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "error.h"
#include "memory.h"
#include "settings.h"
#include "stream.h"
#include "task.h"

namespace softnpu {

class Context;

class Device {
 public:
  static uint32_t count();
  // nullptr when out of range.
  static Device* get(int index);
  // Selects the device for the calling thread and makes its primary context current.
  static Error select(int index);
  // Stops the work of every device; nothing runs afterwards. For process exit.
  static void shut_down_all();

  int index() const { return index_; }
  DeviceMemory& memory() { return memory_; }
  Context& primary_context();
  bool primary_active() const { return primary_ != nullptr; }
  // Drops queued work, frees streams, events, graphs and memory of the device, clears its error.
  Error reset();
  uint32_t streams_in_use() const { return streams_in_use_.load(); }

  // Runs or waits for device work until `done()`; `what` names the wait in messages.
  Error run_until(const std::function<bool()>& done, int timeout_ms, const std::string& what);
  // Lets a seeded device make some progress: called by queries.
  void nudge();
  // Device clock, ns.
  static int64_t now_ns();

  explicit Device(int index);
  ~Device();

 private:
  friend class Stream;
  friend class Context;
  friend class Event;
  friend class HostFuncTask;
  // (see scheduler.cpp)
  void enqueue(Stream& stream, TaskPtr task);
  void wake_executor();
  bool run_some(std::unique_lock<std::mutex>& lock);
  bool run_head(Stream& stream, std::unique_lock<std::mutex>& lock);
  Stream* pick(size_t* cursor);
  void drop_queue(Stream& stream);
  void thread_main();
  std::string hang_report() const;
  Error fail_hung_streams();

  const int index_;
  DeviceMemory memory_;
  std::unique_ptr<Context> primary_;
  std::atomic<uint32_t> streams_in_use_{0};

  mutable std::mutex mutex_;                // guards all below and the streams' queues
  std::condition_variable executor_cv_;     // the device thread sleeps here
  std::condition_variable host_cv_;         // host threads wait here
  std::vector<Stream*> active_;             // streams with queued work
  bool executing_ = false;                  // some thread runs device work
  int host_waiters_ = 0;
  bool thread_parked_ = false;
  bool stop_ = false;
  uint64_t progress_ = 0;                   // tasks completed, blocked or not
  std::mt19937_64 rng_;
  std::thread thread_;
};

}  // namespace softnpu
