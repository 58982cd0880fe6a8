// A CUDA library opened at run time, so that every program of ours starts without it.
#pragma once

#include <string>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith {

// An open shared library. It stays open until the process ends: CUDA libraries start threads and register exit
// handlers that do not survive being unmapped. A plain handle; safe to use from any thread.
class CudaLibrary {
 public:
  // Opens the first of `names` ("libnvrtc.so.13", ...) found in: folders_of_program(), $SPARSMITH_CUDA_LIBRARY_PATH
  // (folders joined by ':'), the loader's own path, and /usr/local/cuda*/lib64. The programs of a build tree have
  // .deps/cuda/lib of their source tree in the loader's path; installed programs do not. Error: kNoDevice, with where
  // it was looked for, why the loader refused a file that is there, and what to do.
  static Result<CudaLibrary> open(const std::vector<std::string>& names);

  // Opens a library that this one later opens by its plain name, which works from then on in this process: from the
  // folder of this one's file, which need not be in the loader's path, or else by the loader. Error: as of open().
  Result<CudaLibrary> open_companion(const std::string& name) const;

  // The address of a function; nullptr when this version of the library has none of that name.
  void* find(const char* symbol) const;

  // Sets `function` to the function of that name. Error: kNoDevice when there is none.
  template <class Function>
  Status bind(const char* symbol, Function*& function) const {
    function = reinterpret_cast<Function*>(find(symbol));
    if (function == nullptr) return no_device(path_ + " has no " + symbol + "; a newer version is needed");
    return {};
  }

  const std::string& path() const { return path_; }

 private:
  CudaLibrary(std::string path, void* handle) : path_(std::move(path)), handle_(handle) {}
  std::string path_;
  void* handle_ = nullptr;
};

// The folder of a program and ../lib beside it. Left out: a folder that is writable by all, or that belongs to neither
// root, nor this user, nor the program's owner. Another user could have put a library there.
std::vector<std::string> folders_of_program(const std::string& program);

}  // namespace sparsmith
