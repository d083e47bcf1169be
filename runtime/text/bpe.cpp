// Byte-pair encoding: the pair of neighbours that was merged first in training is merged first.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "graph/error.h"
#include "runtime/text/subword_model.h"
#include "runtime/text/unicode.h"

namespace attune {
namespace {

using nlohmann::json;

class Bpe : public SubwordModel {
 public:
  explicit Bpe(const json& j)
      : byte_fallback_(j.value("byte_fallback", false)),
        fuse_unknown_(j.value("fuse_unk", false)),
        ignore_merges_(j.value("ignore_merges", false)) {
    vocabulary_ = j.at("vocab").get<Vocabulary>();
    const auto text = [&](const char* key) {
      return j.contains(key) && j[key].is_string() ? j[key].get<std::string>() : std::string();
    };
    prefix_ = text("continuing_subword_prefix");
    suffix_ = text("end_of_word_suffix");
    if (const auto it = vocabulary_.find(text("unk_token")); it != vocabulary_.end()) unknown_ = it->second;
    int rank = 0;
    for (const json& m : j.at("merges")) {
      std::string left, right;
      if (m.is_array()) {
        left = m.at(0);
        right = m.at(1);
      } else {
        const std::string pair = m;
        const size_t blank = pair.find(' ', 1);
        if (blank == std::string::npos)
          throw Error(Error::Kind::kInvalidModel, "a merge is not a pair: '" + pair + "'");
        left = pair.substr(0, blank);
        right = pair.substr(blank + 1);
      }
      const std::string merged = left + (right.starts_with(prefix_) ? right.substr(prefix_.size()) : right);
      merges_.emplace(std::pair{vocabulary_.at(left), vocabulary_.at(right)}, Merge{rank++, vocabulary_.at(merged)});
    }
  }

  void encode(const std::string& word, std::vector<int64_t>& ids) const override {
    if (ignore_merges_) {
      if (const auto it = vocabulary_.find(word); it != vocabulary_.end()) return ids.push_back(it->second);
    }
    std::vector<int64_t> symbols = characters(word);
    for (;;) {
      size_t best = symbols.size();
      const Merge* merge = nullptr;
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        const auto it = merges_.find({symbols[i], symbols[i + 1]});
        if (it != merges_.end() && (!merge || it->second.rank < merge->rank)) {
          merge = &it->second;
          best = i;
        }
      }
      if (!merge) break;
      symbols[best] = merge->id;
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    ids.insert(ids.end(), symbols.begin(), symbols.end());
  }

 private:
  struct Merge {
    int rank;
    int64_t id;
  };

  std::vector<int64_t> characters(const std::string& word) const {
    std::vector<int64_t> out;
    bool last_unknown = false;
    const std::u32string text = unicode::decode(word);
    for (size_t i = 0; i < text.size(); ++i) {
      const std::string character = unicode::encode(text[i]);
      const std::string symbol = (i > 0 ? prefix_ : "") + character + (i + 1 == text.size() ? suffix_ : "");
      if (const auto it = vocabulary_.find(symbol); it != vocabulary_.end()) {
        out.push_back(it->second);
        last_unknown = false;
        continue;
      }
      if (byte_fallback_) {
        std::vector<int64_t> bytes;
        for (const char c : symbol)
          if (const auto it = vocabulary_.find(byte_token(static_cast<unsigned char>(c))); it != vocabulary_.end())
            bytes.push_back(it->second);
        if (bytes.size() == symbol.size()) {
          out.insert(out.end(), bytes.begin(), bytes.end());
          last_unknown = false;
          continue;
        }
      }
      if (unknown_ && !(fuse_unknown_ && last_unknown)) out.push_back(*unknown_);
      last_unknown = true;
    }
    return out;
  }

  struct PairHash {
    size_t operator()(const std::pair<int64_t, int64_t>& p) const {
      return std::hash<int64_t>()(p.first * 1000003 + p.second);
    }
  };

  std::unordered_map<std::pair<int64_t, int64_t>, Merge, PairHash> merges_;
  std::string prefix_, suffix_;
  std::optional<int64_t> unknown_;
  bool byte_fallback_, fuse_unknown_, ignore_merges_;
};

}  // namespace

std::unique_ptr<SubwordModel> make_bpe(const json& description) { return std::make_unique<Bpe>(description); }

}  // namespace attune
