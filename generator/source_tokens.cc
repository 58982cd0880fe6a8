#include "generator/source_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace sparsmith {
namespace {

constexpr auto npos = std::string_view::npos;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_identifier_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_identifier_part(char c) { return is_identifier_start(c) || is_digit(c); }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r'; }

bool is_literal_prefix(std::string_view text) {
  return text == "L" || text == "u" || text == "U" || text == "u8" || text == "R" || text == "LR" || text == "uR" ||
         text == "UR" || text == "u8R";
}

// Longest first.
constexpr std::array<std::string_view, 27> kPunctuators = {"<<=", ">>=", "...", "->*", "<=>", "::", ".*", "->", "++",
                                                           "--",  "<<",  ">>",  "<=",  ">=",  "==", "!=", "&&", "||",
                                                           "+=",  "-=",  "*=",  "/=",  "%=",  "&=", "|=", "^=", "##"};

// The source after line continuations are spliced out, and where each character came from.
class SplicedText {
 public:
  explicit SplicedText(std::string_view source) {
    characters_.reserve(source.size());
    offsets_.reserve(source.size() + 1);
    for (std::size_t i = 0; i < source.size();) {
      if (const std::size_t length = continuation(source, i); length > 0) {
        i += length;
        continue;
      }
      characters_.push_back(source[i]);
      offsets_.push_back(i++);
    }
    offsets_.push_back(source.size());
  }

  std::size_t size() const { return characters_.size(); }
  char at(std::size_t index) const { return index < characters_.size() ? characters_[index] : '\0'; }
  std::string_view view() const { return characters_; }
  std::size_t offset(std::size_t index) const { return offsets_[index]; }

  // The first character that came from `offset` or behind it.
  std::size_t index_of(std::size_t offset) const {
    return static_cast<std::size_t>(std::lower_bound(offsets_.begin(), offsets_.end(), offset) - offsets_.begin());
  }

 private:
  // Bytes of the line continuation at `i`; 0: none.
  static std::size_t continuation(std::string_view source, std::size_t i) {
    if (source.substr(i, 2) == "\\\n") return 2;
    if (source.substr(i, 3) == "\\\r\n") return 3;
    return 0;
  }

  std::string characters_;
  std::vector<std::size_t> offsets_;
};

class Scanner {
 public:
  explicit Scanner(std::string_view source) : source_(source), text_(source) {}

  std::vector<SourceToken> scan() {
    while (next_ < text_.size()) {
      if (!skip_blank()) scan_token();
    }
    if (in_directive_) push(SourceToken::Kind::kDirectiveEnd, next_, next_);
    return std::move(tokens_);
  }

 private:
  using Kind = SourceToken::Kind;

  // Passes one blank, line break or comment, if there is one.
  bool skip_blank() {
    const char c = text_.at(next_);
    if (c == '\n') {
      if (in_directive_) push(Kind::kDirectiveEnd, next_, next_);
      in_directive_ = false;
      line_has_token_ = false;
      ++next_;
    } else if (is_blank(c)) {
      ++next_;
    } else if (c == '/' && text_.at(next_ + 1) == '/') {
      next_ = std::min(text_.view().find('\n', next_), text_.size());
    } else if (c == '/' && text_.at(next_ + 1) == '*') {
      const std::size_t end = text_.view().find("*/", next_ + 2);
      next_ = end == npos ? text_.size() : end + 2;
    } else {
      return false;
    }
    after_blank_ = true;
    return true;
  }

  void scan_token() {
    const std::size_t begin = next_;
    const char c = text_.at(begin);
    if (c == '#' && !line_has_token_) {
      in_directive_ = true;
      push(Kind::kDirectiveBegin, begin, begin + 1);
    } else if (is_digit(c) || (c == '.' && is_digit(text_.at(begin + 1)))) {
      push(Kind::kNumber, begin, end_of_number(begin));
    } else if (is_identifier_start(c)) {
      scan_identifier_or_literal(begin);
    } else if (c == '"' || c == '\'') {
      scan_literal(begin, begin);
    } else {
      push(Kind::kPunctuator, begin, begin + punctuator_length(begin));
    }
  }

  std::size_t end_of_identifier(std::size_t index) const {
    while (is_identifier_part(text_.at(index))) ++index;
    return index;
  }

  // A preprocessing number: 1'000u, 0x1p-3, 1.5e+10f.
  std::size_t end_of_number(std::size_t index) const {
    while (true) {
      const char c = text_.at(index);
      const char following = text_.at(index + 1);
      const bool exponent = c == 'e' || c == 'E' || c == 'p' || c == 'P';
      const bool signed_exponent = exponent && (following == '+' || following == '-');
      const bool separator = c == '\'' && is_identifier_part(following);
      if (signed_exponent || separator) {
        index += 2;
      } else if (c == '.' || is_identifier_part(c)) {
        ++index;
      } else {
        return index;
      }
    }
  }

  void scan_identifier_or_literal(std::size_t begin) {
    const std::size_t end = end_of_identifier(begin);
    const std::string_view word = text_.view().substr(begin, end - begin);
    const char quote = text_.at(end);
    if ((quote == '"' || (quote == '\'' && word.back() != 'R')) && is_literal_prefix(word)) {
      scan_literal(begin, end);
    } else {
      push(Kind::kIdentifier, begin, end);
    }
  }

  // The literal whose prefix begins at `begin` and whose quote stands at `quote`.
  void scan_literal(std::size_t begin, std::size_t quote) {
    const bool raw = quote > begin && text_.at(quote - 1) == 'R';
    const std::size_t end = raw ? end_of_raw_string(quote) : end_of_quoted(quote);
    push(text_.at(quote) == '"' ? Kind::kString : Kind::kCharacter, begin, end_of_identifier(end));
    if (raw) {  // inside of it a line continuation is text
      SourceToken& token = tokens_.back();
      token.text = source_.substr(token.begin, token.end - token.begin);
    }
  }

  std::size_t end_of_quoted(std::size_t quote) const {
    std::size_t index = quote + 1;
    while (index < text_.size() && text_.at(index) != '\n') {
      if (text_.at(index) == text_.at(quote)) return index + 1;
      index += text_.at(index) == '\\' && text_.at(index + 1) != '\n' ? 2 : 1;
    }
    return std::min(index, text_.size());
  }

  std::size_t end_of_raw_string(std::size_t quote) const {
    const std::size_t opening = text_.offset(quote);
    const std::size_t parenthesis = source_.find('(', opening);
    if (parenthesis == npos) return text_.size();
    const std::string_view delimiter = source_.substr(opening + 1, parenthesis - opening - 1);
    const std::string closing = fmt::format("){}\"", delimiter);
    const std::size_t end = source_.find(closing, parenthesis);
    return end == npos ? text_.size() : text_.index_of(end + closing.size());
  }

  std::size_t punctuator_length(std::size_t begin) const {
    const std::string_view rest = text_.view().substr(begin, 3);
    for (const std::string_view punctuator : kPunctuators) {
      if (rest.starts_with(punctuator)) return punctuator.size();
    }
    return 1;
  }

  void push(Kind kind, std::size_t begin, std::size_t end) {
    const std::size_t first = text_.offset(begin);
    // The end in the source: behind the last character, which excludes a line continuation that follows it.
    const std::size_t last = end > begin ? text_.offset(end - 1) + 1 : first;
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(counted_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(first), '\n'));
    counted_ = first;
    tokens_.push_back({kind, std::string(text_.view().substr(begin, end - begin)), line_, first, last, after_blank_});
    line_has_token_ = true;
    after_blank_ = false;
    next_ = end;
  }

  std::string_view source_;
  SplicedText text_;
  std::vector<SourceToken> tokens_;
  std::size_t next_ = 0;     // of text_
  std::size_t counted_ = 0;  // bytes of source_ whose line breaks are in line_
  int line_ = 1;
  bool in_directive_ = false;
  bool line_has_token_ = false;
  bool after_blank_ = true;
};

}  // namespace

std::vector<SourceToken> scan_source(std::string_view source) { return Scanner(source).scan(); }

std::string normalized_source(std::string_view source) {
  // Tokens are set apart by one blank, directives by line breaks. What a #define's name touches says whether it takes
  // arguments, so that there the blank counts.
  std::string normalized;
  std::size_t directive_begin = npos;
  const std::vector<SourceToken> tokens = scan_source(source);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const SourceToken& token = tokens[i];
    if (token.kind == SourceToken::Kind::kDirectiveBegin) directive_begin = i;
    const bool opens_macro_parameters = directive_begin != npos && i == directive_begin + 3 && token.text == "(" &&
                                        tokens[directive_begin + 1].text == "define" && !token.after_blank;
    if (token.kind == SourceToken::Kind::kDirectiveBegin || token.kind == SourceToken::Kind::kDirectiveEnd) {
      normalized += '\n';
    } else if (!opens_macro_parameters) {
      normalized += ' ';
    }
    if (token.kind == SourceToken::Kind::kDirectiveEnd) directive_begin = npos;
    normalized += token.text;
  }
  return normalized;
}

}  // namespace sparsmith
