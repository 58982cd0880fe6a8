#include "history/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
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

// With its percent escapes undone.
std::string decoded(const std::string& address, const Span& span) {
  std::string text;
  for (std::size_t i = span.begin; i < span.end; ++i) {
    const char* const at = address.data() + i;
    unsigned byte = 0;
    const bool escape = *at == '%' && i + 2 < span.end && std::from_chars(at + 1, at + 3, byte, 16).ptr == at + 3;
    text += escape ? static_cast<char>(byte) : *at;
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

std::vector<Span> passwords_of(const std::string& address) {
  return is_uri(address) ? passwords_of_uri(address) : passwords_of_words(address);
}

// `text` with *** in place of each span; spans that overlap or touch are one.
std::string hidden(const std::string& text, std::vector<Span> spans) {
  std::ranges::sort(spans, {}, &Span::begin);
  std::string shown;
  std::size_t end = 0;  // of the spans before
  for (const Span& span : spans) {
    if (&span == &spans.front() || span.begin > end) shown += text.substr(end, span.begin - end).append(kHidden);
    end = std::max(end, span.end);
  }
  return shown + text.substr(end);
}

}  // namespace

std::int64_t sql_integer(const std::string& text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Status HistoryConnection::in_transaction(const std::function<Status()>& body) {
  Status done = run_script(dialect().begin);
  if (done.ok()) done = body();
  if (done.ok()) done = run_script("COMMIT");
  if (!done.ok()) static_cast<void>(run_script("ROLLBACK"));
  return done;
}

Result<std::vector<std::string>> HistoryConnection::tables() {
  return all(dialect().tables, {}, [](const SqlRow& row) { return row[0]; });
}

Result<std::int64_t> HistoryConnection::integer_of(const std::string& sql, const SqlValues& values) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<std::int64_t> found,
                             all(sql, values, [](const SqlRow& row) { return sql_integer(row[0]); }));
  if (found.empty()) return internal_error(name() + ": a query without an answer: " + sql);
  return found.front();
}

bool is_postgresql(const std::string& address) {
  return address.starts_with("postgresql://") || address.starts_with("postgres://");
}

std::string without_password(const std::string& address) { return hidden(address, passwords_of(address)); }

std::string without_password(const std::string& address, std::string message) {
  std::vector<std::string> secrets;
  for (const Span& span : passwords_of(address)) {
    for (const std::string& secret : {address.substr(span.begin, span.end - span.begin), decoded(address, span)})
      if (!secret.empty()) secrets.push_back(secret);
  }
  std::vector<Span> spans;
  for (const std::string& secret : secrets) {
    for (std::size_t at = 0; (at = message.find(secret, at)) != std::string::npos; ++at)
      spans.push_back({at, at + secret.size()});
  }
  message = hidden(message, spans);
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
