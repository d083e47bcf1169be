// Byte-pair encoding: the pair of neighbours that was merged first in training is merged first.
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <queue>

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
    for (const Symbol& s : merged(characters(word)))
      if (s.id >= 0) ids.push_back(s.id);
  }

 private:
  struct Merge {
    int rank;
    int64_t id;
  };
  // A list within a vector: neighbours by their places.
  struct Symbol {
    int64_t id;  // negative: merged into the one before
    size_t previous, next;
  };
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();
  // What may be merged with its next neighbour.
  struct Candidate {
    Merge merge;
    size_t at;
    // Of equal ranks the first.
    bool operator<(const Candidate& c) const {
      return merge.rank != c.merge.rank ? merge.rank > c.merge.rank : at > c.at;
    }
  };

  std::vector<Symbol> merged(const std::vector<int64_t>& characters) const {
    const size_t count = characters.size();
    std::vector<Symbol> symbols;
    symbols.reserve(count);
    for (size_t i = 0; i < count; ++i)
      symbols.push_back({characters[i], i > 0 ? i - 1 : kNone, i + 1 < count ? i + 1 : kNone});
    const auto merge_at = [&](size_t at) -> const Merge* {
      if (at == kNone || symbols[at].id < 0 || symbols[at].next == kNone) return nullptr;
      const auto it = merges_.find({symbols[at].id, symbols[symbols[at].next].id});
      return it == merges_.end() ? nullptr : &it->second;
    };
    std::priority_queue<Candidate> candidates;
    const auto push = [&](size_t at) {
      if (const Merge* m = merge_at(at)) candidates.push({*m, at});
    };
    for (size_t i = 0; i < count; ++i) push(i);
    while (!candidates.empty()) {
      const auto [merge, at] = candidates.top();
      candidates.pop();
      const Merge* now = merge_at(at);
      if (!now || now->rank != merge.rank) continue;  // its neighbours have changed since
      Symbol& left = symbols[at];
      Symbol& right = symbols[left.next];
      left.id = merge.id;
      left.next = right.next;
      right.id = -1;
      if (left.next != kNone) symbols[left.next].previous = at;
      push(left.previous);
      push(at);
    }
    return symbols;
  }

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
