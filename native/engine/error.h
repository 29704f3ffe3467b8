// What can go wrong in the engine. Codes are the engine's own; native/abi maps them to ACL's
// numbers.
#pragma once

#include <string>
#include <utility>

namespace softnpu {

enum class Code {
  Ok,
  InvalidParam,          // an argument is null, out of range or of the wrong kind
  InvalidDevice,         // no such device
  NoContext,             // the calling thread has no current context
  WrongContext,          // the object belongs to another context
  InvalidHandle,         // not a live object of this kind
  OutOfMemory,           // of the SoC's size, or of what the machine can really give
  InvalidFree,           // not the start of a live allocation
  NoStreamResource,      // stream limit reached
  NoEventResource,       // no event left
  NoCallbackThread,      // no thread subscribed to the stream's callbacks
  ReportTimeout,         // no callback came in time
  EventTimestamp,        // the event has no usable timestamp
  NotComplete,           // a query that asks for a result found none yet
  StreamCaptured,        // illegal on a stream that captures
  ModelCaptured,         // illegal on a graph that is still being captured
  EventCaptured,         // illegal on an event recorded in a capture
  NotCaptured,           // the stream does not capture
  CaptureMode,           // refused by the capture mode
  CapturePageable,       // a captured copy with pageable host memory
  CaptureImplicit,       // the default stream can't join a capture
  CaptureDependency,     // wait on an event recorded before the capture
  CaptureUnjoined,       // a forked stream was not joined back
  CaptureConflict,       // two captures would merge
  CaptureUnmatched,      // end on a stream other than the one that began
  CaptureWrongThread,    // end on a thread other than the one that began
  CaptureInvalidated,    // an earlier error ended this capture
  BodyCapturing,         // a conditional body is still to be captured
  ModelRunning,          // the graph is being replayed
  TaskGroupStatus,       // task-group calls out of order
  TaskGroupInterrupted,  // another stream submitted inside a task group
  TaskGroupMismatch,     // the update does not match the captured group
  UpdateUnsupported,     // this kind of task can't be updated
  SyncTimeout,           // a synchronise with time-out ran out of time
  Hang,                  // a wait that can never end
  KernelException,       // a kernel accessed what it must not
  OperatorFailed,        // an operator failed on the device
  Aborted,               // the task was dropped because its context was reset
  KernelBinary,          // the kernel binary can't be loaded, or lacks the function
  Unsupported,           // not implemented; the message names it
  Internal,              // a defect of the engine
};

// An outcome with its explanation. The message says what happened, to which stream, task or
// operator, why, and what to do; it is empty exactly when the code is Ok.
class [[nodiscard]] Error {
 public:
  Error() = default;
  Error(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  static Error ok() { return {}; }

  bool failed() const { return code_ != Code::Ok; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::Ok;
  std::string message_;
};

}  // namespace softnpu
