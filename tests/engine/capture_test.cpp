#include <unistd.h>

#include <thread>

#include "support.h"

using namespace test;

TEST(capture_handle_exists_from_begin_to_end, "") {
  Stream& stream = new_stream(use_device());
  CHECK(stream.capture_status() == CaptureStatus::None);
  CHECK(stream.capturing() == nullptr);
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  CHECK(stream.capture_status() == CaptureStatus::Active);
  Graph* during = stream.capturing();
  CHECK(during != nullptr);
  CHECK(Graph::from_handle(during) == during);
  CHECK_CODE(during->destroy(), ModelCaptured);
  CHECK_CODE(during->replay(new_stream(stream.context())), ModelCaptured);
  CHECK(&end_capture(stream) == during);
  CHECK(stream.capture_status() == CaptureStatus::None);
  CHECK(Graph::from_handle(during) == during);
  CHECK_OK(during->destroy());
  CHECK(Graph::from_handle(during) == nullptr);
}

TEST(capture_runs_nothing, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  std::atomic<int> ran{0};
  run_on(stream, [&] { ++ran; });  // before the capture: runs
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  for (int i = 0; i < 5; ++i) run_on(stream, [&] { ++ran; });
  Stream& other = new_stream(context);
  run_on(other, [&] { ++ran; });
  CHECK_OK(other.synchronize());  // another stream works as ever
  usleep(5'000);
  Graph& graph = end_capture(stream);
  CHECK_OK(stream.synchronize());
  CHECK_EQ(ran.load(), 2);
  CHECK_EQ(graph.node_count(), 5u);
  CHECK_OK(graph.replay(stream));
  CHECK_OK(stream.synchronize());
  CHECK_EQ(ran.load(), 7);
}

TEST(capture_ids_grow, "") {
  Stream& stream = new_stream(use_device());
  uint32_t last = 0;
  for (int i = 0; i < 3; ++i) {
    CHECK_OK(Graph::begin(stream, CaptureMode::Global));
    Graph& graph = end_capture(stream);
    CHECK(graph.id() > last);
    last = graph.id();
    CHECK_OK(graph.destroy());
  }
}

TEST(capture_membership_is_per_stream_not_per_thread, "") {
  Stream& stream = new_stream(use_device());
  int ran = 0;
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  std::thread([&] { run_on(stream, [&] { ++ran; }); }).join();
  Graph& graph = end_capture(stream);
  CHECK_EQ(ran, 0);
  CHECK_OK(graph.replay(stream));
  CHECK_OK(stream.synchronize());
  CHECK_EQ(ran, 1);
}

TEST(capture_fork_and_join, "") {
  Context& context = use_device();
  Stream& origin = new_stream(context);
  Stream& side = new_stream(context);
  Event& fork = new_event(context);
  Event& join = new_event(context);
  Trace trace;
  CHECK_OK(Graph::begin(origin, CaptureMode::Global));
  trace.mark(origin, 'a');
  CHECK_OK(fork.record(origin));
  CHECK(side.capture_status() == CaptureStatus::None);
  CHECK_OK(fork.wait(side));
  CHECK(side.capture_status() == CaptureStatus::Active);
  CHECK(side.capturing() == origin.capturing());
  trace.mark(side, 'b');
  CHECK_OK(join.record(side));
  trace.mark(origin, 'c');
  CHECK_OK(join.wait(origin));
  trace.mark(origin, 'd');
  CHECK_EQ(trace.text(), "");
  Graph& graph = end_capture(origin);
  CHECK(side.capture_status() == CaptureStatus::None);
  bool ran = false;
  run_on(side, [&] { ran = true; });
  CHECK_OK(side.synchronize());
  CHECK(ran);
  CHECK_OK(graph.replay(side));
  CHECK_OK(side.synchronize());
  CHECK(trace.text() == "abcd" || trace.text() == "acbd");
}

TEST(capture_nested_forks_join_through_each_other, "") {
  Context& context = use_device();
  Stream& origin = new_stream(context);
  Stream& first = new_stream(context);
  Stream& second = new_stream(context);
  Event* events[4];
  for (auto& event : events) event = &new_event(context);
  CHECK_OK(Graph::begin(origin, CaptureMode::Global));
  CHECK_OK(events[0]->record(origin));
  CHECK_OK(events[0]->wait(first));
  CHECK_OK(events[1]->record(first));
  CHECK_OK(events[1]->wait(second));
  CHECK_OK(events[2]->record(second));
  CHECK_OK(events[2]->wait(first));
  CHECK_OK(events[3]->record(first));
  CHECK_OK(events[3]->wait(origin));
  (void)end_capture(origin);
}

TEST(capture_unjoined_stream_is_named, "") {
  Context& context = use_device();
  Stream& origin = new_stream(context);
  Stream& side = new_stream(context);
  Event& event = new_event(context);
  CHECK_OK(Graph::begin(origin, CaptureMode::Global));
  CHECK_OK(event.record(origin));
  CHECK_OK(event.wait(side));
  run_on(side, [] {}, "aclnnAdd");
  Graph* graph = origin.capturing();
  Graph* out = graph;
  const Error error = Graph::end(origin, &out);
  CHECK_CODE(error, CaptureUnjoined);
  CHECK_HAS(error.message(), "stream " + std::to_string(side.id()));
  CHECK_HAS(error.message(), "aclnnAdd");
  CHECK(out == nullptr);
  CHECK(Graph::from_handle(graph) == nullptr);
  CHECK(side.capture_status() == CaptureStatus::None);
  CHECK_OK(context.synchronize());
  CHECK_OK(Graph::begin(origin, CaptureMode::Global));
  (void)end_capture(origin);
}

TEST(capture_work_after_the_join_record_is_unjoined, "") {
  Context& context = use_device();
  Stream& origin = new_stream(context);
  Stream& side = new_stream(context);
  Event& event = new_event(context);
  CHECK_OK(Graph::begin(origin, CaptureMode::Global));
  CHECK_OK(event.record(origin));
  CHECK_OK(event.wait(side));
  CHECK_OK(event.record(side));
  CHECK_OK(event.wait(origin));
  run_on(side, [] {});
  Graph* out = nullptr;
  CHECK_CODE(Graph::end(origin, &out), CaptureUnjoined);
}

TEST(capture_reuses_an_event, "") {
  Context& context = use_device();
  Stream& origin = new_stream(context);
  Stream& side = new_stream(context);
  Event& event = new_event(context);
  CHECK_OK(event.record(origin));
  for (int i = 0; i < 2; ++i) {
    CHECK_OK(Graph::begin(origin, CaptureMode::Global));
    CHECK_OK(event.record(origin));
    CHECK_OK(event.wait(side));
    CHECK_OK(event.record(side));
    CHECK_OK(event.wait(origin));
    (void)end_capture(origin);
  }
  bool complete = false;
  CHECK_CODE(event.query(&complete), EventCaptured);
  CHECK_CODE(event.synchronize(), EventCaptured);
  float ms = 0;
  CHECK_CODE(event.elapsed_since(event, &ms), EventCaptured);
  CHECK_OK(event.record(origin));
  CHECK_OK(event.synchronize());
}

TEST(capture_of_a_wait_on_an_earlier_record, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Event& before = new_event(context);
  CHECK_OK(before.record(new_stream(context)));
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  const Error error = before.wait(stream);
  CHECK_CODE(error, CaptureDependency);
  CHECK_HAS(error.message(), before.describe());
  CHECK(stream.capture_status() == CaptureStatus::Invalidated);
  CHECK_CODE(stream.submit(task([] {})), CaptureInvalidated);
  Graph* out = nullptr;
  const Error end = Graph::end(stream, &out);
  CHECK_CODE(end, CaptureInvalidated);
  CHECK_HAS(end.message(), before.describe());
}

TEST(capture_conflict_invalidates_both, "") {
  Context& context = use_device();
  Stream& first = new_stream(context);
  Stream& second = new_stream(context);
  Event& event = new_event(context);
  CHECK_OK(Graph::begin(first, CaptureMode::Relaxed));
  CHECK_OK(Graph::begin(second, CaptureMode::Relaxed));
  CHECK_OK(event.record(first));
  CHECK_CODE(event.wait(second), CaptureConflict);
  CHECK(first.capture_status() == CaptureStatus::Invalidated);
  CHECK(second.capture_status() == CaptureStatus::Invalidated);
  Graph* out = nullptr;
  CHECK_CODE(Graph::end(first, &out), CaptureInvalidated);
  CHECK_CODE(Graph::end(second, &out), CaptureInvalidated);
  CHECK_OK(context.synchronize());
}

TEST(capture_two_at_once_stay_apart, "") {
  Context& context = use_device();
  Stream& first = new_stream(context);
  Stream& second = new_stream(context);
  Trace trace;
  CHECK_OK(Graph::begin(first, CaptureMode::Relaxed));
  CHECK_OK(Graph::begin(second, CaptureMode::Relaxed));
  trace.mark(first, '1');
  trace.mark(second, '2');
  Graph& one = end_capture(first);
  trace.mark(second, '2');
  Graph& two = end_capture(second);
  CHECK_OK(two.replay(first));
  CHECK_OK(one.replay(first));
  CHECK_OK(first.synchronize());
  CHECK_EQ(trace.text(), "221");
}

TEST(capture_of_the_default_stream_is_refused, "") {
  Context& context = use_device();
  CHECK_CODE(Graph::begin(context.default_stream(), CaptureMode::Global), CaptureImplicit);
  Stream& stream = new_stream(context);
  Event& event = new_event(context);
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  CHECK_OK(event.record(stream));
  CHECK_CODE(event.wait(context.default_stream()), CaptureImplicit);
  Graph* out = nullptr;
  CHECK_CODE(Graph::end(stream, &out), CaptureInvalidated);
}

TEST(capture_ends_where_it_began, "") {
  Context& context = use_device();
  Stream& origin = new_stream(context);
  Stream& side = new_stream(context);
  Event& event = new_event(context);
  Graph* out = nullptr;
  CHECK_CODE(Graph::end(origin, &out), NotCaptured);
  CHECK_OK(Graph::begin(origin, CaptureMode::Global));
  CHECK_CODE(Graph::begin(origin, CaptureMode::Global), StreamCaptured);
  CHECK_OK(event.record(origin));
  CHECK_OK(event.wait(side));
  CHECK_CODE(Graph::end(side, &out), CaptureUnmatched);
  std::thread([&] {
    Graph* unused = nullptr;
    CHECK_CODE(Graph::end(origin, &unused), CaptureWrongThread);
  }).join();
  CHECK_OK(event.record(side));
  CHECK_OK(event.wait(origin));
  (void)end_capture(origin);
  CHECK_OK(Graph::begin(origin, CaptureMode::Relaxed));
  std::thread([&] { (void)end_capture(origin); }).join();
}

// Refused, not recorded, and the capture goes on, as torch_npu's tests of a refused .item() show.
TEST(capture_refuses_to_wait_and_stays_valid, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  int ran = 0;
  bool idle = false;
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  run_on(stream, [&] { ++ran; });
  const Error error = stream.synchronize();
  CHECK_CODE(error, StreamCaptured);
  CHECK_HAS(error.message(), stream.describe());
  CHECK_CODE(stream.query(&idle), StreamCaptured);
  CHECK_CODE(context.synchronize(), StreamCaptured);
  CHECK(stream.capture_status() == CaptureStatus::Active);
  Graph& graph = end_capture(stream);
  CHECK_EQ(graph.node_count(), 1u);
  CHECK_OK(graph.replay(stream));
  CHECK_OK(stream.synchronize());
  CHECK_EQ(ran, 1);
}

TEST(capture_modes_and_thread_exchange, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  void* device = new_memory(context.device(), 16);
  const auto call_with = [&](CaptureMode thread_mode) {
    CaptureMode mode = thread_mode;
    Graph::exchange_thread_mode(&mode);
    const Error error = fill(context, device, 16, 0, 16);
    Graph::exchange_thread_mode(&mode);
    CHECK(mode == thread_mode);
    return error.code();
  };
  const auto elsewhere = [&](CaptureMode thread_mode) {
    Code code = Code::Ok;
    std::thread([&] { code = call_with(thread_mode); }).join();
    return code;
  };
  // Per capture mode: refused here / there when the thread's mode is global, thread-local, relaxed.
  struct {
    CaptureMode capture;
    bool here[3], there[3];
  } const rows[] = {{CaptureMode::Global, {true, true, false}, {true, false, false}},
                    {CaptureMode::ThreadLocal, {true, true, false}, {false, false, false}},
                    {CaptureMode::Relaxed, {false, false, false}, {false, false, false}}};
  for (const auto& row : rows) {
    CHECK_OK(Graph::begin(stream, row.capture));
    for (int mode = 0; mode < 3; ++mode) {
      const auto thread_mode = static_cast<CaptureMode>(mode);
      CHECK_EQ(call_with(thread_mode) == Code::CaptureMode, row.here[mode]);
      CHECK_EQ(elsewhere(thread_mode) == Code::CaptureMode, row.there[mode]);
    }
    (void)end_capture(stream);
    CHECK_OK(fill(context, device, 16, 0, 16));
  }
}

TEST(capture_of_pageable_copies_is_refused, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  void* device = new_memory(context.device(), 16);
  char host[16] = {};
  CHECK_OK(Graph::begin(stream, CaptureMode::Relaxed));
  const Error error =
      copy_async(stream, device, 16, host, 16, CopyKind::HostToDevice, "aclrtMemcpyAsync");
  CHECK_CODE(error, CapturePageable);
  CHECK_HAS(error.message(), "pin");
  (void)end_capture(stream);
  void* pinned = nullptr;
  CHECK_OK(PinnedMemory::instance().allocate(16, &pinned));
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  CHECK_OK(copy_async(stream, device, 16, pinned, 16, CopyKind::HostToDevice, "aclrtMemcpyAsync"));
  Graph& graph = end_capture(stream);
  for (char value = 1; value < 4; ++value) {
    *static_cast<char*>(pinned) = value;
    CHECK_OK(graph.replay(stream));
    CHECK_OK(stream.synchronize());
    CHECK_EQ(*static_cast<char*>(device), value);
  }
}

TEST(capture_ends_with_its_destroyed_stream, "") {
  Context& context = use_device();
  Stream& origin = new_stream(context);
  Stream& side = new_stream(context);
  Event& event = new_event(context);
  CHECK_OK(Graph::begin(origin, CaptureMode::Global));
  Graph* graph = origin.capturing();
  CHECK_OK(event.record(origin));
  CHECK_OK(event.wait(side));
  CHECK_OK(context.destroy_stream(origin, false));
  CHECK(side.capture_status() == CaptureStatus::None);
  CHECK(Graph::from_handle(graph) == nullptr);
  CHECK_OK(context.synchronize());
  CHECK_OK(Graph::begin(side, CaptureMode::Global));
  Stream& third = new_stream(context);
  CHECK_OK(event.record(side));
  CHECK_OK(event.wait(third));
  CHECK_OK(context.destroy_stream(third, false));
  Graph* out = nullptr;
  const Error error = Graph::end(side, &out);
  CHECK_CODE(error, CaptureInvalidated);
  CHECK_HAS(error.message(), "destroyed");
}

TEST(capture_of_another_device_cannot_be_joined, "") {
  Context& first = use_device(0);
  Context& second = use_device(1);
  Stream& origin = new_stream(first);
  Event& event = new_event(first);
  CHECK_OK(Graph::begin(origin, CaptureMode::Global));
  CHECK_OK(event.record(origin));
  CHECK(event.wait(new_stream(second)).failed());
  Graph* out = nullptr;
  CHECK_CODE(Graph::end(origin, &out), CaptureInvalidated);
}

TEST(capture_status_is_asked_by_many_threads, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Event& before = new_event(context);
  CHECK_OK(before.record(new_stream(context)));
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        Graph* graph = nullptr;
        const CaptureStatus status = stream.capture_info(&graph);
        CHECK_EQ(status == CaptureStatus::None, graph == nullptr);
        (void)stream.capture_status();
      }
    });
  }
  for (int i = 0; i < 300; ++i) {
    CHECK_OK(Graph::begin(stream, CaptureMode::Relaxed));
    run_on(stream, [] {});
    if (i % 3 == 1) CHECK_CODE(before.wait(stream), CaptureDependency);
    Graph* graph = nullptr;
    const Error error = Graph::end(stream, &graph);
    if (!error.failed()) CHECK_OK(graph->destroy());
  }
  stop = true;
  for (auto& thread : threads) thread.join();
}
