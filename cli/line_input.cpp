#include "cli/line_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/command.h"
#include "cli/generation_input.h"
#include "cli/generation_text.h"
#include "runtime/text/text_stream.h"

namespace attune::cli {
namespace {

// Lines that are read before the first of them are generated: sorted by length, batches of them waste little on
// padding.
constexpr size_t kBatchesAtOnce = 8;

class Lines {
 public:
  explicit Lines(const std::string& file) {
    if (file == "-") return;
    in_.open(file, std::ios::binary);
    std::error_code error;
    if (!in_ || std::filesystem::is_directory(file, error))
      throw Error(Error::Kind::kIo, fmt::format("{}: can't be opened", file));
    const auto size = std::filesystem::file_size(file, error);
    bytes_ = error ? 0 : size;
  }
  // Up to `count` lines, fewer only at the end.
  std::vector<std::string> next(size_t count) {
    std::istream& in = in_.is_open() ? static_cast<std::istream&>(in_) : std::cin;
    std::vector<std::string> out;
    std::string line;
    while (out.size() < count && std::getline(in, line)) {
      read_ += line.size() + 1;
      if (line.ends_with('\r')) line.pop_back();
      out.push_back(line);
    }
    if (in.bad()) throw Error(Error::Kind::kIo, "the input can't be read");
    return out;
  }
  // Of the input that was read so far; nothing if its size isn't known.
  double part_read() const {
    return bytes_ > 0 ? std::min(1.0, static_cast<double>(read_) / static_cast<double>(bytes_)) : 0;
  }

 private:
  std::ifstream in_;
  uintmax_t bytes_ = 0, read_ = 0;
};

void print_results(const std::vector<std::vector<Generation>>& results, const std::vector<std::string>& lines,
                   const Tokenizer& tokenizer, bool json) {
  for (size_t i = 0; i < lines.size(); ++i) {
    if (json) {
      nlohmann::json out{{"input", lines[i]}, {"texts", nlohmann::json::array()}};
      for (const Generation& g : results[i]) {
        out["texts"].push_back(text_of(g, tokenizer));
        if (g.score) out["scores"].push_back(*g.score);
      }
      print_line(out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    } else if (results[i].empty()) {
      print_line("");
    } else {
      for (const Generation& g : results[i]) print_line(text_of(g, tokenizer));
    }
  }
  std::fflush(stdout);
}

// Generations of each line; none for an empty one.
std::vector<std::vector<Generation>> generate_all(const std::vector<std::string>& lines, size_t batch,
                                                  Generator& generator, const GenerationOptions& options,
                                                  const Tokenizer& source, const std::function<void(size_t)>& done) {
  std::vector<std::vector<int64_t>> ids;
  for (const std::string& line : lines) ids.push_back(line.empty() ? std::vector<int64_t>() : source.encode(line));
  std::vector<size_t> order(lines.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t i) { return ids[i].empty(); });
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ids[a].size() > ids[b].size(); });
  std::vector<std::vector<Generation>> out(lines.size());
  for (size_t at = 0; at < order.size(); at += batch) {
    const size_t count = std::min(batch, order.size() - at);
    std::vector<std::vector<int64_t>> rows;
    for (size_t i = 0; i < count; ++i) rows.push_back(ids[order[at + i]]);
    auto results = generator.generate(padded_inputs(rows, options.pad_token_id.value_or(0)), options);
    for (size_t i = 0; i < count; ++i) out[order[at + i]] = std::move(results.at(i));
    done(at + count);
  }
  return out;
}

}  // namespace

void LineInput::add_options(CLI::App& command) {
  CLI::Option* input = command.add_option("--input", file, "Text of the sources, one a line; -: standard input");
  command.add_option("--batch", batch, "With --input: lines that are generated together")
      ->check(at_least(1))
      ->needs(input);
}

void generate_lines(const LineInput& input, Generator& generator, const GenerationOptions& options,
                    const Tokenizers& tokenizers, const TextOutput& output) {
  Lines lines(input.file);
  Progress progress("generating");
  size_t done = 0;
  double part = 0;
  while (true) {
    // A pipe's lines are answered one by one when they are streamed.
    const auto group = lines.next(output.stream ? 1 : input.batch * kBatchesAtOnce);
    if (group.empty()) return;
    if (output.stream) {
      const auto ids = group[0].empty() ? std::vector<int64_t>() : tokenizers.source->encode(group[0]);
      if (ids.empty()) {
        print_line("");
      } else {
        stream_source(generator, padded_inputs({ids}, options.pad_token_id.value_or(0)), options, *tokenizers.target);
      }
      ++done;
      continue;
    }
    const double part_after = lines.part_read();
    const auto results =
        generate_all(group, input.batch, generator, options, *tokenizers.source, [&](size_t generated) {
          const double share = static_cast<double>(generated) / static_cast<double>(group.size());
          progress.update(
              done + generated, 0,
              progress.pace("lines", static_cast<double>(done + generated), part + share * (part_after - part)));
        });
    print_results(results, group, *tokenizers.target, output.json);
    done += group.size();
    part = part_after;
  }
}

void stream_source(Generator& generator, const TensorMap& inputs, const GenerationOptions& options,
                   const Tokenizer& tokenizer) {
  TextStream text(tokenizer);
  const auto show = [](const std::string& piece) {
    if (piece.empty()) return;
    print(piece);
    std::fflush(stdout);
  };
  generator.generate(inputs, options, [&](size_t, size_t sequence, int64_t token) {
    if (sequence == 0) show(text.push(token));
  });
  show(text.finish());
  print_line("");
  std::fflush(stdout);
}

}  // namespace attune::cli
