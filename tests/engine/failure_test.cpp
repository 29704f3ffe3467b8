#include <unistd.h>

#include <stdexcept>
#include <thread>

#include "support.h"

using namespace test;

TEST(failure_is_sticky_and_names_the_first_task, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Stream& other = new_stream(context);
  Event& event = new_event(context);
  Gate gate;
  gate.hold(stream);
  fail_on(stream, "first failure");
  run_on(stream, [] { CHECK(false); });
  fail_on(stream, "second failure");
  gate.open();
  bool flag = false;
  const auto check = [&](const Error& error) {
    CHECK_CODE(error, OperatorFailed);
    CHECK_HAS(error.message(), "first failure");
    CHECK_HAS(error.message(), "aclnnBroken");
    CHECK_HAS(error.message(), stream.describe());
  };
  check(stream.synchronize());
  check(stream.synchronize());
  check(other.synchronize());
  check(context.synchronize());
  check(other.query(&flag));
  check(event.synchronize());
  check(event.query(&flag));
  check(other.submit(task([] { CHECK(false); })));
  check(event.record(other));
  check(Graph::begin(other, CaptureMode::Global));
  check(context.first_error());
}

TEST(failure_stays_in_its_context, "") {
  Context& first = use_device(0);
  Context& second = use_device(1);
  Context* third = nullptr;
  CHECK_OK(Context::create(first.device(), &third));
  Stream& same_device = new_stream(*third);
  Stream& other_device = new_stream(second);
  fail_on(new_stream(first), "bad");
  CHECK_CODE(first.synchronize(), OperatorFailed);
  int ran = 0;
  run_on(same_device, [&] { ++ran; });
  run_on(other_device, [&] { ++ran; });
  CHECK_OK(third->synchronize());
  CHECK_OK(second.synchronize());
  CHECK_EQ(ran, 2);
  CHECK_OK(Context::destroy(*third));
}

TEST(failure_by_exception_is_an_operator_failure, "") {
  Stream& stream = new_stream(use_device());
  run_on(stream, [] { throw std::runtime_error("thrown inside"); }, "aclnnThrows");
  const Error error = stream.synchronize();
  CHECK_CODE(error, OperatorFailed);
  CHECK_HAS(error.message(), "thrown inside");
  CHECK_HAS(error.message(), "aclnnThrows");
}

TEST(failure_drops_replays, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  run_on(stream, [] { CHECK(false); });
  Graph& graph = end_capture(stream);
  Gate gate;
  gate.hold(stream);
  fail_on(stream, "bad");
  for (int i = 0; i < 5; ++i) CHECK_OK(graph.replay(stream));
  gate.open();
  CHECK_CODE(stream.synchronize(), OperatorFailed);
  CHECK_OK(graph.destroy());
}

TEST(hang_names_who_waits_for_whom, "SOFTNPU_HANG_SECONDS=0.3") {
  Context& context = use_device();
  Stream& first = new_stream(context);
  Stream& second = new_stream(context);
  Event& one = new_event(context, kEventExternal);
  Event& two = new_event(context, kEventExternal);
  CHECK_OK(two.wait(first));
  CHECK_OK(one.record(first));
  CHECK_OK(one.wait(second));
  CHECK_OK(two.record(second));
  const int64_t begin = Device::now_ns();
  const Error error = context.synchronize();
  CHECK(Device::now_ns() - begin < 3'000'000'000);
  CHECK_CODE(error, Hang);
  for (const auto& part : {first.describe(), second.describe(), one.describe(), two.describe(),
                           std::string("SOFTNPU_HANG_SECONDS")}) {
    CHECK_HAS(error.message(), part);
  }
}

TEST(hang_is_noticed_by_a_query_loop, "SOFTNPU_HANG_SECONDS=0.2") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  CHECK_OK(new_event(context, kEventExternal).wait(stream));
  bool idle = false;
  Error error;
  while (!error.failed()) {
    error = stream.query(&idle);
    usleep(1'000);
  }
  CHECK_CODE(error, Hang);
}

TEST(hang_is_not_seen_between_two_lone_queries, "SOFTNPU_HANG_SECONDS=0.1") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Gate gate;
  gate.hold(stream);
  bool idle = true;
  CHECK_OK(stream.query(&idle));
  usleep(300'000);  // the host had something else to do
  CHECK_OK(stream.query(&idle));
  gate.open();
  CHECK_OK(stream.synchronize());
}

TEST(hang_across_devices_is_reported, "SOFTNPU_HANG_SECONDS=0.3") {
  Context& first = use_device(0);
  Context& second = use_device(1);
  Stream& stuck = new_stream(first);
  Stream& waiter = new_stream(second);
  Event& never = new_event(first, kEventExternal);
  Event& event = new_event(first);
  CHECK_OK(never.wait(stuck));
  CHECK_OK(event.record(stuck));
  CHECK_OK(event.wait(waiter));
  const Error error = waiter.synchronize();
  CHECK_CODE(error, Hang);
  CHECK_HAS(error.message(), never.describe());
  CHECK_HAS(error.message(), stuck.describe());
  CHECK_CODE(stuck.synchronize(), Hang);
}

TEST(hang_across_devices_is_reported_under_a_seed, "SOFTNPU_HANG_SECONDS=0.3 SOFTNPU_SEED=1") {
  Context& first = use_device(0);
  Context& second = use_device(1);
  Stream& stuck = new_stream(first);
  Event& never = new_event(first, kEventExternal);
  Event& event = new_event(second);
  CHECK_OK(never.wait(stuck));
  CHECK_OK(event.record(stuck));
  CHECK_CODE(event.synchronize(), OperatorFailed);  // its record is lost with the stream's context
  CHECK_CODE(stuck.synchronize(), Hang);
}

TEST(hang_is_not_a_long_task, "SOFTNPU_HANG_SECONDS=0.1") {
  Context& context = use_device();
  run_on(new_stream(context), [] { usleep(400'000); });
  CHECK_OK(context.synchronize());
}

TEST(hang_is_not_a_long_task_on_another_device, "SOFTNPU_HANG_SECONDS=0.1") {
  Context& first = use_device(0);
  Context& second = use_device(1);
  Stream& producer = new_stream(first);
  Stream& consumer = new_stream(second);
  Event& event = new_event(first);
  run_on(producer, [] { usleep(400'000); });
  CHECK_OK(event.record(producer));
  CHECK_OK(event.wait(consumer));
  CHECK_OK(consumer.synchronize());
}
