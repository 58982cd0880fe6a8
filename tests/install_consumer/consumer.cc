// Built against the installed tree by install_test.sh: the headers stand alone and the symbols are exported.
#include <cstdio>

#include "sparsmith/data_type.h"
#include "sparsmith/status.h"
#include "sparsmith/tuned_model.h"

int main() {
  const sparsmith::Status status = sparsmith::not_found("nothing");
  std::printf("%s; fp16 takes %zu bytes\n", status.to_string().c_str(),
              sparsmith::size_of(sparsmith::DataType::kFloat16));
  // With a GPU the missing file is the error, without one the missing device.
  const auto device = sparsmith::Device::open();
  const sparsmith::Status load =
      device.ok() ? sparsmith::TunedModel::load("missing.safetensors", *device).status() : device.status();
  std::printf("%s\n", load.to_string().c_str());
  return status.ok() || load.ok() ? 1 : 0;
}
