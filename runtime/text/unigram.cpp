// Unigram language model: the cut with the largest sum of log probabilities (Viterbi).
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "graph/error.h"
#include "runtime/text/subword_model.h"

namespace attune {
namespace {

using nlohmann::json;

class Unigram : public SubwordModel {
 public:
  explicit Unigram(const json& j) : byte_fallback_(j.value("byte_fallback", false)) {
    if (j.contains("unk_id") && !j["unk_id"].is_null()) unknown_ = j["unk_id"].get<int64_t>();
    double lowest = std::numeric_limits<double>::infinity();
    for (const json& entry : j.at("vocab")) {
      const std::string piece = entry.at(0);
      scores_.push_back(entry.at(1).get<double>());
      lowest = std::min(lowest, scores_.back());
      longest_ = std::max(longest_, piece.size());
      vocabulary_.emplace(piece, static_cast<int64_t>(scores_.size()) - 1);
    }
    constexpr double kUnknownPenalty = 10.0;
    unknown_score_ = lowest - kUnknownPenalty;
    if (unknown_ && (*unknown_ < 0 || *unknown_ >= static_cast<int64_t>(scores_.size())))
      throw Error(Error::Kind::kInvalidModel, "unk_id is outside the vocabulary");
  }

  void encode(const std::string& word, std::vector<int64_t>& ids) const override {
    struct Best {
      double score = -std::numeric_limits<double>::infinity();
      size_t from = 0;
      std::optional<int64_t> id;  // none: unknown
    };
    std::vector<Best> best(word.size() + 1);
    best[0].score = 0;
    const auto character_size = [&](size_t at) {
      const auto b = static_cast<unsigned char>(word[at]);
      return std::min<size_t>(word.size() - at, b < 0x80 ? 1 : b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : b >= 0xc0 ? 2 : 1);
    };
    std::string piece;
    for (size_t begin = 0; begin < word.size(); begin += character_size(begin)) {
      const size_t one = character_size(begin);
      bool single = false;
      const double base = best[begin].score;
      piece.clear();
      for (size_t end = begin; end < word.size() && end - begin < longest_;) {
        const size_t size = character_size(end);
        piece.append(word, end, size);
        end += size;
        const auto it = vocabulary_.find(piece);
        if (it == vocabulary_.end()) continue;
        const double score = base + scores_[static_cast<size_t>(it->second)];
        if (score > best[end].score) best[end] = {score, begin, it->second};
        single = single || end - begin == one;
      }
      if (!single && base + unknown_score_ > best[begin + one].score)
        best[begin + one] = {base + unknown_score_, begin, std::nullopt};
    }
    emit(
        word,
        [&](size_t end) {
          return std::pair{best[end].from, best[end].id};
        },
        ids);
  }

 private:
  // Pieces from the end; neighbouring unknown characters are one unknown piece.
  template <class F>
  void emit(const std::string& word, F step, std::vector<int64_t>& ids) const {
    struct Piece {
      size_t from, end;
      std::optional<int64_t> id;
    };
    std::vector<Piece> pieces;
    for (size_t end = word.size(); end > 0;) {
      const auto [from, id] = step(end);
      if (!id && !pieces.empty() && !pieces.back().id) {
        pieces.back().from = from;
      } else {
        pieces.push_back({from, end, id});
      }
      end = from;
    }
    std::reverse(pieces.begin(), pieces.end());
    for (const auto& [from, end, id] : pieces) {
      if (id) {
        ids.push_back(*id);
        continue;
      }
      const std::string piece = word.substr(from, end - from);
      std::vector<int64_t> bytes;
      if (byte_fallback_)
        for (const char c : piece)
          if (const auto it = vocabulary_.find(byte_token(static_cast<unsigned char>(c))); it != vocabulary_.end())
            bytes.push_back(it->second);
      if (!bytes.empty() && bytes.size() == piece.size()) {
        ids.insert(ids.end(), bytes.begin(), bytes.end());
      } else if (unknown_) {
        ids.push_back(*unknown_);
      } else {
        throw Error(Error::Kind::kInvalidArgument, "the tokenizer has no unknown token for '" + piece + "'");
      }
    }
  }

  std::vector<double> scores_;
  std::optional<int64_t> unknown_;
  double unknown_score_ = 0;
  size_t longest_ = 1;
  bool byte_fallback_;
};

}  // namespace

std::unique_ptr<SubwordModel> make_unigram(const json& description) { return std::make_unique<Unigram>(description); }

}  // namespace attune
