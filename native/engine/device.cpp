#include "device.h"

#include <algorithm>
#include <chrono>

#include "context.h"
#include "log.h"

namespace softnpu {
namespace {

std::atomic<bool> g_forked{false};
std::atomic<bool> g_shut_down{false};

std::vector<std::unique_ptr<Device>>& all_devices() {
  // Never destroyed: tasks and handles may outlive every static object.
  static auto* devices = [] {
    auto* list = new std::vector<std::unique_ptr<Device>>;
    for (uint32_t i = 0; i < settings().devices; ++i) {
      list->push_back(std::make_unique<Device>(static_cast<int>(i)));
    }
    return list;
  }();
  return *devices;
}

}  // namespace

Device::Device(int index)
    : index_(index),
      seed_(settings().seed.value_or(0) * 64 + static_cast<uint64_t>(index)),
      memory_(index, settings().hbm_bytes) {}

uint32_t Device::count() { return settings().devices; }

Device* Device::get(int index) {
  if (index < 0 || static_cast<uint32_t>(index) >= count()) return nullptr;
  return all_devices()[static_cast<size_t>(index)].get();
}

Error Device::select(int index) {
  Device* device = get(index);
  if (!device) {
    return {Code::InvalidDevice,
            "Device " + std::to_string(index) + " does not exist: there are " +
                std::to_string(count()) + " (0 to " + std::to_string(count() - 1) +
                "). SOFTNPU_DEVICES or `softnpu run --devices` sets how many."};
  }
  return Context::set_current(&device->primary_context());
}

Context& Device::primary_context() {
  std::lock_guard lock(primary_mutex_);
  if (!primary_) primary_ = std::make_unique<Context>(*this, true);
  primary_active_.store(true);
  return *primary_;
}

int64_t Device::now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Error Device::check_usable(const std::string& what) {
  if (!forked()) return Error::ok();
  return {Code::Unsupported, what +
                                 ": this process was forked after the device was initialised, so "
                                 "its device thread does not exist here. Use the spawn start "
                                 "method, or fork before the first use of the device."};
}

Error Device::shut_down_error(const std::string& what) const {
  return {Code::Aborted, what + ": device " + std::to_string(index_) + " was shut down."};
}

Error Device::enqueue(Stream& stream, TaskPtr task) {
  if (forked()) return check_usable(task->name());
  task->memory_generation = memory_.generation();
  Lock lock(mutex_);
  if (stop_) return shut_down_error(task->name());
  if (stream.context().broken()) {
    task->drop();
    return stream.context().first_error();
  }
  stream.queue_.push_back(std::move(task));
  ++stream.submitted_;
  activate(stream);
  note_activity();
  notify_executor(lock);
  return Error::ok();
}

void Device::poke() {
  if (forked()) return;
  Lock lock(mutex_);
  ++progress_;
  note_activity();
  host_cv_.notify_all();
  executor_cv_.notify_one();
  notify_executor(lock);
}

void Device::drop_queue(Stream& stream, std::vector<TaskPtr>* dropped) {
  // The head may be running: it stays until its executor is done with it.
  const size_t keep = stream.running_ ? 1 : 0;
  while (stream.queue_.size() > keep) {
    stream.queue_.back()->drop();
    dropped->push_back(std::move(stream.queue_.back()));
    stream.queue_.pop_back();
    ++stream.completed_;
  }
  if (stream.queue_.empty()) deactivate(stream);
  ++progress_;
  host_cv_.notify_all();
}

void Device::retire(Stream& stream) {
  if (forked()) return;
  std::vector<TaskPtr> dropped;
  Lock lock(mutex_);
  while (stream.active_ || stream.freeing_) {
    drop_queue(stream, &dropped);
    if (stream.active_ || stream.freeing_) host_cv_.wait_for(lock, std::chrono::milliseconds(1));
  }
}

Error Device::drain(const Context& context, const Stream* only, int timeout_ms,
                    const std::string& what) {
  if (Error error = check_usable(what); error.failed()) return error;
  // Only streams with work are looked at: the others have run everything, and one that was
  // destroyed meanwhile is not among them.
  std::vector<std::pair<const Stream*, uint64_t>> targets;
  {
    Lock lock(mutex_);
    for (const Stream* stream : active_) {
      if (only ? stream == only : &stream->context() == &context) {
        targets.emplace_back(stream, stream->submitted_);
      }
    }
  }
  const auto reached = [&targets](const Stream* stream) {
    for (const auto& [target, submitted] : targets) {
      if (target == stream) return stream->completed_ >= submitted;
    }
    return true;
  };
  const auto done = [&] { return std::all_of(active_.begin(), active_.end(), reached); };
  return run_until(context, done, timeout_ms, what);
}

void Device::fail_context(Context& context, const Error& error, std::vector<TaskPtr>* dropped) {
  context.fail(error);
  const std::vector<Stream*> streams = active_;
  for (Stream* stream : streams) {
    if (&stream->context() == &context) drop_queue(*stream, dropped);
  }
}

Error Device::reset() {
  std::lock_guard primary_lock(primary_mutex_);
  if (Error error = check_usable("Resetting the device"); error.failed()) return error;
  if (!primary_) return Error::ok();
  {
    std::vector<TaskPtr> dropped;
    Lock lock(mutex_);
    const std::vector<Stream*> streams = active_;
    for (Stream* stream : streams) drop_queue(*stream, &dropped);
    while (executing_) host_cv_.wait_for(lock, std::chrono::milliseconds(1));
  }
  primary_active_.store(false);
  primary_.reset();
  memory_.clear();
  return Error::ok();
}

void Device::shut_down_all() {
  if (g_shut_down.exchange(true) || g_forked.load()) return;
  for (auto& device : all_devices()) {
    std::thread thread;
    {
      std::lock_guard lock(device->mutex_);
      device->stop_ = true;
      device->executor_cv_.notify_all();
      thread.swap(device->thread_);
    }
    if (thread.joinable()) thread.join();
  }
}

void Device::after_fork_in_child() {
  g_forked.store(true);
  g_shut_down.store(true);
}

bool Device::forked() { return g_forked.load(std::memory_order_relaxed); }

}  // namespace softnpu
