#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "support.h"

using namespace test;

TEST(device_count_follows_the_setting, "SOFTNPU_DEVICES=3") {
  CHECK_EQ(Device::count(), 3u);
  CHECK(Device::get(2) != nullptr);
  CHECK(Device::get(3) == nullptr);
  CHECK(Device::get(-1) == nullptr);
}

TEST(device_out_of_range_is_named, "") {
  const Error error = Device::select(2);
  CHECK_CODE(error, InvalidDevice);
  CHECK_HAS(error.message(), "Device 2");
  CHECK_HAS(error.message(), "SOFTNPU_DEVICES");
}

TEST(context_is_per_thread, "") {
  Context& mine = use_device(0);
  std::thread([&mine] {
    CHECK(Context::current() == nullptr);
    CHECK(&use_device(1) != &mine);
  }).join();
  CHECK(Context::current() == &mine);
}

TEST(context_created_beside_the_primary, "") {
  Context& primary = use_device();
  Context* other = nullptr;
  CHECK_OK(Context::create(primary.device(), &other));
  CHECK(Context::current() == other);
  CHECK(Context::from_handle(other) == other);
  Stream& stream = new_stream(*other);
  bool ran = false;
  run_on(stream, [&] { ran = true; });
  CHECK_OK(Context::destroy(*other));
  CHECK(ran);
  CHECK(Context::from_handle(other) == nullptr);
  CHECK(Context::current() == nullptr);
  CHECK(Stream::from_handle(&stream) == nullptr);
}

TEST(context_primary_cannot_be_destroyed, "") {
  CHECK_CODE(Context::destroy(use_device()), InvalidParam);
}

TEST(context_destroyed_after_a_failure_lets_running_work_end, "") {
  Context& primary = use_device();
  Context* other = nullptr;
  CHECK_OK(Context::create(primary.device(), &other));
  std::atomic<bool> running{false};
  bool ended = false;
  run_on(new_stream(*other), [&] {
    running = true;
    usleep(50'000);
    ended = true;
  });
  while (!running) usleep(100);
  other->fail({Code::OperatorFailed, "as if"});
  CHECK_CODE(Context::destroy(*other), OperatorFailed);
  CHECK(ended);
}

TEST(reset_ends_handles_frees_memory_and_clears_the_error, "") {
  Context& context = use_device();
  Device& device = context.device();
  Stream& stream = new_stream(context);
  Event& event = new_event(context);
  CHECK_OK(Graph::begin(stream, CaptureMode::Relaxed));
  Graph& graph = end_capture(stream);
  void* memory = new_memory(device, 1 << 20);
  fail_on(stream, "out of luck");
  CHECK_CODE(context.synchronize(), OperatorFailed);
  CHECK_OK(device.reset());
  CHECK(!device.primary_active());
  CHECK(Context::current() == nullptr);
  CHECK(Stream::from_handle(&stream) == nullptr);
  CHECK(Stream::from_handle(nullptr) == nullptr);
  CHECK(Event::from_handle(&event) == nullptr);
  CHECK(Graph::from_handle(&graph) == nullptr);
  CHECK_EQ(device.memory().find(memory).size, 0u);
  Context& again = use_device();
  CHECK_OK(again.first_error());
  bool ran = false;
  run_on(new_stream(again), [&] { ran = true; });
  CHECK_OK(again.synchronize());
  CHECK(ran);
}

TEST(reset_while_a_replay_waits, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Event& external = new_event(context, kEventExternal);
  CHECK_OK(Graph::begin(stream, CaptureMode::Relaxed));
  CHECK_OK(external.wait(stream));
  Graph& graph = end_capture(stream);
  CHECK_OK(graph.replay(stream));
  usleep(5'000);
  CHECK_OK(context.device().reset());
  CHECK_OK(use_device().synchronize());
}

TEST(shut_down_stops_waiting_and_later_work, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Gate gate;
  gate.hold(stream);
  std::thread waiter([&] { CHECK_CODE(stream.synchronize(), Aborted); });
  usleep(5'000);
  Device::shut_down_all();
  waiter.join();
  bool idle = false;
  CHECK_CODE(stream.query(&idle), Aborted);
  CHECK_CODE(stream.submit(task([] { CHECK(false); })), Aborted);
}

TEST(shut_down_ends_what_runs, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  std::atomic<bool> running{false};
  std::atomic<bool> ended{false};
  run_on(stream, [&] {
    running = true;
    usleep(20'000);
    ended = true;
  });
  while (!running) usleep(100);
  Device::shut_down_all();
  CHECK(ended);
}

TEST(forked_child_is_told_so, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  run_on(stream, [] {});
  CHECK_OK(stream.synchronize());
  const pid_t child = fork();
  if (child == 0) {
    Device::after_fork_in_child();
    bool idle = false;
    const Error error = stream.submit(task([] {}));
    CHECK_CODE(error, Unsupported);
    CHECK_HAS(error.message(), "forked");
    CHECK_CODE(stream.synchronize(), Unsupported);
    CHECK_CODE(stream.query(&idle), Unsupported);
    CHECK_CODE(context.synchronize(), Unsupported);
    Device::shut_down_all();
    _exit(0);
  }
  int status = 0;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
  CHECK_OK(stream.synchronize());
}
