#include <pthread.h>
#include <unistd.h>

#include <thread>

#include "support.h"

using namespace test;

namespace {

std::string g_order;  // touched in stream order

void append_h(void*) { g_order += 'h'; }
void sleep_then_append(void*) {
  usleep(20'000);
  g_order += 'h';
}

}  // namespace

TEST(host_func_runs_in_stream_order_on_another_thread, "") {
  Stream& stream = new_stream(use_device());
  std::thread::id where;
  run_on(stream, [] { g_order += 'a'; });
  CHECK_OK(host_func(stream, sleep_then_append, nullptr));
  CHECK_OK(host_func(
      stream, [](void* out) { *static_cast<std::thread::id*>(out) = std::this_thread::get_id(); },
      &where));
  run_on(stream, [] { g_order += 'b'; });
  CHECK_OK(stream.synchronize());
  CHECK_EQ(g_order, "ahb");
  CHECK(where != std::thread::id{} && where != std::this_thread::get_id());
  CHECK_CODE(host_func(stream, nullptr, nullptr), InvalidParam);
}

TEST(host_func_runs_under_a_seed, "SOFTNPU_SEED=1") {
  Stream& stream = new_stream(use_device());
  run_on(stream, [] { g_order += 'a'; });
  CHECK_OK(host_func(stream, sleep_then_append, nullptr));
  run_on(stream, [] { g_order += 'b'; });
  CHECK_OK(stream.synchronize());
  CHECK_EQ(g_order, "ahb");
}

TEST(host_func_that_takes_long_is_no_hang, "SOFTNPU_HANG_SECONDS=0.1") {
  Stream& stream = new_stream(use_device());
  CHECK_OK(host_func(stream, [](void*) { usleep(400'000); }, nullptr));
  CHECK_OK(stream.synchronize());
}

TEST(host_func_that_waits_for_its_own_stream_is_reported, "SOFTNPU_HANG_SECONDS=0.3") {
  Stream& stream = new_stream(use_device());
  static Error inner;
  static std::atomic<bool> returned{false};
  const auto wait = [](void* waited) {
    inner = static_cast<Stream*>(waited)->synchronize();
    returned = true;
  };
  CHECK_OK(host_func(stream, wait, &stream));
  CHECK_CODE(stream.synchronize(), Hang);
  for (int i = 0; i < 5000 && !returned; ++i) usleep(1'000);
  CHECK(returned);
  CHECK_CODE(inner, Hang);
}

TEST(host_func_in_a_graph_runs_per_replay, "") {
  Stream& stream = new_stream(use_device());
  static std::atomic<int> calls{0};
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  run_on(stream, [] { g_order += 'a'; });
  CHECK_OK(host_func(stream, append_h, nullptr));
  CHECK_OK(host_func(stream, [](void*) { ++calls; }, nullptr));
  run_on(stream, [] { g_order += 'b'; });
  Graph& graph = end_capture(stream);
  CHECK_EQ(calls.load(), 0);
  for (int i = 0; i < 3; ++i) CHECK_OK(graph.replay(stream));
  CHECK_OK(stream.synchronize());
  CHECK_EQ(g_order, "ahbahbahb");
  CHECK_EQ(calls.load(), 3);
}

TEST(host_func_dropped_with_its_stream_does_not_run, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Gate gate;
  gate.hold(stream);
  CHECK_OK(host_func(stream, [](void*) { CHECK(false); }, nullptr));
  CHECK_OK(context.destroy_stream(stream, true));
  usleep(20'000);
}

TEST(callback_needs_a_subscribed_thread, "") {
  Stream& stream = new_stream(use_device());
  CHECK_CODE(launch_callback(stream, append_h, nullptr, true), NoCallbackThread);
  CHECK_CODE(process_report(1), NoCallbackThread);
  CHECK_CODE(unsubscribe_report(1, stream), NoCallbackThread);
}

TEST(callback_runs_in_the_subscribed_thread, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  std::atomic<bool> stop{false};
  std::thread thread([&] {
    while (!stop) {
      const Error error = process_report(20);
      if (error.failed() && error.code() != Code::NoCallbackThread)
        CHECK_CODE(error, ReportTimeout);
    }
  });
  const auto id = static_cast<uint64_t>(thread.native_handle());
  CHECK_OK(subscribe_report(id, stream));
  CHECK_CODE(subscribe_report(id, stream), InvalidParam);
  static std::thread::id where;
  run_on(stream, [] { g_order += 'a'; });
  CHECK_OK(launch_callback(stream, sleep_then_append, nullptr, true));
  CHECK_OK(
      launch_callback(stream, [](void*) { where = std::this_thread::get_id(); }, nullptr, true));
  run_on(stream, [] { g_order += 'b'; });
  CHECK_OK(stream.synchronize());
  CHECK_EQ(g_order, "ahb");
  CHECK(where == thread.get_id());
  CHECK_OK(unsubscribe_report(id, stream));
  CHECK_CODE(launch_callback(stream, append_h, nullptr, true), NoCallbackThread);
  stop = true;
  thread.join();
}

TEST(callback_that_does_not_block_lets_the_stream_go_on, "") {
  Stream& stream = new_stream(use_device());
  const auto id = static_cast<uint64_t>(pthread_self());
  CHECK_OK(subscribe_report(id, stream));
  CHECK_OK(launch_callback(stream, append_h, nullptr, false));
  CHECK_OK(stream.synchronize());
  CHECK_EQ(g_order, "");
  CHECK_OK(process_report(1'000));
  CHECK_EQ(g_order, "h");
  CHECK_CODE(process_report(5), ReportTimeout);
}

TEST(callback_that_nobody_processes_is_a_hang, "SOFTNPU_HANG_SECONDS=0.2") {
  Stream& stream = new_stream(use_device());
  CHECK_OK(subscribe_report(12345, stream));
  CHECK_OK(launch_callback(stream, append_h, nullptr, true));
  const Error error = stream.synchronize();
  CHECK_CODE(error, Hang);
  CHECK_HAS(error.message(), "aclrtProcessReport");
}

TEST(callback_subscription_ends_with_its_stream, "") {
  Context& context = use_device();
  for (int i = 0; i < 3; ++i) {
    Stream& stream = new_stream(context);
    CHECK_OK(subscribe_report(12345, stream));
    CHECK_OK(context.destroy_stream(stream, false));
  }
  for (int i = 0; i < 4; ++i) {
    CHECK_CODE(launch_callback(new_stream(context), append_h, nullptr, true), NoCallbackThread);
  }
}
