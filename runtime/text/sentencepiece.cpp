#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "graph/error.h"
#include "runtime/text/tokenizer.h"

namespace attune {
namespace {

constexpr std::string_view kBlank = "\u2581";

class SentencePiece : public Tokenizer {
 public:
  SentencePiece(const std::filesystem::path& file, const std::filesystem::path& vocabulary, int64_t end_id)
      : end_(end_id) {
    const auto status = processor_.Load(file.string());
    if (!status.ok()) throw Error(Error::Kind::kInvalidModel, status.ToString());
    if (!vocabulary.empty()) load_vocabulary(vocabulary);
  }

  std::vector<int64_t> encode(std::string_view text) const override {
    std::vector<int64_t> ids;
    if (ids_.empty()) {
      std::vector<int> pieces;
      check(processor_.Encode(std::string(text), &pieces));
      ids.assign(pieces.begin(), pieces.end());
    } else {
      std::vector<std::string> pieces;
      check(processor_.Encode(std::string(text), &pieces));
      for (const std::string& p : pieces) {
        const auto it = ids_.find(p);
        ids.push_back(it == ids_.end() ? unknown_ : it->second);
      }
    }
    if (end_ >= 0) ids.push_back(end_);
    return ids;
  }

  std::string decode(std::span<const int64_t> ids) const override {
    std::vector<std::string> pieces;
    for (const int64_t id : ids) {
      if (id == end_) continue;
      if (ids_.empty()) {
        if (id < 0 || id >= processor_.GetPieceSize() || processor_.IsControl(static_cast<int>(id))) continue;
        pieces.push_back(processor_.IdToPiece(static_cast<int>(id)));
      } else if (const auto it = pieces_.find(id);
                 it != pieces_.end() && it->second != "<pad>" && it->second != "</s>") {
        pieces.push_back(it->second);
      }
    }
    std::string text;
    check(processor_.Decode(pieces, &text));
    return text;
  }

  std::string piece(int64_t id) const override {
    std::string p;
    if (ids_.empty()) {
      if (id < 0 || id >= processor_.GetPieceSize()) return fmt::format("<{}>", id);
      p = processor_.IdToPiece(static_cast<int>(id));
    } else {
      const auto it = pieces_.find(id);
      if (it == pieces_.end()) return fmt::format("<{}>", id);
      p = it->second;
    }
    for (size_t at = 0; (at = p.find(kBlank, at)) != std::string::npos; ++at) p.replace(at, kBlank.size(), " ");
    return p;
  }

 private:
  static void check(const sentencepiece::util::Status& status) {
    if (!status.ok()) throw Error(Error::Kind::kInvalidArgument, status.ToString());
  }

  void load_vocabulary(const std::filesystem::path& file) {
    within(file.string(), [&] {
      std::ifstream in(file, std::ios::binary);
      if (!in) throw Error(Error::Kind::kIo, "can't be read");
      try {
        ids_ = nlohmann::json::parse(in).get<std::unordered_map<std::string, int64_t>>();
      } catch (const nlohmann::json::exception& e) {
        throw Error(Error::Kind::kInvalidModel, e.what());
      }
      for (const auto& [p, id] : ids_) pieces_[id] = p;
      const auto it = ids_.find("<unk>");
      if (it == ids_.end()) throw Error(Error::Kind::kInvalidModel, "has no '<unk>'");
      unknown_ = it->second;
    });
  }

  sentencepiece::SentencePieceProcessor processor_;
  std::unordered_map<std::string, int64_t> ids_;  // of vocab.json; empty: SentencePiece's own
  std::unordered_map<int64_t, std::string> pieces_;
  int64_t unknown_ = 0;
  int64_t end_;
};

}  // namespace

std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& file,
                                              const std::filesystem::path& vocabulary, int64_t end_id) {
  return within(file.string(), [&]() -> std::unique_ptr<Tokenizer> {
    return std::make_unique<SentencePiece>(file, vocabulary, end_id);
  });
}

Tokenizers find_tokenizers(const std::filesystem::path& folder, int64_t end_id) {
  namespace fs = std::filesystem;
  Tokenizers t;
  if (fs::exists(folder / "tokenizer.json")) {
    t.source = t.target = load_tokenizer_json(folder / "tokenizer.json");
    return t;
  }
  const fs::path vocabulary = fs::exists(folder / "vocab.json") ? folder / "vocab.json" : fs::path();
  fs::path source;
  for (const char* name : {"source.spm", "spiece.model", "sentencepiece.bpe.model"})
    if (source.empty() && fs::exists(folder / name)) source = folder / name;
  if (source.empty() && fs::is_directory(folder))
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".spm" && entry.path().filename() != "target.spm") source = entry.path();
  if (source.empty()) return t;
  t.source = load_sentencepiece(source, vocabulary, end_id);
  t.target =
      fs::exists(folder / "target.spm") ? load_sentencepiece(folder / "target.spm", vocabulary, end_id) : t.source;
  return t;
}

}  // namespace attune
