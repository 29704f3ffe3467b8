// The JSON form of a graph: Chrome-trace events, one per node. torch_npu's NPUGraph.debug_dump
// reads the file again and pairs EVENT_RECORD_n with EVENT_WAIT_n
// (torch_npu/npu/_npugraph_utils.py).
#include <cstdio>
#include <fstream>

#include "graph.h"

namespace softnpu {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", c);
      out += code;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

Error Graph::dump_json(const std::string& path, bool verbose) const {
  if (!captured()) {
    return {Code::ModelCaptured, describe() + " is still being captured. End the capture first."};
  }
  std::ofstream file(path);
  file << "[";
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const GraphNode& node = nodes_[i];
    const uint32_t stream = lane_ids_[static_cast<size_t>(node.lane)];
    // No durations are known: a node's place in the order is its time.
    file << (i ? ",\n" : "\n") << "{\"name\":" << quoted(node.task->name())
         << ",\"ph\":\"X\",\"pid\":" << quoted(describe()) << ",\"tid\":\"stream" << stream
         << "\",\"ts\":" << i << ",\"dur\":1,\"args\":{\"Model Id\":" << id_
         << ",\"Stream Id\":" << stream << ",\"Task Id\":" << i << ",\"Task Type\":\""
         << task_kind_name(node.task->kind()) << "\"";
    if (node.depends >= 0) file << ",\"Depends On Task\":" << node.depends;
    if (verbose && !node.task->detail().empty())
      file << ",\"Detail\":" << quoted(node.task->detail());
    file << "}}";
  }
  file << "\n]\n";
  file.close();
  if (file) return Error::ok();
  return {Code::InvalidParam,
          "The graph could not be written to " + path + ". The folder must exist and be writable."};
}

}  // namespace softnpu
