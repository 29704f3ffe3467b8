#include <unistd.h>

#include <cmath>
#include <thread>

#include "support.h"

using namespace test;

TEST(event_orders_two_streams, "") {
  Context& context = use_device();
  Stream& producer = new_stream(context);
  Stream& consumer = new_stream(context);
  Event& event = new_event(context);
  Gate gate;
  Trace trace;
  gate.hold(producer);
  trace.mark(producer, 'p');
  CHECK_OK(event.record(producer));
  CHECK_OK(event.wait(consumer));
  trace.mark(consumer, 'c');
  usleep(5'000);
  gate.open();
  CHECK_OK(context.synchronize());
  CHECK_EQ(trace.text(), "pc");
}

TEST(event_never_recorded_is_complete, "") {
  Context& context = use_device();
  Event& event = new_event(context);
  bool complete = false;
  CHECK_OK(event.query(&complete));
  CHECK(complete);
  CHECK_OK(event.synchronize());
  Stream& stream = new_stream(context);
  CHECK_OK(event.wait(stream));
  CHECK_OK(stream.synchronize());
}

TEST(event_wait_means_the_record_before_it, "") {
  Context& context = use_device();
  Stream& producer = new_stream(context);
  Stream& consumer = new_stream(context);
  Event& event = new_event(context);
  Gate later;
  CHECK_OK(event.record(producer));
  CHECK_OK(event.wait(consumer));
  later.hold(producer);
  CHECK_OK(event.record(producer));
  CHECK_OK(consumer.synchronize());  // does not wait for the second record
  bool complete = true;
  CHECK_OK(event.query(&complete));
  CHECK(!complete);
  later.open();
  CHECK_OK(event.synchronize());
}

TEST(event_synchronize_times_out, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Event& event = new_event(context);
  Gate gate;
  gate.hold(stream);
  CHECK_OK(event.record(stream));
  CHECK_CODE(event.synchronize(10), SyncTimeout);
  gate.open();
  CHECK_OK(event.synchronize(10'000));
}

TEST(event_synchronize_leaves_later_work, "SOFTNPU_SEED=1") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Event& event = new_event(context);
  int ran = 0;
  run_on(stream, [&] { ++ran; });
  CHECK_OK(event.record(stream));
  run_on(stream, [&] { ++ran; });
  CHECK_OK(event.synchronize());
  CHECK_EQ(ran, 1);
}

TEST(event_elapsed_time, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Event& start = new_event(context, kEventTimeline);
  Event& end = new_event(context, kEventTimeline);
  float ms = -1;
  CHECK_CODE(end.elapsed_since(start, &ms), EventTimestamp);
  CHECK_OK(start.record(stream));
  run_on(stream, [] { usleep(20'000); });
  CHECK_OK(end.record(stream));
  CHECK_OK(end.synchronize());
  CHECK_OK(end.elapsed_since(start, &ms));
  CHECK(ms >= 20 && ms < 2'000);
  uint64_t first = 0;
  uint64_t second = 0;
  CHECK_OK(start.timestamp_us(&first));
  CHECK_OK(end.timestamp_us(&second));
  CHECK(second - first >= 20'000);
}

TEST(event_destroyed_before_it_ran, "") {
  Context& context = use_device();
  Stream& producer = new_stream(context);
  Stream& consumer = new_stream(context);
  Event& event = new_event(context);
  Gate gate;
  Trace trace;
  gate.hold(producer);
  trace.mark(producer, 'p');
  CHECK_OK(event.record(producer));
  CHECK_OK(event.wait(consumer));
  trace.mark(consumer, 'c');
  context.destroy_event(event);
  CHECK(Event::from_handle(&event) == nullptr);
  gate.open();
  CHECK_OK(context.synchronize());
  CHECK_EQ(trace.text(), "pc");
}

TEST(event_across_devices, "") {
  Context& first = use_device(0);
  Context& second = use_device(1);
  Stream& producer = new_stream(first);
  Stream& consumer = new_stream(second);
  Event& event = new_event(first);
  Gate gate;
  std::atomic<bool> produced{false};
  bool seen = false;
  gate.hold(producer);
  run_on(producer, [&] { produced = true; });
  CHECK_OK(event.record(producer));
  CHECK_OK(event.wait(consumer));
  run_on(consumer, [&] { seen = produced; });
  usleep(5'000);
  gate.open();
  CHECK_OK(consumer.synchronize());
  CHECK(seen);
}

TEST(event_across_devices_under_a_seed, "SOFTNPU_SEED=5 SOFTNPU_HANG_SECONDS=0.3") {
  Context& first = use_device(0);
  Context& second = use_device(1);
  Stream& producer = new_stream(first);
  Stream& consumer = new_stream(second);
  Event& event = new_event(first);
  Trace trace;
  trace.mark(producer, 'p');
  CHECK_OK(event.record(producer));
  CHECK_OK(event.wait(consumer));
  trace.mark(consumer, 'c');
  CHECK_OK(consumer.synchronize());
  CHECK_EQ(trace.text(), "pc");
}

TEST(event_across_devices_is_quick, "") {
  Context& first = use_device(0);
  Context& second = use_device(1);
  Stream& one = new_stream(first);
  Stream& two = new_stream(second);
  Event& event = new_event(first);
  const int64_t begin = Device::now_ns();
  for (int i = 0; i < 200; ++i) {
    run_on(one, [] {});
    CHECK_OK(event.record(one));
    CHECK_OK(event.wait(two));
    CHECK_OK(event.record(two));
    CHECK_OK(event.wait(one));
  }
  CHECK_OK(first.synchronize());
  CHECK_OK(second.synchronize());
  CHECK(Device::now_ns() - begin < 5'000'000'000);
}

TEST(event_of_failed_work_fails_who_waits_elsewhere, "") {
  Context& first = use_device(0);
  Context& second = use_device(1);
  Stream& producer = new_stream(first);
  Stream& consumer = new_stream(second);
  Event& event = new_event(first);
  Gate gate;
  gate.hold(producer);
  fail_on(producer, "no luck");
  CHECK_OK(event.record(producer));
  CHECK_OK(event.wait(consumer));
  run_on(consumer, [] { CHECK(false); });
  gate.open();
  CHECK_CODE(first.synchronize(), OperatorFailed);
  const Error error = second.synchronize();
  CHECK(error.failed());
  CHECK_HAS(error.message(), event.describe());
}

TEST(event_external_is_a_flag, "") {
  Context& context = use_device();
  Stream& producer = new_stream(context);
  Stream& consumer = new_stream(context);
  Event& event = new_event(context, kEventExternal);
  Trace trace;
  CHECK_OK(event.wait(consumer));  // before any record: waits all the same
  CHECK_OK(event.reset(consumer));
  trace.mark(consumer, 'c');
  usleep(5'000);
  trace.mark(producer, 'p');
  CHECK_OK(producer.synchronize());
  CHECK_OK(event.record(producer));
  CHECK_OK(consumer.synchronize());
  CHECK_EQ(trace.text(), "pc");
  CHECK_OK(event.wait(consumer));  // the reset lowered it
  CHECK_CODE(consumer.synchronize(20), SyncTimeout);
  CHECK_OK(event.record(producer));
  CHECK_OK(consumer.synchronize());
}
