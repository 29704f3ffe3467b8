#include <unistd.h>

#include <thread>

#include "support.h"

using namespace test;

TEST(stream_keeps_its_order, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  std::string order;
  for (char letter = 'a'; letter <= 'z'; ++letter) run_on(stream, [&, letter] { order += letter; });
  CHECK_OK(stream.synchronize());
  CHECK_EQ(order, "abcdefghijklmnopqrstuvwxyz");
}

TEST(stream_runs_without_a_host_that_waits, "") {
  Stream& stream = new_stream(use_device());
  std::atomic<bool> ran{false};
  run_on(stream, [&] { ran = true; });
  for (int i = 0; i < 2000 && !ran; ++i) usleep(1'000);
  CHECK(ran);
}

TEST(stream_runs_again_after_a_long_pause, "") {
  Stream& stream = new_stream(use_device());
  for (int round = 0; round < 5; ++round) {
    std::atomic<bool> ran{false};
    run_on(stream, [&] { ran = true; });
    for (int i = 0; i < 2000 && !ran; ++i) usleep(1'000);
    CHECK(ran);
    usleep(10'000);
  }
}

TEST(stream_is_asynchronous_to_the_host, "") {
  Stream& stream = new_stream(use_device());
  Gate gate;
  gate.hold(stream);
  bool ran = false;
  run_on(stream, [&] { ran = true; });
  bool idle = true;
  CHECK_OK(stream.query(&idle));
  CHECK(!idle);
  gate.open();
  CHECK_OK(stream.synchronize());
  CHECK(ran);
  CHECK_OK(stream.query(&idle));
  CHECK(idle);
}

TEST(stream_query_in_a_loop_ends, "") {
  Stream& stream = new_stream(use_device());
  run_on(stream, [] { usleep(2'000); });
  bool idle = false;
  while (!idle) CHECK_OK(stream.query(&idle));
}

TEST(stream_query_in_a_loop_ends_under_a_seed, "SOFTNPU_SEED=3") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Event& event = new_event(context);
  int ran = 0;
  for (int i = 0; i < 5; ++i) run_on(stream, [&] { ++ran; });
  CHECK_OK(event.record(stream));
  CHECK_EQ(ran, 0);
  bool done = false;
  while (!done) CHECK_OK(event.query(&done));
  CHECK_EQ(ran, 5);
}

TEST(stream_synchronize_waits_for_what_was_submitted_before, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Gate gate;
  std::atomic<bool> synchronized{false};
  std::atomic<int> ran{0};
  run_on(stream, [&] { ++ran; });
  std::thread waiter([&] {
    CHECK_OK(stream.synchronize());
    synchronized = true;
  });
  waiter.join();
  gate.hold(stream);
  CHECK(synchronized);
  CHECK_EQ(ran.load(), 1);
  gate.open();
  CHECK_OK(stream.synchronize());
}

TEST(stream_synchronize_times_out, "") {
  Stream& stream = new_stream(use_device());
  Gate gate;
  gate.hold(stream);
  const Error error = stream.synchronize(20);
  CHECK_CODE(error, SyncTimeout);
  CHECK_HAS(error.message(), stream.describe());
  CHECK_HAS(error.message(), "20 ms");
  gate.open();
  CHECK_OK(stream.synchronize(10'000));
}

TEST(stream_synchronize_times_out_while_a_task_runs, "") {
  Stream& stream = new_stream(use_device());
  run_on(stream, [] { usleep(400'000); });
  const int64_t begin = Device::now_ns();
  CHECK_CODE(stream.synchronize(20), SyncTimeout);
  CHECK(Device::now_ns() - begin < 300'000'000);
  CHECK_OK(stream.synchronize());
}

TEST(stream_destroyed_runs_its_work_first, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  int ran = 0;
  for (int i = 0; i < 10; ++i) run_on(stream, [&] { ++ran; });
  CHECK_OK(context.destroy_stream(stream, false));
  CHECK_EQ(ran, 10);
  CHECK(Stream::from_handle(&stream) == nullptr);
}

TEST(stream_destroyed_by_force_drops_its_work, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Gate gate;
  gate.hold(stream);
  run_on(stream, [] { CHECK(false); });
  CHECK_OK(context.destroy_stream(stream, true));
  CHECK(Stream::from_handle(&stream) == nullptr);
  CHECK_OK(context.synchronize());
}

TEST(stream_destroyed_by_force_lets_a_running_task_end, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  std::atomic<bool> running{false};
  std::atomic<bool> ended{false};
  run_on(stream, [&] {
    running = true;
    usleep(50'000);
    ended = true;
  });
  while (!running) usleep(100);
  CHECK_OK(context.destroy_stream(stream, true));
  CHECK(ended);
}

TEST(stream_default_cannot_be_destroyed, "") {
  Context& context = use_device();
  CHECK(Stream::from_handle(nullptr) == &context.default_stream());
  CHECK_CODE(context.destroy_stream(context.default_stream(), true), InvalidParam);
}

TEST(stream_handles_are_checked, "") {
  Stream& stream = new_stream(use_device());
  int local = 0;
  CHECK(Stream::from_handle(&stream) == &stream);
  CHECK(Stream::from_handle(&local) == nullptr);
  CHECK(Stream::from_handle(reinterpret_cast<char*>(&stream) + 8) == nullptr);
  CHECK(Stream::from_handle(reinterpret_cast<void*>(16)) == nullptr);
}

TEST(stream_handle_is_not_taken_again_at_once, "") {
  Context& context = use_device();
  Stream* old = &new_stream(context);
  Stream& kept = new_stream(context);
  CHECK_OK(context.destroy_stream(*old, false));
  CHECK_OK(context.destroy_stream(kept, false));
  Stream* second = nullptr;
  CHECK_OK(context.create_stream(0, &second));
  CHECK(second != &kept);
}

TEST(stream_limit, "SOFTNPU_STREAM_LIMIT=4") {
  Context& context = use_device();
  Device& device = context.device();
  CHECK_EQ(Context::streams_available(device), 3u);  // the default stream is one
  Stream* streams[3];
  for (auto& stream : streams) CHECK_OK(context.create_stream(0, &stream));
  Stream* more = nullptr;
  const Error error = context.create_stream(0, &more);
  CHECK_CODE(error, NoStreamResource);
  CHECK_HAS(error.message(), "SOFTNPU_STREAM_LIMIT");
  CHECK_EQ(Context::streams_available(device), 0u);
  // A context still gets its default stream; the other device has streams of its own.
  Context* other = nullptr;
  CHECK_OK(Context::create(device, &other));
  CHECK_OK(other->default_stream().synchronize());
  CHECK_OK(Context::destroy(*other));
  CHECK_OK(use_device(1).create_stream(0, &more));
  CHECK_OK(context.destroy_stream(*streams[1], false));
  CHECK_OK(context.create_stream(0, &more));
}

TEST(graphs_take_streams_of_the_limit, "SOFTNPU_STREAM_LIMIT=6") {
  Context& context = use_device();
  Device& device = context.device();
  Stream& origin = new_stream(context);
  Stream& side = new_stream(context);
  Graph* graph = nullptr;
  for (int i = 0; i < 2; ++i) {
    CHECK_OK(Graph::begin(origin, CaptureMode::Global));
    CHECK_OK(Graph::end(origin, &graph));
  }
  CHECK_EQ(Context::streams_available(device), 1u);
  CHECK_OK(Graph::begin(origin, CaptureMode::Global));
  Event& event = new_event(context);
  CHECK_OK(event.record(origin));
  const Error fork = event.wait(side);
  CHECK_CODE(fork, NoStreamResource);
  CHECK(!side.capturing());
  Graph* failed = nullptr;
  CHECK_CODE(Graph::end(origin, &failed), CaptureInvalidated);
  CHECK_OK(Graph::begin(origin, CaptureMode::Global));
  CHECK_OK(Graph::end(origin, &failed));
  CHECK_CODE(Graph::begin(side, CaptureMode::Global), NoStreamResource);
  CHECK_OK(graph->destroy());
  CHECK_EQ(Context::streams_available(device), 1u);
}

TEST(stream_ids_are_unique_on_a_device, "") {
  Context& primary = use_device();
  Context* other = nullptr;
  CHECK_OK(Context::create(primary.device(), &other));
  Stream& first = new_stream(primary);
  Stream& second = new_stream(*other);
  CHECK(first.id() != second.id());
  CHECK(primary.default_stream().id() != other->default_stream().id());
  const uint32_t freed = first.id();
  CHECK_OK(primary.destroy_stream(first, false));
  CHECK_EQ(new_stream(*other).id(), freed);
  CHECK_HAS(second.describe(), "stream " + std::to_string(second.id()) + " of device 0");
  CHECK_OK(Context::destroy(*other));
}

TEST(streams_synchronize_together_with_their_context, "") {
  Context& context = use_device();
  std::atomic<int> ran{0};
  for (int i = 0; i < 8; ++i) {
    Stream& stream = new_stream(context);
    for (int j = 0; j < 20; ++j) run_on(stream, [&] { ++ran; });
  }
  run_on(context.default_stream(), [&] { ++ran; });
  CHECK_OK(context.synchronize());
  CHECK_EQ(ran.load(), 161);
  Gate gate;
  gate.hold(new_stream(context));
  CHECK_CODE(context.synchronize(10), SyncTimeout);
  gate.open();
}

TEST(streams_take_turns, "SOFTNPU_HANG_SECONDS=5") {
  Context& context = use_device();
  Stream& busy = new_stream(context);
  Stream& other = new_stream(context);
  Gate gate;
  gate.hold(busy);
  int ran = 0;
  int seen = -1;
  for (int i = 0; i < 1000; ++i) run_on(busy, [&] { ++ran; });
  gate.hold(other);
  run_on(other, [&] { seen = ran; });
  gate.open();
  CHECK_OK(context.synchronize());
  CHECK(seen < 1000);
}
