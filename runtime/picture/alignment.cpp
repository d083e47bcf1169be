#include "runtime/picture/alignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/picture/heatmap.h"
#include "runtime/picture/text_width.h"
#include "runtime/picture/xml.h"

namespace attune {
namespace {

constexpr int kCell = 22;   // pixels
constexpr int kLetter = 8;  // width that is reserved for a character

std::string hex(Colour c) { return fmt::format("#{:02x}{:02x}{:02x}", c.red, c.green, c.blue); }

size_t widest(const std::vector<std::string>& words) {
  size_t n = 1;
  for (const auto& w : words) n = std::max(n, text_width(w));
  return n;
}

}  // namespace

std::string alignment_text(const AlignmentPicture& p, size_t head, bool colour, size_t width) {
  check(p);
  const size_t label = widest(p.rows);
  size_t cell = std::max<size_t>(3, widest(p.columns)) + 1;
  const bool numbered = label + cell * p.columns.size() > width;
  if (numbered) cell = std::max<size_t>(4, std::to_string(p.columns.size()).size() + 1);
  const size_t per_block = std::max<size_t>(1, width > label + cell ? (width - label) / cell : 1);

  std::string out;
  for (size_t begin = 0; begin < p.columns.size(); begin += per_block) {
    const size_t end = std::min(p.columns.size(), begin + per_block);
    out += std::string(label, ' ');
    for (size_t c = begin; c < end; ++c) out += pad_left(numbered ? std::to_string(c + 1) : p.columns[c], cell);
    out += '\n';
    for (size_t r = 0; r < p.rows.size(); ++r) {
      out += pad_left(p.rows[r], label);
      for (size_t c = begin; c < end; ++c) {
        const float w = weight(p, head, r, c);
        const int percent = static_cast<int>(std::lround(100 * w));
        const std::string text = pad_left(percent == 0 ? "·" : std::to_string(percent), cell);
        // 24 steps of the terminal's grey ramp, dark for little.
        out += colour ? fmt::format("\x1b[48;5;{};38;5;{}m{}\x1b[0m", 232 + static_cast<int>(std::lround(w * 23)),
                                    w > 0.5F ? 16 : 252, text)
                      : text;
      }
      out += '\n';
    }
  }
  if (numbered) {
    for (size_t c = 0; c < p.columns.size(); ++c)
      out += fmt::format("{}{} {}", c == 0 ? "" : "  ", c + 1, p.columns[c]);
    out += '\n';
  }
  return out;
}

std::string alignment_svg(const AlignmentPicture& p, size_t head) {
  check(p);
  const auto rows = static_cast<int>(p.rows.size()), columns = static_cast<int>(p.columns.size());
  const int left = static_cast<int>(widest(p.rows)) * kLetter + 16;
  const int top = static_cast<int>(widest(p.columns)) * kLetter + 40;
  const int width = std::max(left + columns * kCell + 16, static_cast<int>(text_width(p.title)) * kLetter + 32);
  const int height = top + rows * kCell + 16;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" "
      "font-size=\"13\">\n<title>{2}</title>\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
      "<text x=\"16\" y=\"22\" font-weight=\"bold\">{2}</text>\n",
      width, height, xml_escape(title_of(p, head)));
  for (int c = 0; c < columns; ++c)
    out += fmt::format("<text transform=\"translate({},{}) rotate(-90)\">{}</text>\n", left + c * kCell + kCell / 2 + 5,
                       top - 6, xml_escape(p.columns[static_cast<size_t>(c)]));
  for (int r = 0; r < rows; ++r) {
    out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", left - 6,
                       top + r * kCell + kCell / 2 + 5, xml_escape(p.rows[static_cast<size_t>(r)]));
    for (int c = 0; c < columns; ++c) {
      const float w = weight(p, head, static_cast<size_t>(r), static_cast<size_t>(c));
      out += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"><title>{} → {}: {:.3f}</title></rect>\n",
          left + c * kCell, top + r * kCell, kCell - 1, kCell - 1, hex(colour_of(w)),
          xml_escape(p.rows[static_cast<size_t>(r)]), xml_escape(p.columns[static_cast<size_t>(c)]), w);
    }
  }
  return out +
         fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#888\"/>\n</svg>\n",
                     left - 1, top - 1, columns * kCell + 1, rows * kCell + 1);
}

std::string alignment_json(const AlignmentPicture& p) { return alignment_json(p, 0); }

std::string alignment_json(const AlignmentPicture& p, int decimals) {
  check(p);
  const double scale = std::pow(10.0, decimals);
  const auto rounded = [&](float w) {
    return decimals == 0 || !std::isfinite(w) ? static_cast<double>(w) : std::round(w * scale) / scale;
  };
  nlohmann::ordered_json j;
  j["title"] = p.title;
  j["rows"] = p.rows;
  j["columns"] = p.columns;
  j["heads"] = nlohmann::ordered_json::array();
  for (const AlignmentHead& h : p.heads) {
    auto matrix = nlohmann::ordered_json::array();
    for (size_t r = 0; r < p.rows.size(); ++r) {
      auto row = nlohmann::ordered_json::array();
      for (size_t c = 0; c < p.columns.size(); ++c) row.push_back(rounded(h.weights[r * p.columns.size() + c]));
      matrix.push_back(std::move(row));
    }
    j["heads"].push_back({{"name", h.name}, {"weights", std::move(matrix)}});
  }
  // Tokens may hold pieces of characters: those become U+FFFD.
  return j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace attune
