#include "stream.h"

#include <string>

#include "acl_functions.h"
#include "event.h"
#include "operations.h"
#include "process.h"

using namespace softnpu::abi;
using softnpu::Context;
using softnpu::Error;
using softnpu::Event;
using softnpu::Stream;

aclError aclrtCreateStream(aclrtStream* stream) {
  SN_NOT_NULL(stream);
  SN_CONTEXT(context);
  Stream* created = nullptr;
  SN_TRY(context->create_stream(0, &created));
  *stream = created;
  return kSuccess;
}

// The lowest of the eight priorities is 7; execution does not depend on it.
aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag) {
  SN_NOT_NULL(stream);
  SN_REQUIRE(priority <= 7, kRtParamInvalid,
             "priority " + std::to_string(priority) + "; 0 (highest) to 7");
  SN_REQUIRE((flag & ~static_cast<uint32_t>(ACL_STREAM_FLAGS_KNOWN)) == 0, kRtParamInvalid,
             "flag " + std::to_string(flag) + " has unknown bits");
  SN_CONTEXT(context);
  Stream* created = nullptr;
  SN_TRY(context->create_stream(flag, &created));
  *stream = created;
  return kSuccess;
}

aclError aclrtDestroyStream(aclrtStream stream) {
  SN_NOT_NULL(stream);
  SN_STREAM(queue, stream);
  SN_RETURN(queue->context().destroy_stream(*queue, false));
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
  SN_NOT_NULL(stream);
  SN_STREAM(queue, stream);
  SN_RETURN(queue->context().destroy_stream(*queue, true));
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
  SN_STREAM(queue, stream);
  SN_RETURN(queue->synchronize());
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  SN_REQUIRE(timeout >= -1, kRtParamInvalid,
             "timeout " + std::to_string(timeout) + " ms; -1 waits for ever");
  SN_STREAM(queue, stream);
  SN_RETURN(queue->synchronize(timeout));
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  SN_NOT_NULL(status);
  SN_STREAM(queue, stream);
  bool idle = false;
  SN_TRY(queue->query(&idle));
  *status = idle ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  return kSuccess;
}

aclError aclrtStreamGetId(aclrtStream stream, int32_t* streamId) {
  SN_NOT_NULL(streamId);
  SN_STREAM(queue, stream);
  *streamId = static_cast<int32_t>(queue->id());
  return kSuccess;
}

aclError aclrtGetStreamAvailableNum(uint32_t* streamCount) {
  SN_NOT_NULL(streamCount);
  SN_CONTEXT(context);
  *streamCount = Context::streams_available(context->device());
  return kSuccess;
}

// 0 continues after a failed task, 1 stops: here an error always stops the context.
aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
  SN_NOT_NULL(stream);
  SN_REQUIRE(mode <= 1, kRtParamInvalid, "mode " + std::to_string(mode) + " is unknown");
  SN_STREAM(queue, stream);
  SN_REQUIRE(mode == 1, kFeatureUnsupported,
             "ACL_CONTINUE_ON_FAILURE is not implemented: the first error stops the context");
  return kSuccess;
}

aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag) {
  SN_REQUIRE(flag <= 1, kRtParamInvalid, "flag " + std::to_string(flag) + " is unknown");
  SN_STREAM(queue, stream);
  SN_REQUIRE(flag == 0, kFeatureUnsupported,
             "overflow detection is not implemented: the device computes in inf/nan mode, look for "
             "inf and nan in the results");
  return kSuccess;
}

aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t* flag) {
  SN_NOT_NULL(flag);
  SN_STREAM(queue, stream);
  *flag = 0;
  return kSuccess;
}

aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                                 aclrtStreamAttrValue* value) {
  SN_NOT_NULL(value);
  switch (stmAttrType) {
    case ACL_STREAM_ATTR_FAILURE_MODE:
      return aclrtSetStreamFailureMode(stream, value->failureMode);
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
      return aclrtSetStreamOverflowSwitch(stream, value->overflowSwitch);
    case ACL_STREAM_ATTR_CACHE_OP_INFO: {
      // Asks for operators' shapes in the profiler's files; a dump of the graph has them anyway.
      SN_STREAM(queue, stream);
      SN_REQUIRE(value->cacheOpInfoSwitch <= 1, kRtParamInvalid, "cacheOpInfoSwitch is 0 or 1");
      return kSuccess;
    }
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
    case ACL_STREAM_ATTR_PRIORITY:
      SN_FAIL(kFeatureUnsupported, "stream attribute " + std::to_string(stmAttrType) +
                                       " is not implemented; leave it out");
  }
  SN_FAIL(kRtParamInvalid, "stream attribute " + std::to_string(stmAttrType) + " is unknown");
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  SN_STREAM(queue, stream);
  Event* found = Event::from_handle(event);
  SN_REQUIRE(found != nullptr, kRtInvalidHandle, "the handle is no live event");
  SN_RETURN(found->wait(*queue));
}

aclError aclrtValueWrite(void* devAddr, uint64_t value, uint32_t flag, aclrtStream stream) {
  SN_NOT_NULL(devAddr);
  SN_REQUIRE(flag == 0, kRtParamInvalid, "flag " + std::to_string(flag) + "; must be 0");
  SN_STREAM(queue, stream);
  SN_RETURN(softnpu::value_write(*queue, devAddr, value));
}

aclError aclrtValueWait(void* devAddr, uint64_t value, uint32_t flag, aclrtStream stream) {
  SN_NOT_NULL(devAddr);
  SN_REQUIRE(flag <= static_cast<uint32_t>(softnpu::ValueTest::Nor), kRtParamInvalid,
             "flag " + std::to_string(flag) + "; 0 to 3");
  SN_STREAM(queue, stream);
  SN_RETURN(softnpu::value_wait(*queue, devAddr, value, static_cast<softnpu::ValueTest>(flag)));
}

// Time-outs of the hardware's scheduler. Operators are not interrupted, and a wait that can never
// end is reported by the device itself, so the values have nothing to act on.
aclError aclrtSetOpWaitTimeout(uint32_t) { return kSuccess; }
aclError aclrtSetOpExecuteTimeOut(uint32_t) { return kSuccess; }

aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t* actualTimeout) {
  SN_NOT_NULL(actualTimeout);
  *actualTimeout = timeout;
  return kSuccess;
}
