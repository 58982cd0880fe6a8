#include "history/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

namespace sparsmith {
namespace {

constexpr std::string_view kHidden = "***";

// Characters [begin, end) of an address.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
};

int digit_of(char c) {
  return std::isxdigit(static_cast<unsigned char>(c)) == 0  ? -1
         : std::isdigit(static_cast<unsigned char>(c)) != 0 ? c - '0'
                                                            : std::tolower(c) - 'a' + 10;
}

// With its percent escapes undone.
std::string decoded(const std::string& address, const Span& span) {
  std::string text;
  for (std::size_t i = span.begin; i < span.end; ++i) {
    const bool escape =
        address[i] == '%' && i + 2 < span.end && digit_of(address[i + 1]) >= 0 && digit_of(address[i + 2]) >= 0;
    text += escape ? static_cast<char>(16 * digit_of(address[i + 1]) + digit_of(address[i + 2])) : address[i];
    if (escape) i += 2;
  }
  return text;
}

// "password", "sslpassword", "oauth_client_secret", in any case and with percent escapes.
bool names_a_secret(std::string key) {
  std::ranges::transform(key, key.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return key.find("pass") != std::string::npos || key.find("secret") != std::string::npos;
}

// Of "postgresql://user:password@host/database?password=...". The last @ ends the user's part, whatever stands in it:
// rather too much is hidden than too little.
std::vector<Span> passwords_of_uri(const std::string& address) {
  std::vector<Span> spans;
  const std::size_t host = address.find("://") + 3;
  const std::size_t at = address.rfind('@');
  const std::size_t colon = address.find(':', host);
  if (at != std::string::npos && at > host && colon < at) spans.push_back({colon + 1, at});
  for (std::size_t begin = address.find('?', host); begin != std::string::npos;
       begin = address.find_first_of("?&", begin)) {
    ++begin;
    const std::size_t end = std::min(address.find('&', begin), address.size());
    const std::size_t equals = address.find('=', begin);
    if (equals < end && names_a_secret(decoded(address, {begin, equals}))) spans.push_back({equals + 1, end});
  }
  return spans;
}

// Of "host=... password=..." and "password = '...'".
std::vector<Span> passwords_of_words(const std::string& address) {
  std::vector<Span> spans;
  const auto is_blank = [&](std::size_t i) { return std::isspace(static_cast<unsigned char>(address[i])) != 0; };
  for (std::size_t equals = address.find('='); equals != std::string::npos; equals = address.find('=', equals + 1)) {
    std::size_t key = equals;
    while (key > 0 && is_blank(key - 1)) --key;
    const std::size_t key_end = key;
    while (key > 0 && !is_blank(key - 1)) --key;
    std::size_t begin = equals + 1;
    while (begin < address.size() && is_blank(begin)) ++begin;
    if (!names_a_secret(address.substr(key, key_end - key))) continue;
    std::size_t end = begin;
    if (begin < address.size() && address[begin] == '\'') {
      ++end;
      while (end < address.size() && address[end] != '\'') end += address[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, address.size());
    }
    while (end < address.size() && !is_blank(end)) ++end;
    spans.push_back({begin, end});
  }
  return spans;
}

// Whether it begins with "scheme://", and is not a list of words that holds such a text.
bool is_uri(const std::string& address) {
  const std::size_t end = address.find("://");
  return end != std::string::npos && address.find_first_of("= \t'\"") > end;
}

// In ascending order, without overlaps.
std::vector<Span> passwords_of(const std::string& address) {
  std::vector<Span> spans = is_uri(address) ? passwords_of_uri(address) : passwords_of_words(address);
  std::ranges::sort(spans, {}, &Span::begin);
  std::vector<Span> merged;
  for (const Span& span : spans) {
    if (!merged.empty() && span.begin <= merged.back().end)
      merged.back().end = std::max(merged.back().end, span.end);
    else
      merged.push_back(span);
  }
  return merged;
}

}  // namespace

Result<std::int64_t> HistoryConnection::integer_of(const std::string& sql, std::initializer_list<SqlValue> values) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::unique_ptr<SqlRows> rows, query_with(sql, values));
  SPARSMITH_ASSIGN_OR_RETURN(const bool found, rows->next());
  if (!found) return internal_error(name() + ": a query without an answer: " + sql);
  return rows->integer(0);
}

Result<HistoryTransaction> HistoryTransaction::begin(HistoryConnection& connection) {
  SPARSMITH_RETURN_IF_ERROR(connection.begin());
  return HistoryTransaction(&connection);
}

Status HistoryTransaction::commit() {
  SPARSMITH_RETURN_IF_ERROR(connection_->commit());
  connection_ = nullptr;
  return {};
}

bool is_postgresql(const std::string& address) {
  return address.starts_with("postgresql://") || address.starts_with("postgres://");
}

std::string without_password(const std::string& address) {
  std::string shown;
  std::size_t at = 0;
  for (const Span& span : passwords_of(address)) {
    shown += address.substr(at, span.begin - at).append(kHidden);
    at = span.end;
  }
  return shown + address.substr(at);
}

std::string without_password(const std::string& address, std::string message) {
  std::vector<std::string> secrets;
  for (const Span& span : passwords_of(address)) {
    for (const std::string& secret : {address.substr(span.begin, span.end - span.begin), decoded(address, span)})
      if (!secret.empty()) secrets.push_back(secret);
  }
  std::vector<bool> hidden(message.size());
  for (const std::string& secret : secrets) {
    for (std::size_t at = 0; (at = message.find(secret, at)) != std::string::npos; ++at)
      std::fill_n(hidden.begin() + static_cast<std::ptrdiff_t>(at), secret.size(), true);
  }
  std::string shown;
  for (std::size_t i = 0; i < message.size(); ++i) {
    if (!hidden[i]) shown += message[i];
    if (hidden[i] && (i == 0 || !hidden[i - 1])) shown += kHidden;
  }
  message = shown;
  // libpq quotes the parts of an address that it cannot read; a part may be of a password.
  for (std::size_t begin = message.find('"'); begin != std::string::npos;) {
    const std::size_t end = message.find('"', begin + 1);
    if (end == std::string::npos) break;
    const std::string quoted = message.substr(begin + 1, end - begin - 1);
    const bool secret = !quoted.empty() && std::ranges::any_of(secrets, [&](const std::string& each) {
      return each.find(quoted) != std::string::npos;
    });
    if (secret) message.replace(begin + 1, quoted.size(), kHidden);
    begin = message.find('"', secret ? begin + kHidden.size() + 2 : end + 1);
  }
  return message;
}

Result<std::unique_ptr<HistoryConnection>> connect_history(const std::string& address, PerfStore::Mode mode) {
  if (is_postgresql(address)) return connect_postgresql(address, mode);
  if (!passwords_of(address).empty())
    return invalid_argument(fmt::format("{}: give a file, or a database as postgresql://USER:PASSWORD@HOST/DATABASE",
                                        without_password(address)));
  return connect_sqlite(address, mode);
}

#ifndef SPARSMITH_POSTGRESQL
Result<std::unique_ptr<HistoryConnection>> connect_postgresql(const std::string& address, PerfStore::Mode /*mode*/) {
  return unsupported(without_password(address) +
                     ": this sparsmith was built without PostgreSQL (libpq-dev was missing); give a file with --db");
}
#endif

}  // namespace sparsmith
