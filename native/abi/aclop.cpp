// The older operator interface. It is not implemented: attributes are accepted, so that the call
// that would execute can say which operator was wanted.
#include <map>
#include <string>

#include "acl_functions.h"
#include "errors.h"

using namespace softnpu::abi;

struct aclopAttr {
  std::map<std::string, std::string> values;
};

namespace {

aclError set(aclopAttr* attr, const char* name, const std::string& value, const char* function) {
  if (attr == nullptr || name == nullptr) {
    return fail(kInvalidParam, function, __FILE__, __LINE__, "attr or attrName is null");
  }
  attr->values[name] = value;
  return kSuccess;
}

template <typename T>
aclError set_list(aclopAttr* attr, const char* name, int count, const T* values,
                  const char* function) {
  if (count < 0 || (count > 0 && values == nullptr)) {
    return fail(kInvalidParam, function, __FILE__, __LINE__,
                "numValues is " + std::to_string(count) + " or values is null");
  }
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += std::to_string(values[i]) + " ";
  }
  return set(attr, name, text, function);
}

aclError refuse_operator(const char* type, const aclopAttr* attr, const char* function) {
  std::string attributes;
  if (attr != nullptr) {
    for (const auto& [name, value] : attr->values) {
      attributes += (attributes.empty() ? "" : ", ") + name + "=" + value;
    }
  }
  const std::string call = std::string(function) + "(" + (type == nullptr ? "?" : type) + ")";
  return fail(kApiNotSupported, call.c_str(), __FILE__, __LINE__,
              "softnpu does not implement the aclop interface of operators. torch_npu takes it for "
              "an operator without an aclnn function, or where one of the family is missing; "
              "`softnpu ops` lists what there is. Attributes: " +
                  (attributes.empty() ? "none" : attributes));
}

}  // namespace

aclopAttr* aclopCreateAttr() { return new aclopAttr; }
void aclopDestroyAttr(const aclopAttr* attr) { delete attr; }

aclError aclopSetAttrBool(aclopAttr* attr, const char* attrName, uint8_t attrValue) {
  return set(attr, attrName, attrValue != 0 ? "true" : "false", __func__);
}

aclError aclopSetAttrInt(aclopAttr* attr, const char* attrName, int64_t attrValue) {
  return set(attr, attrName, std::to_string(attrValue), __func__);
}

aclError aclopSetAttrFloat(aclopAttr* attr, const char* attrName, float attrValue) {
  return set(attr, attrName, std::to_string(attrValue), __func__);
}

aclError aclopSetAttrDataType(aclopAttr* attr, const char* attrName, aclDataType attrValue) {
  return set(attr, attrName, std::to_string(attrValue), __func__);
}

aclError aclopSetAttrString(aclopAttr* attr, const char* attrName, const char* attrValue) {
  SN_REQUIRE(attrValue != nullptr, kInvalidParam, "attrValue is null");
  return set(attr, attrName, attrValue, __func__);
}

aclError aclopSetAttrListBool(aclopAttr* attr, const char* attrName, int numValues,
                              const uint8_t* values) {
  return set_list(attr, attrName, numValues, values, __func__);
}

aclError aclopSetAttrListInt(aclopAttr* attr, const char* attrName, int numValues,
                             const int64_t* values) {
  return set_list(attr, attrName, numValues, values, __func__);
}

aclError aclopSetAttrListFloat(aclopAttr* attr, const char* attrName, int numValues,
                               const float* values) {
  return set_list(attr, attrName, numValues, values, __func__);
}

aclError aclopSetAttrListListInt(aclopAttr* attr, const char* attrName, int numLists,
                                 const int* numValues, const int64_t* const values[]) {
  SN_REQUIRE(numLists >= 0 && (numLists == 0 || (numValues != nullptr && values != nullptr)),
             kInvalidParam, "numLists is negative, or numValues or values is null");
  return set(attr, attrName, std::to_string(numLists) + " lists", __func__);
}

aclError aclopCompileAndExecute(const char* opType, int, const aclTensorDesc* const[],
                                const aclDataBuffer* const[], int, const aclTensorDesc* const[],
                                aclDataBuffer* const[], const aclopAttr* attr, aclopEngineType,
                                aclopCompileType, const char*, aclrtStream) {
  return refuse_operator(opType, attr, __func__);
}

aclError aclopCompileAndExecuteV2(const char* opType, int, aclTensorDesc*[], aclDataBuffer*[], int,
                                  aclTensorDesc*[], aclDataBuffer*[], aclopAttr* attr,
                                  aclopEngineType, aclopCompileType, const char*, aclrtStream) {
  return refuse_operator(opType, attr, __func__);
}
