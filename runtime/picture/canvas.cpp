#include "runtime/picture/canvas.h"

#include <fmt/format.h>
#include <pango/pangocairo.h>

#include "graph/error.h"

namespace attune {
namespace {

struct Free {
  void operator()(cairo_t* p) const { cairo_destroy(p); }
  void operator()(cairo_surface_t* p) const { cairo_surface_destroy(p); }
  void operator()(PangoLayout* p) const { g_object_unref(p); }
  void operator()(PangoFontDescription* p) const { pango_font_description_free(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

Owned<cairo_surface_t> surface(int width, int height) {
  Owned<cairo_surface_t> out(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height));
  if (cairo_surface_status(out.get()) != CAIRO_STATUS_SUCCESS)
    throw Error(Error::Kind::kLimit, fmt::format("a picture of {} × {} pixels: {}", width, height,
                                                 cairo_status_to_string(cairo_surface_status(out.get()))));
  return out;
}

}  // namespace

struct Canvas::Impl {
  Impl(int width, int height) : image(surface(width, height)), cairo(cairo_create(image.get())) {}

  Owned<PangoLayout> layout(const std::string& text, bool bold) const {
    Owned<PangoLayout> l(pango_cairo_create_layout(cairo.get()));
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

  Owned<cairo_surface_t> image;
  Owned<cairo_t> cairo;
};

Canvas::Canvas(int width, int height) : impl_(std::make_unique<Impl>(width, height)) {
  fill(0, 0, width, height, {255, 255, 255});
}
Canvas::~Canvas() = default;
Canvas::Canvas(Canvas&&) noexcept = default;
Canvas& Canvas::operator=(Canvas&&) noexcept = default;

void Canvas::fill(double x, double y, double width, double height, Colour c, double opacity) {
  cairo_set_source_rgba(impl_->cairo.get(), c.red / 255.0, c.green / 255.0, c.blue / 255.0, opacity);
  cairo_rectangle(impl_->cairo.get(), x, y, width, height);
  cairo_fill(impl_->cairo.get());
}

int Canvas::width_of(const std::string& text, bool bold) {
  int width = 0;
  pango_layout_get_pixel_size(impl_->layout(text, bold).get(), &width, nullptr);
  return width;
}

void Canvas::write(int x, int y, const std::string& text, bool to_left, bool bold) {
  const auto l = impl_->layout(text, bold);
  int width = 0, height = 0;
  pango_layout_get_pixel_size(l.get(), &width, &height);
  cairo_set_source_rgb(impl_->cairo.get(), 0, 0, 0);
  cairo_move_to(impl_->cairo.get(), to_left ? x - width : x, y - height / 2);
  pango_cairo_show_layout(impl_->cairo.get(), l.get());
}

void Canvas::write_upwards(int x, int y, const std::string& text) {
  cairo_save(impl_->cairo.get());
  cairo_translate(impl_->cairo.get(), x, y);
  cairo_rotate(impl_->cairo.get(), -G_PI / 2);
  write(0, 0, text, false);
  cairo_restore(impl_->cairo.get());
}

void Canvas::begin_picture(int x, int y, const uint8_t* pixels, int width, int height) {
  const Owned<cairo_surface_t> picture = surface(width, height);
  cairo_surface_flush(picture.get());
  uint8_t* row = cairo_image_surface_get_data(picture.get());
  for (int r = 0; r < height; ++r, row += cairo_image_surface_get_stride(picture.get()))
    for (int c = 0; c < width; ++c, pixels += 3)
      reinterpret_cast<uint32_t*>(row)[c] =
          (static_cast<uint32_t>(pixels[0]) << 16) | (static_cast<uint32_t>(pixels[1]) << 8) | pixels[2];
  cairo_surface_mark_dirty(picture.get());
  cairo_t* cairo = impl_->cairo.get();
  cairo_save(cairo);
  cairo_translate(cairo, x, y);
  cairo_rectangle(cairo, 0, 0, width, height);
  cairo_clip(cairo);
  cairo_set_source_surface(cairo, picture.get(), 0, 0);
  cairo_paint(cairo);
}

void Canvas::end_picture() { cairo_restore(impl_->cairo.get()); }

std::string Canvas::png() {
  std::string bytes;
  const auto append = [](void* to, const unsigned char* data, unsigned length) {
    static_cast<std::string*>(to)->append(reinterpret_cast<const char*>(data), length);
    return CAIRO_STATUS_SUCCESS;
  };
  const cairo_status_t status = cairo_surface_write_to_png_stream(impl_->image.get(), append, &bytes);
  if (status != CAIRO_STATUS_SUCCESS)
    throw Error(Error::Kind::kInternal, fmt::format("writing a PNG: {}", cairo_status_to_string(status)));
  return bytes;
}

}  // namespace attune
