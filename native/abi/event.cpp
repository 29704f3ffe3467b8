#include "event.h"

#include <string>

#include "acl_functions.h"
#include "process.h"

using namespace softnpu::abi;
using softnpu::Event;

namespace {

aclError create_event(aclrtEvent* event, uint32_t flag, const char* function) {
  softnpu::Context* context = nullptr;
  SN_FIND(find_context(function, &context));
  Event* created = nullptr;
  SN_FIND(report(context->create_event(flag, &created), function, __FILE__, __LINE__));
  *event = created;
  return kSuccess;
}

aclError find_event(aclrtEvent handle, const char* function, Event** out) {
  SN_FIND(check_not_forked(function));
  *out = handle == nullptr ? nullptr : Event::from_handle(handle);
  if (*out == nullptr) {
    return fail(kRtInvalidHandle, function, __FILE__, __LINE__,
                handle == nullptr ? "event is null" : "the handle is no live event");
  }
  return kSuccess;
}

std::string unknown_bits(uint32_t flag) {
  return "flag " + std::to_string(flag) + " has unknown bits";
}

}  // namespace

#define SN_EVENT(name, handle) \
  Event* name = nullptr;       \
  SN_FIND(find_event(handle, __func__, &name))

// torch_npu asks whether events between processes exist by creating one, and takes this number as
// "no".
#define SN_EVENT_FLAGS(flag)                                                                 \
  SN_REQUIRE(((flag) & ~static_cast<uint32_t>(ACL_EVENT_FLAGS_KNOWN)) == 0, kRtParamInvalid, \
             unknown_bits(flag));                                                            \
  SN_REQUIRE(((flag) & softnpu::kEventIpc) == 0, kRtFeatureNotSupported,                     \
             "events are not shared between processes (ACL_EVENT_IPC)")

aclError aclrtCreateEvent(aclrtEvent* event) {
  SN_NOT_NULL(event);
  return create_event(event, softnpu::kEventSync | softnpu::kEventTimeline, __func__);
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  SN_NOT_NULL(event);
  SN_EVENT_FLAGS(flag);
  return create_event(event, flag, __func__);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
  SN_NOT_NULL(event);
  SN_EVENT_FLAGS(flag);
  return create_event(event, flag, __func__);
}

aclError aclrtDestroyEvent(aclrtEvent event) {
  SN_EVENT(found, event);
  found->context().destroy_event(*found);
  return kSuccess;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  SN_EVENT(found, event);
  SN_STREAM(queue, stream);
  SN_RETURN(found->record(*queue));
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
  SN_EVENT(found, event);
  SN_STREAM(queue, stream);
  SN_RETURN(found->reset(*queue));
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status) {
  SN_NOT_NULL(status);
  SN_EVENT(found, event);
  bool complete = false;
  SN_TRY(found->query(&complete));
  *status = complete ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
  return kSuccess;
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  SN_NOT_NULL(status);
  SN_EVENT(found, event);
  bool complete = false;
  SN_TRY(found->query(&complete));
  *status = complete ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  return kSuccess;
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status) {
  SN_NOT_NULL(status);
  SN_EVENT(found, event);
  bool complete = false;
  SN_TRY(found->query(&complete));
  *status = complete ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
  return kSuccess;
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  SN_EVENT(found, event);
  SN_RETURN(found->synchronize());
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
  SN_REQUIRE(timeout >= -1, kRtParamInvalid,
             "timeout " + std::to_string(timeout) + " ms; -1 waits for ever");
  SN_EVENT(found, event);
  const softnpu::Error error = found->synchronize(timeout);
  if (error.code() == softnpu::Code::SyncTimeout) {
    SN_FAIL(kRtEventSyncTimeout, error.message());  // streams have another number
  }
  SN_RETURN(error);
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  SN_NOT_NULL(ms);
  SN_EVENT(start, startEvent);
  SN_EVENT(end, endEvent);
  SN_RETURN(end->elapsed_since(*start, ms));
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t* timestamp) {
  SN_NOT_NULL(timestamp);
  SN_EVENT(found, event);
  SN_RETURN(found->timestamp_us(timestamp));
}

// Events are limited by memory alone.
aclError aclrtGetEventAvailNum(uint32_t* eventCount) {
  SN_NOT_NULL(eventCount);
  SN_CONTEXT(context);
  *eventCount = UINT32_MAX;
  return kSuccess;
}
