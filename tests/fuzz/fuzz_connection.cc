// Addresses of databases: a message shows no password, whatever stands around it. The input is three lines: what goes
// before the password, the password, and what goes behind it.
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "history/connection.h"

namespace {

// As a URI holds it: every byte that is no letter or digit as %XX.
std::string escaped(std::string_view password) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string text;
  for (const char c : password) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      text += c;
    } else {
      text += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)sparsmith::without_password(text);
  (void)sparsmith::is_postgresql(text);
  (void)sparsmith::without_password(text, "\"" + text + "\" is wrong");

  const std::size_t first = text.find('\n');
  const std::size_t second = first == std::string::npos ? first : text.find('\n', first + 1);
  if (second == std::string::npos) return 0;
  const std::string password = escaped(std::string_view(text).substr(first + 1, second - first - 1));
  std::string user;
  for (const char c : text.substr(0, first)) user += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  const std::string tail = text.substr(second + 1);
  // A password that is part of anything else in the address is seen there, rightly.
  const std::string around = "postgresql://" + user + ":***@host/" + tail + "/db?sslmode=disable&password=&user=";
  if (password.size() < 4 || around.find(password) != std::string::npos) return 0;
  for (const std::string& address : {"postgresql://" + user + ":" + password + "@host/" + tail,
                                     "postgres://" + user + "@host/db?password=" + password,
                                     "postgres://host/db?sslmode=disable&password=" + password + "&user=" + user}) {
    if (sparsmith::without_password(address).find(password) != std::string::npos) std::abort();
  }
  return 0;
}
