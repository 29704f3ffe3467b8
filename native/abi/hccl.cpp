// Collective communication refuses (generated), except for what torch_npu sets in programs that do
// not communicate.
#include <string>

#include "acl_functions.h"
#include "errors.h"

namespace {

constexpr HcclConfig kDeterministic = 0;
constexpr HcclResult kParameterError = 1;
constexpr HcclResult kNotSupported = 5;

}  // namespace

HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue) {
  SN_REQUIRE(config == kDeterministic, kNotSupported,
             "option " + std::to_string(config) + " is not implemented");
  SN_REQUIRE(configValue.value >= 0 && configValue.value <= 2, kParameterError,
             "value " + std::to_string(configValue.value) + "; 0 to 2");
  return 0;
}
