#include <cstdlib>
#include <cstring>
#include <string>

#include "acl_functions.h"
#include "graph.h"
#include "plog.h"
#include "process.h"
#include "settings.h"

using namespace softnpu::abi;
using softnpu::CaptureMode;
using softnpu::Graph;

namespace {

// The device's own limit of a model's name, with its terminating zero.
constexpr size_t kNameBytes = 128;
// The first driver that updates task groups, by the documentation of the update functions.
constexpr unsigned long kUpdatingDriver = 25;

aclError find_graph(aclmdlRI handle, const char* function, Graph** out) {
  SN_FIND(check_not_forked(function));
  *out = handle == nullptr ? nullptr : Graph::from_handle(handle);
  if (*out == nullptr) {
    return fail(handle == nullptr ? kRtParamInvalid : kRtInvalidHandle, function, __FILE__,
                __LINE__,
                handle == nullptr ? "modelRI is null"
                                  : "the handle is no live graph: it was destroyed, its capture "
                                    "failed, or its device was reset");
  }
  return kSuccess;
}

bool known(aclmdlRICaptureMode mode) {
  return mode >= ACL_MODEL_RI_CAPTURE_MODE_GLOBAL && mode <= ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
}

}  // namespace

#define SN_GRAPH(name, handle) \
  Graph* name = nullptr;       \
  SN_FIND(find_graph(handle, __func__, &name))

#define SN_CAPTURE_MODE(mode)              \
  SN_REQUIRE(known(mode), kRtParamInvalid, \
             "capture mode " + std::to_string(mode) + " is unknown; 0, 1 or 2")

aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode) {
  SN_CAPTURE_MODE(mode);
  SN_STREAM(queue, stream);
  SN_RETURN(Graph::begin(*queue, static_cast<CaptureMode>(mode)));
}

aclError aclmdlRICaptureToModelRIBegin(aclrtStream stream, aclmdlRI modelRI,
                                       aclmdlRICaptureMode mode) {
  SN_CAPTURE_MODE(mode);
  SN_GRAPH(graph, modelRI);
  SN_STREAM(queue, stream);
  SN_RETURN(Graph::begin_into(*queue, *graph, static_cast<CaptureMode>(mode)));
}

aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI* modelRI) {
  SN_NOT_NULL(modelRI);
  SN_STREAM(queue, stream);
  Graph* graph = nullptr;
  const softnpu::Error error = Graph::end(*queue, &graph);
  *modelRI = graph;
  SN_RETURN(error);
}

aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus* status,
                                aclmdlRI* modelRI) {
  SN_REQUIRE(status != nullptr || modelRI != nullptr, kRtParamInvalid,
             "status and modelRI are null");
  SN_STREAM(queue, stream);
  Graph* graph = nullptr;
  const softnpu::CaptureStatus found = queue->capture_info(&graph);
  if (status != nullptr) {
    *status = static_cast<aclmdlRICaptureStatus>(found);
  }
  if (modelRI != nullptr) {
    *modelRI = graph;
  }
  return kSuccess;
}

aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode) {
  SN_NOT_NULL(mode);
  SN_CAPTURE_MODE(*mode);
  CaptureMode exchanged = static_cast<CaptureMode>(*mode);
  Graph::exchange_thread_mode(&exchanged);
  *mode = static_cast<aclmdlRICaptureMode>(exchanged);
  return kSuccess;
}

aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream) {
  SN_STREAM(queue, stream);
  SN_RETURN(Graph::group_begin(*queue));
}

aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp* handle) {
  SN_NOT_NULL(handle);
  SN_STREAM(queue, stream);
  SN_RETURN(Graph::group_end(*queue, handle));
}

aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle) {
  SN_NOT_NULL(handle);
  const std::string& driver = softnpu::settings().driver_version;
  SN_REQUIRE(std::strtoul(driver.c_str(), nullptr, 10) >= kUpdatingDriver, kRtFeatureNotSupported,
             "driver " + driver + " can't update a task group, 25.0 and later can " +
                 "(SOFTNPU_DRIVER_VERSION)");
  SN_STREAM(queue, stream);
  SN_RETURN(Graph::update_begin(*queue, handle));
}

aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream) {
  SN_STREAM(queue, stream);
  SN_RETURN(Graph::update_end(*queue));
}

aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream) {
  SN_GRAPH(graph, modelRI);
  SN_STREAM(queue, stream);
  SN_RETURN(graph->replay(*queue));
}

aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout) {
  SN_REQUIRE(timeout >= -1, kRtParamInvalid,
             "timeout " + std::to_string(timeout) + " ms; -1 waits for ever");
  SN_GRAPH(graph, modelRI);
  SN_RETURN(graph->execute(timeout));
}

aclError aclmdlRIDestroy(aclmdlRI modelRI) {
  SN_GRAPH(graph, modelRI);
  SN_RETURN(graph->destroy());
}

aclError aclmdlRIDestroyRegisterCallback(aclmdlRI modelRI, aclrtCallback func, void* userData) {
  SN_NOT_NULL(func);
  SN_GRAPH(graph, modelRI);
  SN_RETURN(graph->add_destroy_callback(func, userData));
}

aclError aclmdlRIDestroyUnregisterCallback(aclmdlRI modelRI, aclrtCallback func) {
  SN_NOT_NULL(func);
  SN_GRAPH(graph, modelRI);
  SN_RETURN(graph->remove_destroy_callback(func));
}

aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char* path, uint32_t flags) {
  SN_NOT_NULL(path);
  SN_REQUIRE(flags <= 1, kRtParamInvalid,
             "flags " + std::to_string(flags) + "; 0 for a summary, 1 for all");
  SN_GRAPH(graph, modelRI);
  SN_RETURN(graph->dump_json(path, flags == 1));
}

// The deprecated form has nowhere else to print than the log.
aclError aclmdlRIDebugPrint(aclmdlRI modelRI) {
  SN_GRAPH(graph, modelRI);
  Plog::instance().write(softnpu::LogLevel::Info, "RUNTIME", "graph",
                         "model_id=" + std::to_string(graph->id()) + " name=" + graph->name() +
                             " nodes=" + std::to_string(graph->node_count()));
  return kSuccess;
}

aclError aclmdlRIGetId(aclmdlRI modelRI, uint32_t* modelRIId) {
  SN_NOT_NULL(modelRIId);
  SN_GRAPH(graph, modelRI);
  *modelRIId = graph->id();
  return kSuccess;
}

aclError aclmdlRISetName(aclmdlRI modelRI, const char* name) {
  SN_NOT_NULL(name);
  SN_REQUIRE(std::strlen(name) < kNameBytes, kRtParamInvalid, "name has more than 127 bytes");
  SN_GRAPH(graph, modelRI);
  graph->set_name(name);
  return kSuccess;
}

aclError aclmdlRIGetName(aclmdlRI modelRI, uint32_t maxLen, char* name) {
  SN_NOT_NULL(name);
  SN_GRAPH(graph, modelRI);
  const std::string text = graph->name();
  SN_REQUIRE(text.size() < maxLen, kRtArrayTooShort,
             "maxLen " + std::to_string(maxLen) + " is too short, the name needs " +
                 std::to_string(text.size() + 1));
  std::memcpy(name, text.c_str(), text.size() + 1);
  return kSuccess;
}
