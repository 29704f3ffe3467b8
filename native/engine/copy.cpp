// Copies and fills between host and device.
#include <cstdio>
#include <cstring>
#include <vector>

#include "context.h"
#include "device.h"
#include "graph.h"
#include "memory.h"
#include "operations.h"

namespace softnpu {
namespace {

// Larger pageable sources are not staged: the call waits until the copy has run, as it always does
// for a pageable destination, which the caller may use or free as soon as the call returns.
constexpr size_t kStageLimit = size_t{1} << 20;

const char* kind_name(CopyKind kind) {
  switch (kind) {
    case CopyKind::HostToHost:
      return "host to host";
    case CopyKind::HostToDevice:
      return "host to device";
    case CopyKind::DeviceToHost:
      return "device to host";
    case CopyKind::DeviceToDevice:
      return "device to device";
    case CopyKind::Default:
      return "default";
  }
  return "?";
}

const DeviceMemory* owner(const void* address) {
  for (uint32_t i = 0; i < Device::count(); ++i) {
    const DeviceMemory& memory = Device::get(static_cast<int>(i))->memory();
    if (memory.find(address).size) return &memory;
  }
  return nullptr;
}

bool pinned(const void* address, size_t bytes) {
  return PinnedMemory::instance().contains(address, bytes);
}
bool to_device(CopyKind kind) {
  return kind == CopyKind::HostToDevice || kind == CopyKind::DeviceToDevice;
}
bool from_device(CopyKind kind) {
  return kind == CopyKind::DeviceToHost || kind == CopyKind::DeviceToDevice;
}

CopyKind resolve(CopyKind kind, const void* dst, const void* src) {
  if (kind != CopyKind::Default) return kind;
  const bool to = owner(dst);
  const bool from = owner(src);
  if (to) return from ? CopyKind::DeviceToDevice : CopyKind::HostToDevice;
  return from ? CopyKind::DeviceToHost : CopyKind::HostToHost;
}

Error check_side(const void* address, size_t bytes, bool device_side, const char* what,
                 CopyKind kind) {
  const DeviceMemory* memory = owner(address);
  if (device_side) {
    if (memory) {
      Error error = memory->check(address, bytes, what);
      return error.failed() ? Error{Code::InvalidParam, error.message()} : error;
    }
    char text[32];
    std::snprintf(text, sizeof text, "%p", address);
    return {Code::InvalidParam, std::string(what) + " " + text + " of a copy " + kind_name(kind) +
                                    " is not device memory."};
  }
  return Error::ok();
}

struct Geometry {
  void* dst;
  const void* src;
  size_t dst_pitch;
  size_t src_pitch;
  size_t width;
  size_t height;  // 1: one run of `width` bytes
  size_t dst_span() const { return height ? dst_pitch * (height - 1) + width : 0; }
  size_t src_span() const { return height ? src_pitch * (height - 1) + width : 0; }
  void run(const void* from) const {
    for (size_t row = 0; row < height; ++row) {
      std::memmove(static_cast<char*>(dst) + row * dst_pitch,
                   static_cast<const char*>(from) + row * src_pitch, width);
    }
  }
};

Error check_copy(const Geometry& shape, size_t dst_max, CopyKind kind) {
  if (!shape.width || !shape.height) return Error::ok();
  if (!shape.dst || !shape.src)
    return {Code::InvalidParam, "A copy needs a source and a destination."};
  if (shape.dst_span() > dst_max) {
    return {Code::InvalidParam, "A copy of " + std::to_string(shape.dst_span()) +
                                    " bytes does not fit the destination of " +
                                    std::to_string(dst_max) + "."};
  }
  if (Error error =
          check_side(shape.dst, shape.dst_span(), to_device(kind), "The destination", kind);
      error.failed()) {
    return error;
  }
  return check_side(shape.src, shape.src_span(), from_device(kind), "The source", kind);
}

class CopyTask : public Task {
 public:
  CopyTask(const Geometry& shape, CopyKind kind, const char* call, std::vector<char> staged)
      : shape_(shape), kind_(kind), call_(call), staged_(std::move(staged)) {}
  Step run(RunContext&) override {
    shape_.run(staged_.empty() ? shape_.src : staged_.data());
    return Step::Done;
  }
  TaskKind kind() const override { return TaskKind::Copy; }
  std::string name() const override { return call_; }
  std::string detail() const override {
    char text[128];
    std::snprintf(text, sizeof text, "%s, %zu bytes, %p from %p", kind_name(kind_),
                  shape_.width * shape_.height, shape_.dst, shape_.src);
    return text;
  }
  Error check_memory(const DeviceMemory&) const override {
    Error error;
    if (to_device(kind_))
      error = check_side(shape_.dst, shape_.dst_span(), true, "The destination", kind_);
    if (!error.failed() && from_device(kind_)) {
      error = check_side(shape_.src, shape_.src_span(), true, "The source", kind_);
    }
    return error;
  }

 private:
  const Geometry shape_;
  const CopyKind kind_;
  const std::string call_;
  const std::vector<char> staged_;  // a pageable source, read at the call
};

class FillTask : public Task {
 public:
  FillTask(void* dst, int value, size_t count) : dst_(dst), value_(value), count_(count) {}
  Step run(RunContext&) override {
    std::memset(dst_, value_, count_);
    return Step::Done;
  }
  TaskKind kind() const override { return TaskKind::Fill; }
  std::string name() const override { return "aclrtMemsetAsync"; }
  std::string detail() const override { return std::to_string(count_) + " bytes"; }
  Error check_memory(const DeviceMemory& memory) const override {
    return memory.check(dst_, count_, "aclrtMemsetAsync");
  }

 private:
  void* const dst_;
  const int value_;
  const size_t count_;
};

Error copy_now(Context& context, const Geometry& shape, size_t dst_max, CopyKind asked,
               const char* call) {
  if (Error error = Graph::check_unsafe_call(context, call); error.failed()) return error;
  if (context.broken()) return context.first_error();
  const CopyKind kind = resolve(asked, shape.dst, shape.src);
  if (Error error = check_copy(shape, dst_max, kind); error.failed()) return error;
  if (shape.width && shape.height) shape.run(shape.src);
  return Error::ok();
}

Error submit_copy(Stream& stream, const Geometry& shape, size_t dst_max, CopyKind asked,
                  const char* call) {
  const CopyKind kind = resolve(asked, shape.dst, shape.src);
  if (Error error = check_copy(shape, dst_max, kind); error.failed()) return error;
  if (!shape.width || !shape.height) return Error::ok();
  const bool pageable_source = !from_device(kind) && !pinned(shape.src, shape.src_span());
  const bool pageable_target = !to_device(kind) && !pinned(shape.dst, shape.dst_span());
  if (pageable_source || pageable_target) {
    if (Error error = Graph::check_pageable(stream, call); error.failed()) return error;
  }
  std::vector<char> staged;
  const bool blocks = pageable_target || (pageable_source && shape.src_span() > kStageLimit);
  if (pageable_source && !blocks) {
    const auto* bytes = static_cast<const char*>(shape.src);
    staged.assign(bytes, bytes + shape.src_span());
  }
  Error error = stream.submit(std::make_unique<CopyTask>(shape, kind, call, std::move(staged)));
  return blocks && !error.failed() ? stream.synchronize() : error;
}

Error check_fill(void* dst, size_t max, size_t count) {
  if (count > max) {
    return {Code::InvalidParam, "A fill of " + std::to_string(count) + " bytes does not fit the " +
                                    std::to_string(max) + " bytes of its destination."};
  }
  if (!count) return Error::ok();
  return check_side(dst, count, true, "The destination", CopyKind::HostToDevice);
}

}  // namespace

Error copy(Context& context, void* dst, size_t dst_max, const void* src, size_t count,
           CopyKind kind) {
  return copy_now(context, {dst, src, count, count, count, 1}, dst_max, kind, "aclrtMemcpy");
}

Error copy_async(Stream& stream, void* dst, size_t dst_max, const void* src, size_t count,
                 CopyKind kind, const char* call) {
  return submit_copy(stream, {dst, src, count, count, count, 1}, dst_max, kind, call);
}

Error copy_2d(Context& context, void* dst, size_t dst_pitch, const void* src, size_t src_pitch,
              size_t width, size_t height, CopyKind kind) {
  if (width > dst_pitch || width > src_pitch) {
    return {Code::InvalidParam, "A 2-D copy's width must not exceed its pitches."};
  }
  return copy_now(context, {dst, src, dst_pitch, src_pitch, width, height}, SIZE_MAX, kind,
                  "aclrtMemcpy2d");
}

Error copy_2d_async(Stream& stream, void* dst, size_t dst_pitch, const void* src, size_t src_pitch,
                    size_t width, size_t height, CopyKind kind) {
  if (width > dst_pitch || width > src_pitch) {
    return {Code::InvalidParam, "A 2-D copy's width must not exceed its pitches."};
  }
  return submit_copy(stream, {dst, src, dst_pitch, src_pitch, width, height}, SIZE_MAX, kind,
                     "aclrtMemcpy2dAsync");
}

Error fill(Context& context, void* dst, size_t max, int32_t value, size_t count) {
  if (Error error = Graph::check_unsafe_call(context, "aclrtMemset"); error.failed()) return error;
  if (context.broken()) return context.first_error();
  if (Error error = check_fill(dst, max, count); error.failed()) return error;
  if (count) std::memset(dst, value, count);
  return Error::ok();
}

Error fill_async(Stream& stream, void* dst, size_t max, int32_t value, size_t count) {
  if (Error error = check_fill(dst, max, count); error.failed()) return error;
  if (!count) return Error::ok();
  return stream.submit(std::make_unique<FillTask>(dst, value, count));
}

}  // namespace softnpu
