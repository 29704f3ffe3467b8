// Rows of 16-bit floats as the attention operators need them: converted to fp32, multiplied, added.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

namespace softnpu::ops::attention {

// One set of functions per dtype (fp16 or bf16), the fastest that this machine can run.
struct RowFunctions {
  void (*load)(const uint16_t* from, float* to, int64_t size);
  void (*store)(const float* from, float factor, uint16_t* to, int64_t size);  // rounds to nearest
  float (*dot)(const float* a, const float* b, int64_t size);
  void (*add_scaled)(float factor, const float* x, float* y, int64_t size);  // y += factor * x
  // Replaces x by exp(x - largest) and returns the sum; no x is above `largest`.
  float (*exponentials)(float* x, float largest, int64_t size);
};
const RowFunctions& row_functions(c10::ScalarType dtype);

}  // namespace softnpu::ops::attention
