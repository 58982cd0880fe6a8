// Libraries that are opened when first needed, so that a program starts, and can say what is missing, without them.
#pragma once

#include <span>
#include <string>

#include "sparsmith/status.h"

namespace sparsmith {

// An opened library. It stays open until the process ends: functions of it may be in use in any thread.
// Thread-safe.
class SharedLibrary {
 public:
  // Opens the first of `names` that the dynamic linker finds. Error: kNoDevice, with every name and why it failed.
  static Result<SharedLibrary> open(std::span<const char* const> names);

  // The name it was opened by.
  const std::string& name() const { return name_; }

  // The address of a function, or null.
  void* symbol(const char* name) const;

 private:
  SharedLibrary(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}

  std::string name_;
  void* handle_;
};

}  // namespace sparsmith
