// Conditional nodes of a captured graph.
#include <string>
#include <vector>

#include "acl_functions.h"
#include "graph.h"
#include "process.h"

using namespace softnpu::abi;
using softnpu::Condition;
using softnpu::ConditionKind;
using softnpu::Graph;

namespace {

aclError find_condition(aclmdlRICondHandle handle, const char* function, Condition** out) {
  SN_FIND(check_not_forked(function));
  *out = handle == nullptr ? nullptr : Condition::from_handle(handle);
  if (*out == nullptr) {
    return fail(kRtInvalidHandle, function, __FILE__, __LINE__,
                "the handle is no condition of a live graph");
  }
  return kSuccess;
}

}  // namespace

aclError aclmdlRICondHandleCreate(aclmdlRI modelRI, uint32_t defaultLaunchValue,
                                  aclmdlRICondHandleFlag flag, aclmdlRICondHandle* handle) {
  SN_NOT_NULL(modelRI);
  SN_NOT_NULL(handle);
  SN_REQUIRE(flag == 0 || flag == ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, kRtParamInvalid,
             "flag " + std::to_string(flag) + "; 0, or 1 to set the default at every replay");
  SN_FIND(check_not_forked(__func__));
  Graph* graph = Graph::from_handle(modelRI);
  SN_REQUIRE(graph != nullptr, kRtInvalidHandle, "the handle is no live graph");
  Condition* condition = nullptr;
  SN_TRY(graph->create_condition(defaultLaunchValue,
                                 flag == ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, &condition));
  *handle = condition;
  return kSuccess;
}

aclError aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle, uint64_t** ptr) {
  SN_NOT_NULL(ptr);
  Condition* condition = nullptr;
  SN_FIND(find_condition(handle, __func__, &condition));
  *ptr = condition->cell;
  return kSuccess;
}

aclError aclmdlRIAddCondTask(aclmdlRICondTaskParams params, aclrtStream stream, uint32_t flags) {
  SN_REQUIRE(flags == 0, kRtParamInvalid, "flags " + std::to_string(flags) + "; must be 0");
  SN_REQUIRE(
      params.type >= ACL_MODEL_RI_COND_TYPE_IF && params.type <= ACL_MODEL_RI_COND_TYPE_SWITCH,
      kRtParamInvalid, "type " + std::to_string(params.type) + " is unknown");
  SN_REQUIRE(params.size <= 1024, kRtParamInvalid,
             "size " + std::to_string(params.size) + "; at most 1024 branches");
  SN_NOT_NULL(params.modelRIArray);
  Condition* condition = nullptr;
  SN_FIND(find_condition(params.handle, __func__, &condition));
  SN_STREAM(queue, stream);
  std::vector<Graph*> bodies(params.size);
  SN_TRY(Graph::add_conditional(*queue, *condition, static_cast<ConditionKind>(params.type),
                                params.size, bodies.data()));
  for (uint32_t i = 0; i < params.size; ++i) {
    params.modelRIArray[i] = bodies[i];
  }
  return kSuccess;
}
