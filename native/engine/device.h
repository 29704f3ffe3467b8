// A device: one executor at a time takes tasks from its streams. The executor is the device's own
// thread, or a host thread that would otherwise only wait.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
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
  // Makes the device's primary context current for the calling thread.
  static Error select(int index);
  // Stops the work of every device; nothing runs afterwards. For process exit.
  static void shut_down_all();
  // In a forked child the device threads are gone: every later use fails, saying so.
  static void after_fork_in_child();

  int index() const { return index_; }
  DeviceMemory& memory() { return memory_; }
  Context& primary_context();
  bool primary_active() const { return primary_active_.load(); }
  // Drops queued work, destroys streams, events and graphs, frees memory, clears the error.
  Error reset();

  Error enqueue(Stream& stream, TaskPtr task);
  // Runs or waits for device work until `done()`, which is called with the device's lock held.
  Error run_until(const Context& context, const std::function<bool()>& done, int timeout_ms,
                  const std::string& what);
  // Waits until everything submitted so far to the context, or to one stream of it, has run.
  Error drain(const Context& context, const Stream* only, int timeout_ms, const std::string& what);
  // Drops what is queued and lets a running task end: the stream is about to be destroyed.
  void retire(Stream& stream);
  // One look at `done()` for a query. A seeded device makes a step of progress first.
  Error poll(const Context& context, const std::function<bool()>& done, bool* result,
             const std::string& what);
  // Something outside the queues changed (a host function returned): look at blocked tasks again.
  void poke();
  static bool forked();
  // Counts work done outside the queues (host functions), which is no sign of a hang; by the thread
  // that does it.
  static void add_busy(int delta);
  // Device clock, ns.
  static int64_t now_ns();

  explicit Device(int index);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

 private:
  friend class Stream;
  friend class Context;
  using Lock = std::unique_lock<std::mutex>;

  // A host wait's or poll's view of how long nothing has happened anywhere.
  struct Watch {
    uint64_t activity = ~0ull;
    int64_t since_ns = 0;
    int64_t looked_ns = 0;
  };
  static void note_activity();
  static Error check_usable(const std::string& what);
  Error shut_down_error(const std::string& what) const;
  bool hung(Watch& watch) const;
  void report_hang(Lock& lock);
  void fail_waiting_contexts(const Error& error);

  void notify_executor(Lock& lock);
  Stream* pick();
  Stream* pick_by_seed();
  bool runnable(const Stream& stream) const;
  bool has_runnable() const;
  bool run_one(Lock& lock);
  bool step_other_devices(Lock& lock);
  Step check_and_run(Task& task, RunContext& run);
  void note_progress();
  void finish(Stream& stream, Step step, const Error& error, Lock& lock);
  // What is dropped goes to `dropped`, to be freed without the lock.
  void fail_context(Context& context, const Error& error, std::vector<TaskPtr>* dropped);
  void drop_queue(Stream& stream, std::vector<TaskPtr>* dropped);
  void activate(Stream& stream);
  void deactivate(Stream& stream);
  void thread_main();

  const int index_;
  const uint64_t seed_;
  DeviceMemory memory_;
  std::atomic<bool> primary_active_{false};
  std::unique_ptr<Context> primary_;
  std::mutex primary_mutex_;  // guards primary_

  mutable std::mutex mutex_;             // guards all below and the streams' queues
  std::condition_variable executor_cv_;  // the device thread sleeps here
  std::condition_variable host_cv_;      // host threads wait here
  std::vector<Stream*> active_;          // streams with queued work
  size_t cursor_ = 0;                    // whose turn it is
  int burst_ = 0;                        // tasks run from that stream in a row
  bool executing_ = false;               // some thread runs device work
  int host_waiters_ = 0;
  bool parked_ = false;  // the device thread sleeps until it is notified
  bool stop_ = false;
  uint64_t progress_ = 0;  // grows when blocked tasks should be looked at again
  uint64_t steps_ = 0;     // tasks, and parts of tasks, that have run
  Watch poll_watch_;       // for queries in a loop
  std::thread thread_;
};

}  // namespace softnpu
