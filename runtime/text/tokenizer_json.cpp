// Hugging Face's tokenizer.json: added tokens, normalizer, pre-tokenizer, model, post-processor, decoder.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "graph/error.h"
#include "runtime/json_file.h"
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

Frame post_processor(const json& j) {
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
      const Frame inner = post_processor(part);
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
        frame_(post_processor(part(j, "post_processor"))) {
    for (const auto& [piece, id] : model_->vocabulary()) pieces_[id] = piece;
    for (const json& t : j.value("added_tokens", json::array())) {
      AddedToken a{t.at("id").get<int64_t>(),    t.at("content"),          t.value("special", false),
                   t.value("normalized", false), t.value("lstrip", false), t.value("rstrip", false),
                   t.value("single_word", false)};
      pieces_[a.id] = a.content;
      if (a.special) special_.insert(a.id);
      // A token that the normalizer changes is looked for in normalised text, in its normalised form.
      if (a.normalized && normalizer_) a.content = normalizer_->run({a.content}).text;
      if (a.content.empty()) continue;  // it is nowhere in a text
      (a.normalized ? normalized_ : raw_).push_back(std::move(a));
    }
    for (auto* tokens : {&raw_, &normalized_})
      std::stable_partition(tokens->begin(), tokens->end(), [](const AddedToken& a) { return a.special; });
  }

  std::vector<int64_t> encode(std::string_view text) const override {
    Word valid{unicode::encode(unicode::decode(text))};
    if (!valid.text.empty()) valid.from_first = unicode::encode(character_at(valid.text, 0)).size();
    std::vector<int64_t> ids = frame_.before;
    for (const Segment& s : split_added(valid, raw_)) {
      if (s.token) {
        ids.push_back(s.token->id);
        continue;
      }
      const Word normal = normalizer_ ? normalizer_->run(s.word) : s.word;
      for (const Segment& inner : split_added(normal, normalized_)) {
        if (inner.token) {
          ids.push_back(inner.token->id);
        } else {
          std::vector<Word> words{inner.word};
          if (pre_tokenizer_) words = pre_tokenizer_->run(std::move(words));
          for (const Word& w : words) model_->encode(w.text, ids);
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
    if (decoder_) return decoded(std::move(tokens));
    return fmt::format("{}", fmt::join(tokens, " "));
  }

  std::string piece(int64_t id) const override {
    const auto it = pieces_.find(id);
    if (it == pieces_.end()) return fmt::format("<{}>", id);
    if (special_.contains(id) || !decoder_) return it->second;
    // Decoders change what comes first (a leading blank goes): it is read behind something else.
    const std::string before = "a", both = decoded({before, it->second});
    const std::string text = both.starts_with(before) ? both.substr(before.size()) : decoded({it->second});
    return text.empty() ? it->second : text;
  }

 private:
  struct Segment {
    const AddedToken* token = nullptr;
    Word word;
  };

  std::string decoded(std::vector<std::string> tokens) const {
    return fmt::format("{}", fmt::join(decoder_->run(std::move(tokens)), ""));
  }

  // Finds added tokens from left to right, of those at one place the longest, of equal ones the first.
  class AddedTokenSearch {
   public:
    AddedTokenSearch(const std::string& text, const std::vector<AddedToken>& tokens)
        : text_(text), tokens_(tokens), next_(tokens.size(), 0) {}

    // The first at or behind `at`, and where it begins; null if there is none. `at` never decreases.
    std::pair<const AddedToken*, size_t> find(size_t at) {
      std::pair<const AddedToken*, size_t> found{nullptr, std::string::npos};
      for (size_t i = 0; i < tokens_.size(); ++i) {
        const AddedToken& t = tokens_[i];
        if (next_[i] == std::string::npos) continue;
        if (!searched_ || next_[i] < at) next_[i] = text_.find(t.content, at);
        if (next_[i] == std::string::npos) continue;
        if (next_[i] < found.second || (next_[i] == found.second && t.content.size() > found.first->content.size()))
          found = {&t, next_[i]};
      }
      searched_ = true;
      return found;
    }

   private:
    const std::string& text_;
    const std::vector<AddedToken>& tokens_;
    std::vector<size_t> next_;  // of each token
    bool searched_ = false;
  };

  // The added tokens in `text` and what lies between them. One that must stand alone and doesn't hides what else lies
  // in its characters, as in the original.
  static std::vector<Segment> split_added(const Word& word, const std::vector<AddedToken>& tokens) {
    const std::string& text = word.text;
    std::vector<Segment> out;
    size_t from = 0;
    const auto plain = [&](size_t end) {
      if (end > from) out.push_back({nullptr, word.part(from, end)});
    };
    AddedTokenSearch search(text, tokens);
    for (size_t at = 0;;) {
      const auto [found, begin] = search.find(at);
      if (!found) break;
      size_t end = at = begin + found->content.size();
      if (found->single_word && !stands_alone(text, begin, end)) continue;
      size_t left = begin;
      if (found->strip_left)
        while (left > from && unicode::is_whitespace(character_before(text, left))) left = start_before(text, left);
      if (found->strip_right)
        while (end < text.size() && unicode::is_whitespace(character_at(text, end)))
          end += unicode::encode(character_at(text, end)).size();
      plain(left);
      out.push_back({found, {}});
      from = end;
    }
    plain(text.size());
    return out;
  }

  // Where the character before `at` begins. Text is UTF-8.
  static size_t start_before(const std::string& text, size_t at) {
    do --at;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0u) == 0x80u);
    return at;
  }
  static char32_t character_at(const std::string& text, size_t at) {
    constexpr size_t kLongest = 4;
    return unicode::decode(std::string_view(text).substr(at, kLongest)).front();
  }
  static char32_t character_before(const std::string& text, size_t at) {
    return character_at(text, start_before(text, at));
  }

  static bool stands_alone(const std::string& text, size_t begin, size_t end) {
    return (begin == 0 || !unicode::is_word(character_before(text, begin))) &&
           (end == text.size() || !unicode::is_word(character_at(text, end)));
  }

  std::unique_ptr<Normalizer> normalizer_;
  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  std::unique_ptr<SubwordModel> model_;
  std::unique_ptr<TokenDecoder> decoder_;
  Frame frame_;
  std::vector<AddedToken> raw_, normalized_;  // special ones first
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
