// Alters tuned files as a forger would: the description stays JSON, tensors stay tensors, and hashes are repaired.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace sparsmith::fuzz {

using Json = nlohmann::ordered_json;

// A tuned file, taken apart. put_together() repairs the hashes of arrays, cubins, sources and description.
struct TunedFileParts {
  struct Tensor {
    std::string name;
    std::string dtype;
    std::string bytes;
  };
  Json description;
  std::vector<Tensor> tensors;
};

// Nothing where `file` is no safetensors file with a description.
std::optional<TunedFileParts> take_apart(std::string_view file);
std::string put_together(TunedFileParts parts);

// Changes one to three places of one packed array; false where there is none, or where nothing has changed.
bool alter_contents(TunedFileParts& parts, std::mt19937_64& random);
// Changes one to three places of the description, or bytes of a cubin; sometimes contents too.
bool alter_anything(TunedFileParts& parts, std::mt19937_64& random);

// Makes nnz, pattern and value hash of each weight what its packed arrays now hold, where they can be unpacked.
void repair_weights(TunedFileParts& parts);

}  // namespace sparsmith::fuzz
