#include <fmt/format.h>
#include <pango/pangocairo.h>

#include <algorithm>
#include <memory>

#include "graph/error.h"
#include "runtime/picture/alignment.h"
#include "runtime/picture/heatmap.h"

namespace attune {
namespace {

constexpr int kMargin = 16, kGap = 6;
constexpr int kLargest = 30000;  // pixels; Cairo's images end at 32767
constexpr int kCell = 22, kLabelled = 14;

struct Free {
  void operator()(cairo_t* p) const { cairo_destroy(p); }
  void operator()(cairo_surface_t* p) const { cairo_surface_destroy(p); }
  void operator()(PangoLayout* p) const { g_object_unref(p); }
  void operator()(PangoFontDescription* p) const { pango_font_description_free(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

// Text of one size, on an image of its own size or on none (to measure).
class Canvas {
 public:
  Canvas(int width, int height)
      : surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height)), cairo_(cairo_create(surface_.get())) {
    if (cairo_status(cairo_.get()) != CAIRO_STATUS_SUCCESS)
      throw Error(Error::Kind::kLimit, fmt::format("a picture of {} × {} pixels: {}", width, height,
                                                   cairo_status_to_string(cairo_status(cairo_.get()))));
    fill(0, 0, width, height, {255, 255, 255});
  }

  void fill(int x, int y, int width, int height, Colour c) {
    cairo_set_source_rgb(cairo_.get(), c.red / 255.0, c.green / 255.0, c.blue / 255.0);
    cairo_rectangle(cairo_.get(), x, y, width, height);
    cairo_fill(cairo_.get());
  }
  int width_of(const std::string& text, bool bold = false) {
    int width = 0;
    pango_layout_get_pixel_size(layout(text, bold).get(), &width, nullptr);
    return width;
  }
  // Centred on y; with its left or, if `to_left`, its right end at x.
  void write(int x, int y, const std::string& text, bool to_left, bool bold = false) {
    const auto l = layout(text, bold);
    int width = 0, height = 0;
    pango_layout_get_pixel_size(l.get(), &width, &height);
    show(l.get(), to_left ? x - width : x, y - height / 2);
  }
  // Upwards, centred on x, with its beginning at y.
  void write_upwards(int x, int y, const std::string& text) {
    cairo_save(cairo_.get());
    cairo_translate(cairo_.get(), x, y);
    cairo_rotate(cairo_.get(), -G_PI / 2);
    write(0, 0, text, false);
    cairo_restore(cairo_.get());
  }
  std::string png() {
    std::string bytes;
    const auto append = [](void* to, const unsigned char* data, unsigned length) {
      static_cast<std::string*>(to)->append(reinterpret_cast<const char*>(data), length);
      return CAIRO_STATUS_SUCCESS;
    };
    const cairo_status_t status = cairo_surface_write_to_png_stream(surface_.get(), append, &bytes);
    if (status != CAIRO_STATUS_SUCCESS)
      throw Error(Error::Kind::kInternal, fmt::format("writing a PNG: {}", cairo_status_to_string(status)));
    return bytes;
  }

 private:
  Owned<PangoLayout> layout(const std::string& text, bool bold) {
    Owned<PangoLayout> l(pango_cairo_create_layout(cairo_.get()));
    const Owned<PangoFontDescription> font(pango_font_description_from_string(bold ? "sans-serif bold" : "sans-serif"));
    pango_font_description_set_absolute_size(font.get(), 13 * PANGO_SCALE);
    pango_layout_set_font_description(l.get(), font.get());
    pango_layout_set_single_paragraph_mode(l.get(), TRUE);
    // Pieces of characters are shown as what they are not.
    const std::unique_ptr<char, decltype(&g_free)> valid(
        g_utf8_make_valid(text.data(), static_cast<gssize>(text.size())), g_free);
    pango_layout_set_text(l.get(), valid.get(), -1);
    return l;
  }
  void show(PangoLayout* l, int x, int y) {
    cairo_set_source_rgb(cairo_.get(), 0, 0, 0);
    cairo_move_to(cairo_.get(), x, y);
    pango_cairo_show_layout(cairo_.get(), l);
  }

  Owned<cairo_surface_t> surface_;
  Owned<cairo_t> cairo_;
};

int widest(Canvas& canvas, const std::vector<std::string>& labels) {
  int width = 0;
  for (const std::string& l : labels) width = std::max(width, canvas.width_of(l));
  return width;
}

}  // namespace

std::string alignment_png(const AlignmentPicture& p, size_t head) {
  check(p);
  const auto rows = static_cast<int>(p.rows.size()), columns = static_cast<int>(p.columns.size());
  const int cell = std::clamp(kLargest / std::max({1, rows, columns}), 1, kCell);
  const int step = (kLabelled + cell - 1) / cell;  // labels that would overlap are left out
  const int gap = cell > 4 ? 1 : 0;
  Canvas ruler(1, 1);
  const std::string title = title_of(p, head);
  const int left = kMargin + widest(ruler, p.rows) + kGap;
  const int top = kMargin + 24 + widest(ruler, p.columns) + kGap;
  const int width = std::max(left + columns * cell, ruler.width_of(title, true) + kMargin) + kMargin;
  Canvas canvas(width, top + rows * cell + kMargin);
  canvas.write(kMargin, kMargin + 6, title, false, true);
  canvas.fill(left - 1, top - 1, columns * cell + 1 + (1 - gap), rows * cell + 1 + (1 - gap), {208, 208, 208});
  for (int r = 0; r < rows; ++r) {
    const int y = top + r * cell;
    if (r % step == 0) canvas.write(left - kGap, y + cell / 2, p.rows[static_cast<size_t>(r)], true);
    for (int c = 0; c < columns; ++c)
      canvas.fill(left + c * cell, y, cell - gap, cell - gap,
                  colour_of(weight(p, head, static_cast<size_t>(r), static_cast<size_t>(c))));
  }
  for (int c = 0; c < columns; c += step)
    canvas.write_upwards(left + c * cell + cell / 2, top - kGap, p.columns[static_cast<size_t>(c)]);
  return canvas.png();
}

}  // namespace attune
