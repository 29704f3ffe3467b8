#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "acl_functions.h"
#include "plog.h"
#include "process.h"
#include "settings.h"

using namespace softnpu::abi;
using softnpu::settings;

namespace {

std::atomic<bool> initialized{false};

// The parts of the configuration that the device can act on. torch_npu passes a file with
// "defaultDevice" and a "dump_scene" for exceptions; all other dumps write data, which is not
// implemented.
aclError apply_configuration(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return fail(kInvalidFile, "aclInit", __FILE__, __LINE__, "can't read " + path);
  }
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  static const std::regex dump("\"(dump_path|dump_list|dump_op_switch|dump_debug)\"");
  std::smatch match;
  if (std::regex_search(text, match, dump)) {
    return fail(kInvalidDumpConfig, "aclInit", __FILE__, __LINE__,
                path + " asks for a data dump (" + match[1].str() +
                    "), which is not implemented; remove it");
  }
  static const std::regex device(
      "\"defaultDevice\"\\s*:\\s*\\{[^}]*\"default_device\"\\s*:\\s*\"(\\d{1,4})\"");
  if (std::regex_search(text, match, device)) {
    const int index = std::stoi(match[1].str());
    softnpu::Device* found = nullptr;
    SN_FIND(find_device(index, "aclInit", &found));
    set_default_device(index);
  }
  return kSuccess;
}

std::string describe_settings() {
  const softnpu::Settings& s = settings();
  return std::string("soc=") + s.soc.name + " devices=" + std::to_string(s.devices) +
         " hbm_bytes=" + std::to_string(s.hbm_bytes) + " threads=" + std::to_string(s.threads) +
         " stream_limit=" + std::to_string(s.stream_limit) +
         " seed=" + (s.seed ? std::to_string(*s.seed) : "none") + " cann=" + s.cann_version +
         " driver=" + s.driver_version;
}

}  // namespace

aclError aclInit(const char* configPath) {
  SN_FIND(check_not_forked(__func__));
  if (initialized.exchange(true)) {
    SN_FAIL(kRepeatInitialize, "already initialized in this process");
  }
  if (configPath != nullptr && *configPath != '\0') {
    if (aclError number = apply_configuration(configPath)) {
      initialized.store(false);
      return number;
    }
  }
  Plog::instance().run("softnpu init: " + describe_settings());
  return kSuccess;
}

// The device stays usable until the process ends: torch_npu finalizes first and destroys streams
// and events of other threads afterwards.
aclError aclFinalize() {
  if (!initialized.exchange(false)) {
    SN_FAIL(kRepeatFinalize, "not initialized, or finalized before");
  }
  set_default_device(-1);
  Plog::instance().run("softnpu finalize");
  Plog::instance().flush();
  return kSuccess;
}

aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t* value) {
  SN_NOT_NULL(value);
  switch (cannAttr) {
    case ACL_CANN_ATTR_INF_NAN:
    case ACL_CANN_ATTR_BF16:
      *value = 1;
      return kSuccess;
    case ACL_CANN_ATTR_JIT_COMPILE:
      *value = 0;
      return kSuccess;  // no operator compiler
    default:
      SN_FAIL(kRtParamInvalid, "attribute " + std::to_string(cannAttr) + " is unknown");
  }
}

// "8.5.0" in parts: major, minor, release.
aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion* version) {
  SN_NOT_NULL(version);
  SN_REQUIRE(name >= ACL_PKG_NAME_CANN && name <= ACL_PKG_NAME_DRIVER, kRtParamInvalid,
             "package " + std::to_string(name) + " is unknown");
  const std::string& text =
      name == ACL_PKG_NAME_DRIVER ? settings().driver_version : settings().cann_version;
  *version = {};
  std::snprintf(version->version, sizeof(version->version), "%s", text.c_str());
  char* const parts[] = {version->majorVersion, version->minorVersion, version->releaseVersion,
                         version->patchVersion};
  size_t begin = 0;
  for (char* part : parts) {
    if (begin > text.size()) {
      break;
    }
    const size_t end = std::min(text.find('.', begin), text.size());
    std::snprintf(part, ACL_PKG_VERSION_PARTS_MAX_SIZE, "%s",
                  text.substr(begin, end - begin).c_str());
    begin = end + 1;
  }
  return kSuccess;
}

// All packages have the toolkit's version. The buffer is ACL_PKG_VERSION_MAX_SIZE long.
aclError aclsysGetVersionStr(char* pkgName, char* versionStr) {
  SN_NOT_NULL(pkgName);
  SN_NOT_NULL(versionStr);
  const bool driver = std::strcmp(pkgName, "driver") == 0;
  std::snprintf(versionStr, ACL_PKG_VERSION_MAX_SIZE, "%s",
                (driver ? settings().driver_version : settings().cann_version).c_str());
  return kSuccess;
}
