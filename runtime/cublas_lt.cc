#include "runtime/cublas_lt.h"

#include <fmt/format.h>

#include <array>

#include "runtime/shared_library.h"

namespace sparsmith {
namespace {

Result<CublasLt> open_library() {
  // The first is the one whose header this was compiled with; the functions used are the same in both.
  constexpr std::array<const char*, 3> kNames = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
  const Result<SharedLibrary> library = SharedLibrary::open(kNames);
  if (!library.ok()) {
    return no_device(
        fmt::format("cuBLASLt, which weights that are kept dense need, was not found ({}): install the CUDA "
                    "toolkit's cuBLAS or put its folder in LD_LIBRARY_PATH",
                    library.status().message()));
  }
  CublasLt table;
#define SPARSMITH_LOAD(member, symbol_name)                                               \
  table.member = reinterpret_cast<decltype(table.member)>(library->symbol(#symbol_name)); \
  if (table.member == nullptr) return no_device(fmt::format("{} has no " #symbol_name, library->name()));
  SPARSMITH_CUBLAS_LT_FUNCTIONS(SPARSMITH_LOAD)
#undef SPARSMITH_LOAD
  return table;
}

}  // namespace

Status CublasLt::check(cublasStatus_t status, std::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  std::string message = fmt::format("cuBLASLt: {}: status {}", what, static_cast<int>(status));
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? unsupported(std::move(message)) : device_error(std::move(message));
}

Result<const CublasLt*> cublas_lt() {
  static const Result<CublasLt> table = open_library();
  if (!table.ok()) return table.status();
  return &*table;
}

}  // namespace sparsmith
