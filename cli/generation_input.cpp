#include "cli/generation_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <vector>

#include "cli/line_reader.h"
#include "graph/io/npy.h"
#include "runtime/token_inputs.h"

namespace attune::cli {
namespace {

[[noreturn]] void invalid(std::string message) { throw Error(Error::Kind::kInvalidArgument, std::move(message)); }

std::vector<int64_t> parse_line(const std::string& line, const std::string& where) {
  std::vector<int64_t> ids;
  const char* p = line.data();
  const char* end = p + line.size();
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == ',' || c == '\r' || c == '[' || c == ']'; };
  while (true) {
    p = std::find_if_not(p, end, blank);
    if (p == end) return ids;
    int64_t id = 0;
    const auto [after, error] = std::from_chars(p, end, id);
    if (error != std::errc() || (after != end && !blank(*after))) invalid(fmt::format("{}: not a list of ids", where));
    ids.push_back(id);
    p = after;
  }
}

}  // namespace

Tensor row_of(const Tensor& tensor, int64_t row) {
  Shape shape = tensor.shape();
  const size_t bytes = tensor.bytes() / static_cast<size_t>(shape[0]);
  shape[0] = 1;
  return Tensor::from_buffer(
      tensor.type(), shape, tensor.buffer(),
      static_cast<size_t>(tensor.raw() - tensor.buffer()->data()) + bytes * static_cast<size_t>(row));
}

TensorMap read_ids(const std::filesystem::path& file) {
  if (file.extension() == ".npy") {
    const Tensor ids = read_npy(file);
    if (ids.rank() != 1 && ids.rank() != 2)
      invalid(fmt::format("{}: expected shape (sources, length), got {}", file.string(), ids.shape().to_string()));
    if (ids.count() == 0) invalid(fmt::format("{}: holds no ids", file.string()));
    const Shape shape{ids.count() / ids.shape().back(), ids.shape().back()};
    return {{"input_ids", Tensor::from<int64_t>(shape, within(file.string(), [&] { return ids.to_int64(); }))}};
  }
  std::vector<std::vector<int64_t>> rows;
  std::ifstream in(file);
  if (!in) throw Error(Error::Kind::kIo, fmt::format("{}: can't be opened", file.string()));
  LineReader lines(in);
  for (std::string line; lines.next(line);) {
    auto ids = parse_line(line, fmt::format("{}:{}", file.string(), lines.number()));
    if (!ids.empty() && rows.size() + 1 != lines.number())
      invalid(fmt::format("{}:{}: expected ids, found an empty line", file.string(), rows.size() + 1));
    if (!ids.empty()) rows.push_back(std::move(ids));
  }
  if (lines.failed()) throw Error(Error::Kind::kIo, fmt::format("{}: can't be read", file.string()));
  if (rows.empty()) invalid(fmt::format("{}: holds no ids", file.string()));
  return padded_inputs(rows, 0);
}

TensorMap read_named(const std::filesystem::path& file) {
  TensorMap inputs;
  for (auto& [name, tensor] : read_npz(file)) inputs[name] = std::move(tensor);
  return inputs;
}

}  // namespace attune::cli
