// The text that aclGetRecentErrMsg returns, kept by the runtime library.
#pragma once

#include <string>

#include "error.h"

extern "C" void softnpu_set_recent_error(const char* text);
extern "C" void softnpu_set_launch_error(const softnpu::Error& error);

namespace softnpu::ops {

inline int refuse(int code, const std::string& text) {
  softnpu_set_recent_error(text.c_str());
  return code;
}

}  // namespace softnpu::ops
