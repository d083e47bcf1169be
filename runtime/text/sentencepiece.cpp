#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unordered_map>

#include "graph/error.h"
#include "graph/io/file_system.h"
#include "runtime/folder.h"
#include "runtime/json_file.h"
#include "runtime/text/tokenizer.h"

namespace attune {
namespace {

constexpr std::string_view kBlank = "\u2581";

// Languages of M2M100, and of its WMT21 models: their tokens follow the vocabulary in this order.
constexpr std::string_view kM2m100Languages =
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy "
    "id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru "
    "sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu";
constexpr std::string_view kWmt21Languages = "en ha is ja cs ru zh de";

class SentencePiece : public Tokenizer {
 public:
  SentencePiece(const std::filesystem::path& file, const std::filesystem::path& vocabulary, int64_t end_id)
      : end_(end_id) {
    const auto status = processor_.Load(file.string());
    if (!status.ok()) throw Error(Error::Kind::kInvalidModel, status.ToString());
    if (!vocabulary.empty()) load_vocabulary(vocabulary);
  }

  // Sources begin with the token of their language, one of the blank-separated `languages`. Needs a vocabulary.
  void set_languages(std::string_view languages, const std::string& source) {
    auto id = static_cast<int64_t>(ids_.size());
    std::istringstream all{std::string(languages)};
    for (std::string code; all >> code; ++id) {
      pieces_[id] = fmt::format("__{}__", code);
      if (code == source) in_front_ = {id};
    }
    if (in_front_.empty())
      throw Error(Error::Kind::kInvalidArgument, fmt::format("src_lang '{}': expected one of {}", source, languages));
  }

  std::vector<int64_t> encode(std::string_view text) const override {
    std::vector<int64_t> ids = in_front_;
    if (ids_.empty()) {
      std::vector<int> pieces;
      check(processor_.Encode(std::string(text), &pieces));
      ids.insert(ids.end(), pieces.begin(), pieces.end());
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
      if (id == end_ || (!in_front_.empty() && id >= static_cast<int64_t>(ids_.size()))) continue;
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
      const auto bytes = read_bytes(file);
      if (!bytes) throw Error(Error::Kind::kIo, "can't be read");
      try {
        ids_ = nlohmann::json::parse(*bytes).get<std::unordered_map<std::string, int64_t>>();
      } catch (const nlohmann::json::exception& e) {
        throw Error(Error::Kind::kInvalidModel, json_fault(e));
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
  std::vector<int64_t> in_front_;  // of sources
  int64_t unknown_ = 0;
  int64_t end_;
};

// tokenizer_config.json of M2M100, whose tokenizer has no other form than SentencePiece's.
void read_languages(const std::filesystem::path& folder, SentencePiece& tokenizer) {
  const std::filesystem::path file = folder / "tokenizer_config.json";
  const auto config = read_json_object(file);
  if (!config || config->value("tokenizer_class", nlohmann::json()) != "M2M100Tokenizer") return;
  const auto text = [&](const char* name, const char* otherwise) {
    const auto it = config->find(name);
    return it != config->end() && it->is_string() ? it->get<std::string>() : std::string(otherwise);
  };
  within(file.string(), [&] {
    tokenizer.set_languages(text("language_codes", "m2m100") == "wmt21" ? kWmt21Languages : kM2m100Languages,
                            text("src_lang", "en"));
  });
}

}  // namespace

std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& file,
                                              const std::filesystem::path& vocabulary, int64_t end_id) {
  return within(file.string(), [&]() -> std::unique_ptr<Tokenizer> {
    return std::make_unique<SentencePiece>(file, vocabulary, end_id);
  });
}

Tokenizers find_tokenizers(const std::filesystem::path& folder, int64_t end_id) {
  namespace fs = std::filesystem;
  return io(folder, [&] {
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
    auto loaded = within(source.string(), [&] { return std::make_unique<SentencePiece>(source, vocabulary, end_id); });
    if (!vocabulary.empty()) read_languages(folder, *loaded);
    t.source = std::move(loaded);
    t.target =
        fs::exists(folder / "target.spm") ? load_sentencepiece(folder / "target.spm", vocabulary, end_id) : t.source;
    return t;
  });
}

}  // namespace attune
