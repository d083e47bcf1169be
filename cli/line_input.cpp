#include "cli/line_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>

#include "cli/command.h"
#include "cli/generation_input.h"
#include "cli/generation_text.h"
#include "cli/line_reader.h"
#include "runtime/text/text_stream.h"
#include "runtime/text/unicode.h"
#include "runtime/token_inputs.h"

namespace attune::cli {
namespace {

// Lines that are read before the first of them are generated: sorted by length, batches of them waste little on
// padding.
constexpr size_t kBatchesAtOnce = 8;

class Lines {
 public:
  explicit Lines(const std::string& file)
      : name_(file == "-" ? "standard input" : file),
        reader_(file == "-" ? static_cast<std::istream&>(std::cin) : in_) {
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
    std::vector<std::string> out;
    std::string line;
    while (out.size() < count && reader_.next(line)) {
      if (line.find('\0') != std::string::npos || !unicode::is_valid(line))
        throw Error(Error::Kind::kInvalidArgument,
                    fmt::format("{}:{}: expected text in UTF-8", name_, reader_.number()));
      out.push_back(line);
    }
    if (reader_.failed()) throw Error(Error::Kind::kIo, "the input can't be read");
    return out;
  }
  const std::string& name() const { return name_; }
  // Of the input that was read so far; nothing if its size isn't known.
  double part_read() const {
    return bytes_ > 0 ? std::min(1.0, static_cast<double>(reader_.bytes()) / static_cast<double>(bytes_)) : 0;
  }

 private:
  std::string name_;
  std::ifstream in_;
  LineReader reader_;
  uintmax_t bytes_ = 0;
};

void print_result(const std::vector<Generation>& result, const std::string& line, const GenerationOptions& options,
                  const Tokenizer& tokenizer, bool json) {
  if (json) {
    nlohmann::json out{{"input", line}, {"texts", nlohmann::json::array()}};
    for (const Generation& g : result) {
      out["texts"].push_back(text_of(g, tokenizer));
      if (g.score) out["scores"].push_back(*g.score);
    }
    return print_line(out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  // An empty line gives as many lines as others.
  if (result.empty())
    for (int64_t i = 0; i < options.num_return_sequences; ++i) print_line("");
  for (const Generation& g : result) print_line(text_of(g, tokenizer));
}

// Some lines of the input and what was generated from each.
class Group {
 public:
  Group(std::vector<std::string> lines, const Tokenizer& tokenizer)
      : lines_(std::move(lines)), results_(lines_.size()) {
    for (size_t i = 0; i < lines_.size(); ++i) {
      ids_.emplace_back();
      try {
        if (!lines_[i].empty()) ids_[i] = tokenizer.encode(lines_[i]);
      } catch (const Error& e) {
        fail(i, e);
      }
    }
  }

  // Sorted by length, batches of `batch` lines.
  void generate(size_t batch, Generator& generator, const GenerationOptions& options,
                const std::function<void(size_t)>& done) {
    std::vector<size_t> order(lines_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::erase_if(order, [&](size_t i) { return ids_[i].empty(); });
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ids_[a].size() > ids_[b].size(); });
    for (size_t at = 0; at < order.size(); at += batch) {
      const size_t count = std::min(batch, order.size() - at);
      generate(std::span(order).subspan(at, count), generator, options);
      done(at + count);
    }
  }

  // The results up to the first line that failed, whose error is thrown then. `first`: the number of the first line.
  void print(const Lines& input, size_t first, const GenerationOptions& options, const Tokenizer& tokenizer,
             bool json) const {
    for (size_t i = 0; i < std::min(failed_, lines_.size()); ++i)
      print_result(results_[i], lines_[i], options, tokenizer, json);
    flush();
    if (error_)
      throw Error(error_->kind(), fmt::format("{} > line {}: {}", input.name(), first + failed_, error_->what()));
  }

 private:
  // Alone, if it fails together: one line doesn't take the others with it.
  void generate(std::span<const size_t> lines, Generator& generator, const GenerationOptions& options) {
    std::vector<std::vector<int64_t>> rows;
    for (const size_t i : lines) rows.push_back(ids_[i]);
    try {
      auto results = generator.generate(padded_inputs(rows, options.pad_token_id.value_or(0)), options);
      for (size_t i = 0; i < lines.size(); ++i) results_[lines[i]] = std::move(results.at(i));
    } catch (const Error& e) {
      if (lines.size() == 1) return fail(lines[0], e);
      for (size_t i = 0; i < lines.size(); ++i) generate(lines.subspan(i, 1), generator, options);
    }
  }
  void fail(size_t line, const Error& error) {
    if (line >= failed_) return;
    failed_ = line;
    error_ = error;
  }

  std::vector<std::string> lines_;
  std::vector<std::vector<int64_t>> ids_;
  std::vector<std::vector<Generation>> results_;
  size_t failed_ = std::numeric_limits<size_t>::max();  // the first line that failed
  std::optional<Error> error_;
};

void stream_line(const std::string& line, Generator& generator, const GenerationOptions& options,
                 const Tokenizers& tokenizers) {
  const auto ids = line.empty() ? std::vector<int64_t>() : tokenizers.source->encode(line);
  if (ids.empty()) {
    print_line("");
  } else {
    stream_source(generator, padded_inputs({ids}, options.pad_token_id.value_or(0)), options, *tokenizers.target);
  }
}

}  // namespace

void LineInput::add_options(CLI::App& command) {
  CLI::Option* input = command.add_option("--input", file, "Text of the sources, one a line; -: standard input");
  command.add_option("--batch", batch, "With --input: lines that are generated together")
      ->check(CLI::Range(size_t{1}, kMostTogether))
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
    auto read = lines.next(output.stream ? 1 : input.batch * kBatchesAtOnce);
    if (read.empty()) return;
    const size_t count = read.size();
    if (output.stream) {
      within([&] { return fmt::format("{} > line {}", lines.name(), done + 1); },
             [&] { stream_line(read[0], generator, options, tokenizers); });
      ++done;
      continue;
    }
    const double part_after = lines.part_read();
    Group group(std::move(read), *tokenizers.source);
    group.generate(input.batch, generator, options, [&](size_t generated) {
      const double share = static_cast<double>(generated) / static_cast<double>(count);
      progress.update(
          done + generated, 0,
          progress.pace("lines", static_cast<double>(done + generated), part + share * (part_after - part)));
    });
    group.print(lines, done + 1, options, *tokenizers.target, output.json);
    done += count;
    part = part_after;
  }
}

std::vector<Generation> stream_source(Generator& generator, const TensorMap& inputs, const GenerationOptions& options,
                                      const Tokenizer& tokenizer) {
  TextStream text(tokenizer);
  const auto show = [](const std::string& piece) {
    if (piece.empty()) return;
    print(piece);
    flush();
  };
  auto generations = generator.generate(inputs, options, [&](size_t, size_t sequence, int64_t token) {
    if (sequence == 0) show(text.push(token));
  });
  show(text.finish());
  print_line("");
  flush();
  return std::move(generations.at(0));
}

}  // namespace attune::cli
