#include <string>

#include "acl_functions.h"
#include "operations.h"
#include "process.h"

using namespace softnpu::abi;

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void* args) {
  SN_NOT_NULL(fn);
  SN_STREAM(queue, stream);
  SN_RETURN(softnpu::host_func(*queue, fn, args));
}

aclError aclrtLaunchCallback(aclrtCallback fn, void* userData, aclrtCallbackBlockType blockType,
                             aclrtStream stream) {
  SN_NOT_NULL(fn);
  SN_REQUIRE(blockType == ACL_CALLBACK_NO_BLOCK || blockType == ACL_CALLBACK_BLOCK, kRtParamInvalid,
             "blockType " + std::to_string(blockType) + " is unknown");
  SN_STREAM(queue, stream);
  SN_RETURN(softnpu::launch_callback(*queue, fn, userData, blockType == ACL_CALLBACK_BLOCK));
}

aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream) {
  SN_STREAM(queue, stream);
  SN_RETURN(softnpu::subscribe_report(threadId, *queue));
}

aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream) {
  SN_STREAM(queue, stream);
  SN_RETURN(softnpu::unsubscribe_report(threadId, *queue));
}

aclError aclrtProcessReport(int32_t timeout) {
  SN_REQUIRE(timeout >= -1, kRtParamInvalid,
             "timeout " + std::to_string(timeout) + " ms; -1 waits for ever");
  SN_FIND(check_not_forked(__func__));
  SN_RETURN(softnpu::process_report(timeout));
}
