// A CUDA library opened at run time. So our programs start on machines without it.
#pragma once

#include <string>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith {

// An open shared library. It stays open until the process ends: CUDA libraries start threads and register exit
// handlers, which crash when the library is unmapped. The object is a plain handle. Any thread may use it.
class CudaLibrary {
 public:
  // Opens the first of `names` ("libnvrtc.so.13", ...) that is found in: folders_of_program(),
  // $SPARSMITH_CUDA_LIBRARY_PATH (folders joined by ':'), the loader's own path, /usr/local/cuda*/lib64, and
  // wheel_folders_of_program(). The
  // programs of a build tree have .deps/cuda/lib of their source tree in the loader's path; installed programs do not.
  // Error: kNoDevice, with the folders that were searched, the loader's reason for refusing a file that exists, and
  // advice.
  static Result<CudaLibrary> open(const std::vector<std::string>& names);

  // Opens a library that this library later opens by its plain name. After this call the plain name works in this
  // process. The file is looked for in the folder of this library, which need not be in the loader's path, and then by
  // the loader. Error: as open().
  Result<CudaLibrary> open_companion(const std::string& name) const;

  // The address of a function; nullptr when this version of the library does not have it.
  void* find(const char* symbol) const;

  // Sets `function` to the function of that name. Error: kNoDevice when the library does not have it.
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

// The folder of a program, and the folder ../lib beside it. A folder is left out when everyone may write to it, or when
// it belongs to neither root, nor this user, nor the program's owner: another user could have put a library there.
std::vector<std::string> folders_of_program(const std::string& program);

// The folders of NVIDIA's wheels beside a program of the Python package: site-packages/nvidia/*/lib of
// site-packages/sparsmith/bin/<program>. PyTorch's CUDA libraries lie there. Empty for another program; folders are
// left out as above.
std::vector<std::string> wheel_folders_of_program(const std::string& program);

}  // namespace sparsmith
