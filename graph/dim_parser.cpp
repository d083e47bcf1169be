// The text of symbolic integers.
#include <algorithm>
#include <cctype>

#include "graph/dim.h"
#include "graph/dim_atom.h"

namespace attune {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == ':' || c == '?';
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::optional<Dim> parse() {
    auto d = sum();
    skip_spaces();
    return d && at_ == text_.size() ? d : std::nullopt;
  }

 private:
  static constexpr int kMaxDepth = 64;

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool take(std::string_view token) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  std::optional<Dim> sum() {
    if (++depth_ > kMaxDepth) return std::nullopt;
    const bool negative = take("-");
    auto left = product();
    if (left && negative) left = Dim(0) - *left;
    while (left) {
      const bool plus = take("+");
      if (!plus && !take("-")) break;
      const auto right = product();
      if (!right) return std::nullopt;
      left = plus ? *left + *right : *left - *right;
    }
    --depth_;
    return left;
  }

  std::optional<Dim> product() {
    auto left = power();
    while (left) {
      const bool times = take("*");
      if (!times && !take("//") && !take("/")) break;
      const auto right = power();
      if (!right) return std::nullopt;
      left = times ? *left * *right : Dim::floor_divide(*left, *right);
    }
    return left;
  }

  std::optional<Dim> power() {
    const auto base = atom();
    if (!base || !take("**")) return base;
    const auto exponent = atom();
    const auto times = exponent ? exponent->constant() : std::nullopt;
    if (!times || *times < 0 || *times > 16) return std::nullopt;
    Dim out(1);
    for (int64_t i = 0; i < *times; ++i) out = out * *base;
    return out;
  }

  std::optional<Dim> atom() {
    if (take("(")) {
      const auto d = sum();
      return d && take(")") ? d : std::nullopt;
    }
    if (take("'")) {
      const size_t end = text_.find('\'', at_);
      if (end == std::string_view::npos) return std::nullopt;
      const std::string_view name = text_.substr(at_, end - at_);
      at_ = end + 1;
      return Dim::symbol(std::string(name));
    }
    const size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    const std::string_view token = text_.substr(begin, at_ - begin);
    if (token.empty()) return std::nullopt;
    if (std::all_of(token.begin(), token.end(), is_digit))
      return token.size() > 18 ? std::nullopt : std::optional(Dim(std::stoll(std::string(token))));
    if (is_digit(token.front())) return std::nullopt;
    if (at_ < text_.size() && text_[at_] == '(') return call(token);
    return Dim::symbol(std::string(token));
  }

  std::optional<Dim> call(std::string_view function) {
    take("(");
    const auto a = sum();
    if (a && function == "floor") return take(")") ? a : std::nullopt;
    if (!a || !take(",")) return std::nullopt;
    const auto b = sum();
    if (!b || !take(")")) return std::nullopt;
    if (function == "min" || function == "Min") return Dim::minimum(*a, *b);
    if (function == "max" || function == "Max") return Dim::maximum(*a, *b);
    if (function == "mod" || function == "Mod" || function == "PythonMod") return Dim::modulo(*a, *b);
    return std::nullopt;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

bool is_expression(std::string_view text) { return Parser(text).parse().has_value(); }

Dim Dim::parse(std::string_view text) {
  if (text.empty() || text == "?") return {};
  Dim d;
  if (auto expression = Parser(text).parse(); expression && !expression->constant()) {
    d = std::move(*expression);
  } else {
    std::string name(text);
    std::replace(name.begin(), name.end(), '\'', '_');
    d = symbol(std::move(name));
  }
  if (d.to_string() != text) d.source_ = std::make_shared<const std::string>(text);
  return d;
}

}  // namespace attune
