#include <unistd.h>

#include <thread>

#include "support.h"

using namespace test;

namespace {

constexpr int kThreads = 8;

void in_threads(const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(body, i);
  for (auto& thread : threads) thread.join();
}

}  // namespace

TEST(threads_submit_to_one_stream, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  int64_t count = 0;  // one stream: tasks never overlap
  in_threads([&](int) {
    for (int i = 0; i < 500; ++i) {
      run_on(stream, [&] { ++count; });
      if (i % 100 == 99) CHECK_OK(stream.synchronize());
    }
  });
  CHECK_OK(stream.synchronize());
  CHECK_EQ(count, 500 * kThreads);
}

TEST(threads_have_streams_events_and_graphs_of_their_own, "") {
  (void)use_device(0);
  (void)use_device(1);
  in_threads([&](int index) {
    Context& context = use_device(index % 2);
    for (int round = 0; round < 20; ++round) {
      Stream& stream = new_stream(context);
      Stream& side = new_stream(context);
      Event& event = new_event(context);
      Trace trace;
      trace.mark(stream, 'a');
      CHECK_OK(event.record(stream));
      CHECK_OK(event.wait(side));
      trace.mark(side, 'b');
      CHECK_OK(event.record(side));
      CHECK_OK(event.wait(stream));
      CHECK_OK(Graph::begin(stream, CaptureMode::Relaxed));
      trace.mark(stream, 'g');
      Graph& graph = end_capture(stream);
      CHECK_OK(graph.replay(stream));
      CHECK_OK(graph.replay(stream));
      CHECK_OK(stream.synchronize());
      CHECK_EQ(trace.text(), "abgg");
      CHECK_OK(graph.destroy());
      context.destroy_event(event);
      CHECK_OK(context.destroy_stream(side, round % 2));
      CHECK_OK(context.destroy_stream(stream, false));
    }
  });
}

TEST(threads_synchronize_a_device_while_streams_come_and_go, "") {
  Context& context = use_device();
  std::atomic<bool> stop{false};
  std::thread synchronizer([&] {
    while (!stop) CHECK_OK(context.synchronize());
  });
  in_threads([&](int) {
    for (int i = 0; i < 50; ++i) {
      Stream& stream = new_stream(context);
      run_on(stream, [] {});
      CHECK_OK(context.destroy_stream(stream, false));
    }
  });
  stop = true;
  synchronizer.join();
}

TEST(threads_capture_while_others_run, "") {
  Context& context = use_device();
  in_threads([&](int index) {
    Stream& stream = new_stream(context);
    int count = 0;
    for (int round = 0; round < 30; ++round) {
      if (index % 2) {
        run_on(stream, [&] { ++count; });
        CHECK_OK(stream.synchronize());
        continue;
      }
      CHECK_OK(Graph::begin(stream, CaptureMode::Relaxed));
      run_on(stream, [&] { ++count; });
      Graph& graph = end_capture(stream);
      CHECK_OK(graph.replay(stream));
      CHECK_OK(stream.synchronize());
      CHECK_OK(graph.destroy());
    }
    CHECK_EQ(count, 30);
  });
}

TEST(threads_update_and_replay_one_graph, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  std::atomic<int> ran{0};
  void* group = nullptr;
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  CHECK_OK(Graph::group_begin(stream));
  run_on(stream, [&] { ++ran; });
  CHECK_OK(Graph::group_end(stream, &group));
  Graph& graph = end_capture(stream);
  std::thread updater([&] {
    Stream& updates = new_stream(context);
    for (int i = 0; i < 200; ++i) {
      CHECK_OK(Graph::update_begin(updates, group));
      run_on(updates, [&] { ++ran; });
      CHECK_OK(Graph::update_end(updates));
      CHECK_OK(graph.dump_json("/dev/null", true));
    }
    CHECK_OK(updates.synchronize());
  });
  for (int i = 0; i < 200; ++i) {
    CHECK_OK(graph.replay(stream));
    CHECK_OK(stream.synchronize());
  }
  updater.join();
  CHECK_EQ(ran.load(), 200);
}

TEST(threads_submit_while_the_device_fails, "") {
  Context& context = use_device();
  in_threads([&](int index) {
    Stream& stream = new_stream(context);
    for (int i = 0; i < 200; ++i) {
      if (index == 0 && i == 100) {
        auto body = [](RunContext& run) {
          run.error = {Code::OperatorFailed, "bad"};
          return Step::Failed;
        };
        (void)stream.submit(std::make_unique<FnTask>(body, "op", TaskKind::Operator));
      }
      (void)stream.submit(task([] {}));
    }
    if (index == 0) CHECK_CODE(stream.synchronize(), OperatorFailed);
  });
  CHECK_CODE(context.synchronize(), OperatorFailed);
}
