// What every exported function of the operators' library shares.
#pragma once

#define SOFTNPU_EXPORT extern "C" __attribute__((visibility("default")))

namespace softnpu::ops {

// aclnn status codes, as the public aclnn pages list them.
constexpr int kNullPointer = 161001;
constexpr int kParamInvalid = 161002;
constexpr int kRuntimeError = 361001;
constexpr int kInnerError = 561000;

}  // namespace softnpu::ops
