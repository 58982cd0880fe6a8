// Built against the installed tree by install_test.sh: the headers stand alone and the symbols are exported.
#include <cstdio>

#include "sparsmith/data_type.h"
#include "sparsmith/status.h"

int main() {
  const sparsmith::Status status = sparsmith::not_found("nothing");
  std::printf("%s; fp16 takes %zu bytes\n", status.to_string().c_str(),
              sparsmith::size_of(sparsmith::DataType::kFloat16));
  return status.ok() ? 1 : 0;
}
