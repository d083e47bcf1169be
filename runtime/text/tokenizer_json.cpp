// Hugging Face's tokenizer.json: added tokens, normalizer, pre-tokenizer, model, post-processor, decoder.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "graph/error.h"
#include "runtime/json_fault.h"
#include "runtime/text/normalizer.h"
#include "runtime/text/pre_tokenizer.h"
#include "runtime/text/subword_model.h"
#include "runtime/text/token_decoder.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/unicode.h"

namespace attune {
namespace {

using nlohmann::json;

struct AddedToken {
  int64_t id;
  std::string content;
  bool special, normalized, strip_left, strip_right, single_word;
};

// Ids before and after those of a single text.
struct Frame {
  std::vector<int64_t> before, after;
};

// A part of the file itself, not of a copy, so that faults say where they are; null if it isn't there.
const json& part(const json& j, const char* name) {
  static const json kNull;
  const auto it = j.find(name);
  return it == j.end() ? kNull : *it;
}

Frame post_processor(const json& j, const Vocabulary& vocabulary) {
  Frame f;
  if (j.is_null()) return f;
  const std::string type = j.at("type");
  if (type == "TemplateProcessing") {
    bool seen = false;
    for (const json& part : j.at("single")) {
      if (part.contains("Sequence")) {
        seen = true;
        continue;
      }
      const std::string name = part.at("SpecialToken").at("id");
      for (const json& id : j.at("special_tokens").at(name).at("ids"))
        (seen ? f.after : f.before).push_back(id.get<int64_t>());
    }
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    f.before.push_back(j.at("cls").at(1).get<int64_t>());
    f.after.push_back(j.at("sep").at(1).get<int64_t>());
  } else if (type == "Sequence") {
    for (const json& part : j.at("processors")) {
      const Frame inner = post_processor(part, vocabulary);
      f.before.insert(f.before.begin(), inner.before.begin(), inner.before.end());
      f.after.insert(f.after.end(), inner.after.begin(), inner.after.end());
    }
  } else if (type != "ByteLevel") {
    throw Error(Error::Kind::kUnsupported, fmt::format("post-processor '{}'", type));
  }
  return f;
}

class TokenizerJson : public Tokenizer {
 public:
  explicit TokenizerJson(const json& j)
      : normalizer_(make_normalizer(part(j, "normalizer"))),
        pre_tokenizer_(make_pre_tokenizer(part(j, "pre_tokenizer"))),
        model_(make_subword_model(j.at("model"))),
        decoder_(make_token_decoder(part(j, "decoder"))),
        frame_(post_processor(part(j, "post_processor"), model_->vocabulary())) {
    for (const auto& [piece, id] : model_->vocabulary()) pieces_[id] = piece;
    for (const json& t : j.value("added_tokens", json::array())) {
      AddedToken a{t.at("id").get<int64_t>(),    t.at("content"),          t.value("special", false),
                   t.value("normalized", false), t.value("lstrip", false), t.value("rstrip", false),
                   t.value("single_word", false)};
      pieces_[a.id] = a.content;
      if (a.special) special_.insert(a.id);
      // A token that the normalizer changes is looked for in normalised text, in its normalised form.
      if (a.normalized && normalizer_) a.content = normalizer_->run(a.content);
      if (a.content.empty()) continue;  // it is nowhere in a text
      (a.normalized ? normalized_ : raw_).push_back(std::move(a));
    }
  }

  std::vector<int64_t> encode(std::string_view text) const override {
    const std::string valid = unicode::encode(unicode::decode(text));
    std::vector<int64_t> ids = frame_.before;
    for (const Segment& s : split_added(valid, raw_, true)) {
      if (s.token) {
        ids.push_back(s.token->id);
        continue;
      }
      const std::string normal = normalizer_ ? normalizer_->run(s.text) : s.text;
      for (const Segment& inner : split_added(normal, normalized_, s.at_start)) {
        if (inner.token) {
          ids.push_back(inner.token->id);
        } else {
          std::vector<std::string> words{inner.text};
          if (pre_tokenizer_) words = pre_tokenizer_->run(std::move(words), inner.at_start);
          for (const std::string& w : words) model_->encode(w, ids);
        }
      }
    }
    ids.insert(ids.end(), frame_.after.begin(), frame_.after.end());
    return ids;
  }

  std::string decode(std::span<const int64_t> ids) const override {
    std::vector<std::string> tokens;
    for (const int64_t id : ids)
      if (const auto it = pieces_.find(id); it != pieces_.end() && !special_.contains(id)) tokens.push_back(it->second);
    std::string out;
    if (decoder_) {
      for (const std::string& t : decoder_->run(std::move(tokens))) out += t;
      return out;
    }
    return fmt::format("{}", fmt::join(tokens, " "));
  }

  std::string piece(int64_t id) const override {
    const auto it = pieces_.find(id);
    if (it == pieces_.end()) return fmt::format("<{}>", id);
    if (special_.contains(id) || !decoder_) return it->second;
    // A leading blank is lost where a piece is decoded as the first: put one before it.
    const auto alone = decoder_->run({it->second});
    std::string text;
    for (const std::string& t : alone) text += t;
    return text.empty() ? it->second : text;
  }

 private:
  struct Segment {
    const AddedToken* token = nullptr;
    std::string text;
    bool at_start = false;
  };

  // The added tokens in `text`, leftmost first and of those the longest, and what lies between them.
  static std::vector<Segment> split_added(const std::string& text, const std::vector<AddedToken>& tokens,
                                          bool at_start) {
    std::vector<Segment> out;
    size_t from = 0;
    const auto plain = [&](size_t end) {
      if (end > from) out.push_back({nullptr, text.substr(from, end - from), at_start && from == 0});
    };
    size_t at = 0;
    while (at < text.size() && !tokens.empty()) {
      size_t begin = std::string::npos;
      const AddedToken* found = nullptr;
      for (const AddedToken& t : tokens) {
        const size_t p = text.find(t.content, at);
        if (p == std::string::npos || (t.single_word && !stands_alone(text, p, p + t.content.size()))) continue;
        if (p < begin || (p == begin && t.content.size() > found->content.size())) {
          begin = p;
          found = &t;
        }
      }
      if (!found) break;
      size_t end = begin + found->content.size();
      size_t left = begin;
      if (found->strip_left)
        while (left > from && is_blank(text[left - 1])) --left;
      if (found->strip_right)
        while (end < text.size() && is_blank(text[end])) ++end;
      plain(left);
      out.push_back({found, {}, false});
      from = at = end;
    }
    plain(text.size());
    return out;
  }

  static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

  static bool stands_alone(const std::string& text, size_t begin, size_t end) {
    const std::u32string before = unicode::decode(std::string_view(text).substr(0, begin));
    const std::u32string after = unicode::decode(std::string_view(text).substr(end));
    return (before.empty() || !unicode::is_word(before.back())) && (after.empty() || !unicode::is_word(after.front()));
  }

  std::unique_ptr<Normalizer> normalizer_;
  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  std::unique_ptr<SubwordModel> model_;
  std::unique_ptr<TokenDecoder> decoder_;
  Frame frame_;
  std::vector<AddedToken> raw_, normalized_;
  std::unordered_map<int64_t, std::string> pieces_;
  std::unordered_set<int64_t> special_;
};

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer_json(const std::filesystem::path& file) {
  return within(file.string(), [&]() -> std::unique_ptr<Tokenizer> {
    std::ifstream in(file, std::ios::binary);
    if (!in) throw Error(Error::Kind::kIo, "can't be read");
    try {
      return std::make_unique<TokenizerJson>(json::parse(in));
    } catch (const json::exception& e) {
      throw Error(Error::Kind::kInvalidModel, json_fault(e));
    } catch (const std::out_of_range&) {
      throw Error(Error::Kind::kInvalidModel, "a merge or special token isn't in the vocabulary");
    }
  });
}

}  // namespace attune
