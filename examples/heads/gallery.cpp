// What the heads of one model do: diagnoses all of them on some texts, picks the clearest head of each kind, and draws
// it on the first text.
//   gallery FOLDER TEXTS.txt OUT
#include <attune/attune.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>

namespace {

using attune::HeadDiagnosis;

struct Kind {
  const char* name;
  const char* file;
  double (*clearness)(const HeadDiagnosis&);  // the largest wins; negative: not of this kind
};

bool is_cross(const HeadDiagnosis& h) { return h.kind == attune::AttentionKind::kCross; }

const Kind kKinds[] = {
    {"near the diagonal", "diagonal", [](const HeadDiagnosis& h) { return is_cross(h) ? h.diagonal * h.largest : -1; }},
    {"the previous token", "previous", [](const HeadDiagnosis& h) { return is_cross(h) ? -1 : h.previous; }},
    {"one token", "one-token", [](const HeadDiagnosis& h) { return h.one_position; }},
    {"spread", "spread", [](const HeadDiagnosis& h) { return h.entropy; }},
};

// Weights of a head on one source, row by row as the queries come.
using Weights = std::vector<std::vector<float>>;
using HeadKey = std::tuple<bool, attune::AttentionKind, size_t, size_t>;

void keep(const attune::AttentionCall& call, std::map<HeadKey, Weights>& all) {
  const std::vector<double> values = call.weights.to_double();
  const auto heads = static_cast<size_t>(call.weights.dim(1)), queries = static_cast<size_t>(call.weights.dim(2));
  const auto keys = static_cast<size_t>(call.weights.dim(3));
  for (size_t h = 0; h < heads; ++h)
    for (size_t q = 0; q < queries; ++q) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>((h * queries + q) * keys);
      all[{call.encoder, call.tap.kind, call.tap.layer, h}].emplace_back(begin,
                                                                         begin + static_cast<std::ptrdiff_t>(keys));
    }
}

attune::TensorMap inputs_of(const attune::Tokenizer& tokenizer, const std::vector<std::string>& texts, int64_t pad) {
  std::vector<std::vector<int64_t>> rows;
  size_t width = 0;
  for (const std::string& t : texts) width = std::max(width, rows.emplace_back(tokenizer.encode(t)).size());
  std::vector<int64_t> ids, mask;
  for (const auto& r : rows) {
    ids.insert(ids.end(), r.begin(), r.end());
    mask.insert(mask.end(), r.size(), 1);
    ids.resize(ids.size() + width - r.size(), pad);
    mask.resize(ids.size(), 0);
  }
  const attune::Shape shape{static_cast<int64_t>(rows.size()), static_cast<int64_t>(width)};
  return {{"input_ids", attune::Tensor::from<int64_t>(shape, ids)},
          {"attention_mask", attune::Tensor::from<int64_t>(shape, mask)}};
}

// Labels of the decoder's self-attention are the tokens that it was given: the prompt, then all but the last.
std::vector<std::string> pieces(const attune::Tokenizer& tokenizer, const std::vector<int64_t>& ids, size_t begin,
                                size_t end) {
  std::vector<std::string> out;
  for (size_t i = begin; i < end; ++i) out.push_back(tokenizer.piece(ids[i]));
  return out;
}

int run(const std::filesystem::path& folder, const std::filesystem::path& file, const std::filesystem::path& out) {
  std::vector<std::string> texts;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) texts.push_back(line);

  std::map<HeadKey, Weights> weights;
  attune::GeneratorOptions load;
  load.prepare = attune::fuse;
  load.observer = [&](const attune::AttentionCall& call) { keep(call, weights); };
  attune::Translator translator = attune::Translator::load(folder, load);
  const attune::Translation first = translator.translate({texts.at(0)}, translator.defaults()).at(0).at(0);
  const attune::Tokenizers& tokenizers = translator.tokenizers();

  attune::DiagnosisOptions options;
  options.prepare = attune::fuse;
  options.regime = false;
  const attune::TensorMap inputs = inputs_of(*tokenizers.source, texts, translator.defaults().pad_token_id.value_or(0));
  const attune::Diagnosis diagnosis = attune::diagnose(folder, inputs, options);
  std::filesystem::create_directories(out);
  std::cout << attune::diagnosis_text(diagnosis, true) << '\n';
  for (const Kind& kind : kKinds) {
    const auto best = std::max_element(
        diagnosis.heads.begin(), diagnosis.heads.end(),
        [&](const HeadDiagnosis& a, const HeadDiagnosis& b) { return kind.clearness(a) < kind.clearness(b); });
    const Weights& rows = weights.at({best->encoder, best->kind, best->layer, best->head});
    attune::AlignmentPicture picture;
    const auto& tokens = first.generation.tokens;
    const auto source = pieces(*tokenizers.source, first.source, 0, first.source.size());
    const auto given = pieces(*tokenizers.target, tokens, 0, rows.size());
    picture.columns = best->encoder || is_cross(*best) ? source : given;
    picture.rows = best->encoder     ? source
                   : is_cross(*best) ? pieces(*tokenizers.target, tokens, 1, rows.size() + 1)
                                     : given;
    picture.title = kind.name;
    attune::AlignmentHead head{attune::layer_name(*best) + ", head " + std::to_string(best->head), {}};
    for (const auto& row : rows)
      for (size_t c = 0; c < picture.columns.size(); ++c) head.weights.push_back(c < row.size() ? row[c] : 0.0F);
    picture.heads.push_back(head);
    attune::write_alignment(picture, (out / (std::string(kind.file) + ".svg")).string());
    std::cout << kind.name << ": " << head.name << ", " << kind.clearness(*best) << '\n';
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    return run(argv[1], argv[2], argv[3]);
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 2;
  }
}
