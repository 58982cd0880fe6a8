#include "tests/support/families/known_family.h"

namespace sparsmith::test {

std::map<std::string, KnownFamily>& known_families() {
  static std::map<std::string, KnownFamily> all;
  return all;
}

}  // namespace sparsmith::test
