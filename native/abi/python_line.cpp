#include "python_line.h"

#include <dlfcn.h>

#include <type_traits>

namespace softnpu::abi {
namespace {

// The functions of the Python that this process runs, if it runs one: nothing is linked to it.
struct Python {
  using Object = void*;
  int (*is_initialized)();
  void* (*this_thread_state)();
  int (*ensure)();
  void (*release)(int);
  Object (*current_frame)();
  Object (*back)(Object);
  Object (*code)(Object);
  int (*line)(Object);
  Object (*attribute)(Object, const char*);
  const char* (*text)(Object);
  void (*retain)(Object);
  void (*drop)(Object);
  void (*fetch)(Object*, Object*, Object*);
  void (*restore)(Object, Object, Object);

  bool load() {
    const auto find = [](const char* name, auto* function) {
      *function =
          reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(RTLD_DEFAULT, name));
      return *function != nullptr;
    };
    return find("Py_IsInitialized", &is_initialized) && is_initialized() &&
           find("PyGILState_GetThisThreadState", &this_thread_state) &&
           find("PyGILState_Ensure", &ensure) && find("PyGILState_Release", &release) &&
           find("PyEval_GetFrame", &current_frame) && find("PyFrame_GetBack", &back) &&
           find("PyFrame_GetCode", &code) && find("PyFrame_GetLineNumber", &line) &&
           find("PyObject_GetAttrString", &attribute) && find("PyUnicode_AsUTF8", &text) &&
           find("Py_IncRef", &retain) && find("Py_DecRef", &drop) && find("PyErr_Fetch", &fetch) &&
           find("PyErr_Restore", &restore);
  }

  std::string attribute_text(Object object, const char* name) const {
    Object value = attribute(object, name);
    const char* found = value ? text(value) : nullptr;
    std::string result = found ? found : "";
    if (value) drop(value);
    return result;
  }

  // "file:line in function", and whether the file is torch's.
  std::string place(Object frame, bool* in_torch) const {
    Object found = code(frame);
    const std::string file = attribute_text(found, "co_filename");
    const std::string function = attribute_text(found, "co_name");
    drop(found);
    *in_torch =
        file.find("/torch/") != std::string::npos || file.find("/torch_npu/") != std::string::npos;
    return file + ":" + std::to_string(line(frame)) + " in " + function;
  }

  std::string innermost() const {
    Object frame = current_frame();
    if (frame) retain(frame);
    std::string result;
    while (frame) {
      bool in_torch = false;
      result = place(frame, &in_torch);
      Object outer = in_torch ? back(frame) : nullptr;
      drop(frame);
      frame = outer;
    }
    return result;
  }
};

}  // namespace

std::string python_line() {
  Python python;
  if (!python.load() || !python.this_thread_state()) return {};
  // torch_npu has released Python's lock for the call. No lock of ours is held here.
  const int state = python.ensure();
  Python::Object error[3];
  python.fetch(&error[0], &error[1], &error[2]);
  const std::string place = python.innermost();
  python.restore(error[0], error[1], error[2]);
  python.release(state);
  return place.empty() ? place : " [" + place + "]";
}

}  // namespace softnpu::abi
