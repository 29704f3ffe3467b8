// What the generator knows of an aclnn function, as constant data. Generated files include only
// this header, so that hundreds of functions compile in seconds.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "abi_names.h"
#include "objects.h"

struct aclOpExecutor;

namespace softnpu::ops {

class KernelInputs;
class NamedInputs;

// What a kernel that checks its arguments at the call leaves to be done by the device.
using PreparedRun = std::function<void()>;

// Kinds of the table's `acl` column.
enum class Kind : uint8_t {
  Tensor,
  OptTensor,
  Output,
  OptOutput,
  DynamicOutput,
  TensorList,
  OptTensorList,
  OutputList,
  Scalar,
  OptScalar,
  ScalarList,
  IntArray,
  OptIntArray,
  FloatArray,
  BoolArray,
  DType,
  Int,
  Real,
  Bool,
  String,
};

struct Param {
  const char* name;
  Kind kind;
};

// One C argument of a GetWorkspaceSize call, by the parameter's kind.
union Arg {
  const void* pointer;
  int64_t integer;
  double real;
};
inline Arg arg(const void* value) { return {.pointer = value}; }
inline Arg arg(int64_t value) { return {.integer = value}; }
inline Arg arg(int32_t value) { return {.integer = value}; }
inline Arg arg(int8_t value) { return {.integer = value}; }
inline Arg arg(uint64_t value) { return {.integer = static_cast<int64_t>(value)}; }
inline Arg arg(bool value) { return {.integer = value}; }
inline Arg arg(double value) { return {.real = value}; }
inline Arg arg(float value) { return {.real = value}; }

// How one argument of the ATen schema comes about.
enum class As : uint8_t {
  Value,          // the parameter, in the representation of its kind
  Out,            // an output tensor; given contiguous memory, copied if the real one is strided
  Contiguous,     // a tensor for an operator that takes dense row-major memory only
  Undefined,      // a parameter of kind OptTensor where the schema wants a Tensor
  WrappedNumber,  // a scalar where the schema wants a Tensor
  OptTensorList,  // a tensor list where the schema wants Tensor?[]
  Real,           // an integer or scalar where the schema wants a float
  Int,            // a scalar where the schema wants an int
  OptDType,       // an undefined dtype means None
  DTypeOf,        // the dtype of a tensor parameter
  First,          // one tensor where the schema wants a list
  Item,           // the value that a device tensor holds when the operator runs
  Generator,      // a generator seeded from parameters when the operator runs
  Pick,           // the text that an integer parameter selects; a null one is None
  None,
  ConstInt,
  ConstReal,
  ConstBool,
  ConstIntList,
  ConstString,
};

struct Source {
  As as;
  int16_t param = -1;
  int64_t integer = 0;            // ConstInt, ConstBool; the number of entries in `list`, `texts`
  double real = 0;                // ConstReal
  const int64_t* list = nullptr;  // ConstIntList; the parameters that seed a Generator
  const char* text = nullptr;     // ConstString
  const char* const* texts = nullptr;  // Pick
};

struct OpSpec {
  const char* name;  // "aclnnAdd"
  const Param* params;
  int params_count;
  const char* aten;  // "aten::add", or nullptr
  const char* overload;
  const Source* sources;
  int sources_count;
  const int16_t* copies;  // parameter that takes the i-th result; -1: none
  int copies_count;
  void (*kernel)(const KernelInputs&);                 // instead of `aten`
  const char* stub;                                    // why there is none
  PreparedRun (*prepare)(const NamedInputs&);          // or this: called when the call is recorded
  mutable std::atomic<const void*> resolved{nullptr};  // the dispatcher's entry, after first use
  mutable std::atomic<uint64_t> launches{0};
};

// Every row of the table, sorted by name.
extern const OpSpec* const all_specs[];
extern const int all_specs_count;

// The two phases of an aclnn call. `record` reports through the status code and the recent-error
// text; `launch` consumes the executor.
int record(const OpSpec& spec, const Arg* args, uint64_t* workspace_size,
           aclOpExecutor** executor) noexcept;
int launch(const OpSpec& spec, aclOpExecutor* executor, void* stream) noexcept;

}  // namespace softnpu::ops
