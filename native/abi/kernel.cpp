#include "kernel.h"

#include <string>

#include "acl_functions.h"
#include "process.h"

using namespace softnpu::abi;
using softnpu::KernelBinary;
using softnpu::KernelFunction;

namespace {

aclError find_binary(aclrtBinHandle handle, const char* function, KernelBinary** out) {
  SN_FIND(check_not_forked(function));
  *out = handle == nullptr ? nullptr : KernelBinary::from_handle(handle);
  if (*out == nullptr) {
    return fail(kRtInvalidHandle, function, __FILE__, __LINE__,
                "the handle is no loaded kernel binary");
  }
  return kSuccess;
}

aclError launch(aclrtFuncHandle handle, uint32_t blocks, const void* args, size_t args_size,
                aclrtStream stream, const char* function) {
  KernelFunction* kernel =
      handle == nullptr ? nullptr : softnpu::kernel_function_from_handle(handle);
  if (kernel == nullptr) {
    return fail(kRtInvalidHandle, function, __FILE__, __LINE__,
                "the handle is no kernel function of a loaded binary");
  }
  if (args == nullptr && args_size > 0) {
    return fail(kRtParamInvalid, function, __FILE__, __LINE__, "the arguments are null");
  }
  softnpu::Stream* queue = nullptr;
  SN_FIND(find_stream(stream, function, &queue));
  return report(softnpu::launch_kernel(*queue, *kernel, blocks, args, args_size), function,
                __FILE__, __LINE__);
}

}  // namespace

aclError aclrtBinaryLoadFromData(const void* data, size_t length,
                                 const aclrtBinaryLoadOptions* options, aclrtBinHandle* binHandle) {
  SN_NOT_NULL(data);
  SN_NOT_NULL(binHandle);
  SN_REQUIRE(length > 0, kRtParamInvalid, "length is 0");
  SN_REQUIRE(options == nullptr || options->numOpt == 0 || options->options != nullptr,
             kRtParamInvalid, "options->options is null");
  SN_FIND(check_not_forked(__func__));
  KernelBinary* binary = nullptr;
  SN_TRY(KernelBinary::load(data, length, &binary));
  *binHandle = binary;
  return kSuccess;
}

aclError aclrtBinaryUnLoad(aclrtBinHandle binHandle) {
  KernelBinary* binary = nullptr;
  SN_FIND(find_binary(binHandle, __func__, &binary));
  SN_RETURN(binary->unload());
}

aclError aclrtBinaryGetFunction(const aclrtBinHandle binHandle, const char* kernelName,
                                aclrtFuncHandle* funcHandle) {
  SN_NOT_NULL(kernelName);
  SN_NOT_NULL(funcHandle);
  KernelBinary* binary = nullptr;
  SN_FIND(find_binary(binHandle, __func__, &binary));
  KernelFunction* function = nullptr;
  SN_TRY(binary->function(kernelName, &function));
  *funcHandle = function;
  return kSuccess;
}

aclError aclrtLaunchKernel(aclrtFuncHandle funcHandle, uint32_t numBlocks, const void* argsData,
                           size_t argsSize, aclrtStream stream) {
  return launch(funcHandle, numBlocks, argsData, argsSize, stream, __func__);
}

aclError aclrtLaunchKernelV2(aclrtFuncHandle funcHandle, uint32_t numBlocks, const void* argsData,
                             size_t argsSize, aclrtLaunchKernelCfg* cfg, aclrtStream stream) {
  SN_REQUIRE(cfg == nullptr || cfg->numAttrs == 0 || cfg->attrs != nullptr, kRtParamInvalid,
             "cfg->attrs is null");
  return launch(funcHandle, numBlocks, argsData, argsSize, stream, __func__);
}

aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle funcHandle, uint32_t numBlocks,
                                       aclrtStream stream, aclrtLaunchKernelCfg* cfg,
                                       void* hostArgs, size_t argsSize,
                                       aclrtPlaceHolderInfo* placeHolderArray,
                                       size_t placeHolderNum) {
  SN_REQUIRE(cfg == nullptr || cfg->numAttrs == 0 || cfg->attrs != nullptr, kRtParamInvalid,
             "cfg->attrs is null");
  SN_REQUIRE(placeHolderNum == 0 || placeHolderArray != nullptr, kRtParamInvalid,
             "placeHolderArray is null");
  SN_REQUIRE(placeHolderNum == 0, kFeatureUnsupported,
             "placeholders are not implemented: pass data that the kernel reads through device "
             "memory");
  return launch(funcHandle, numBlocks, hostArgs, argsSize, stream, __func__);
}
