// Where in a Python program the calling thread is, for messages about what the program did wrong.
#pragma once

#include <string>

namespace softnpu::abi {

// " [program.py:12 in step]": the innermost line outside torch and torch_npu. Empty in a thread
// that runs no Python, such as torch_npu's queue thread, and in a process without Python.
std::string python_line();

}  // namespace softnpu::abi
