#include "teachers/scenes/picture.h"

#include <cairo.h>

#include <cmath>
#include <memory>
#include <string>

#include "bespoke/base/error.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kFont[] = "Noto Color Emoji";

struct Deleter {
  void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
  void operator()(cairo_t* context) const { cairo_destroy(context); }
};
using Surface = std::unique_ptr<cairo_surface_t, Deleter>;
using Context = std::unique_ptr<cairo_t, Deleter>;

std::string utf8(char32_t c) {
  const auto byte = [](char32_t value) { return static_cast<char>(value); };
  if (c < 0x800) return {byte(0xC0 | c >> 6), byte(0x80 | (c & 0x3F))};
  if (c < 0x10000) {
    return {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F))};
  }
  return {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 0x3F)), byte(0x80 | (c >> 6 & 0x3F)),
          byte(0x80 | (c & 0x3F))};
}

// A glyph is drawn so that what it covers has the size, whatever the font leaves around it.
void paint_figure(cairo_t* context, const Figure& figure) {
  const std::string text = utf8(things()[static_cast<size_t>(figure.thing)].glyph);
  cairo_select_font_face(context, kFont, CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(context, figure.size);
  cairo_text_extents_t extents;
  cairo_text_extents(context, text.c_str(), &extents);
  const double scale = figure.size / std::max(extents.width, extents.height);
  cairo_set_font_size(context, figure.size * scale);
  cairo_text_extents(context, text.c_str(), &extents);
  cairo_move_to(context, figure.x - extents.width / 2 - extents.x_bearing,
                figure.y - extents.height / 2 - extents.y_bearing);
  cairo_show_text(context, text.c_str());
}

}  // namespace

ScenePainter::ScenePainter() {
  // Without the font another one draws an empty box.
  Scene one, other;
  one.figures = {{0, 32, 32, 40}};
  other.figures = {{1, 32, 32, 40}};
  if (torch::equal(paint(one), paint(other))) {
    throw bad_input("the font {} is not installed; on Debian install fonts-noto-color-emoji",
                    kFont);
  }
}

torch::Tensor ScenePainter::paint(const Scene& scene) const {
  const Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, kSceneSize, kSceneSize));
  const Context context(cairo_create(surface.get()));
  const Colour& colour = background_colours()[static_cast<size_t>(scene.colour)];
  cairo_set_source_rgb(context.get(), colour.red / 255.0, colour.green / 255.0,
                       colour.blue / 255.0);
  cairo_paint(context.get());
  for (const Figure& figure : scene.figures) paint_figure(context.get(), figure);
  cairo_surface_flush(surface.get());
  const int stride = cairo_image_surface_get_stride(surface.get());
  const unsigned char* pixels = cairo_image_surface_get_data(surface.get());
  const torch::Tensor bytes =
      torch::from_blob(const_cast<unsigned char*>(pixels), {kSceneSize, kSceneSize, 4},
                       {stride, 4, 1}, torch::kByte);
  // Stored as blue, green, red.
  return bytes.slice(2, 0, 3).flip(2).permute({2, 0, 1}).clone(torch::MemoryFormat::Contiguous);
}

}  // namespace bespoke
