#include "canvas.h"

#include <cairo.h>

#include <algorithm>
#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"
#include "bespoke/report/chart.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr double kPixelsPerPoint = 2;
constexpr double kTurn = 2 * 3.14159265358979323846;

void choose_font(cairo_t* cairo, double size, bool bold) {
  cairo_select_font_face(cairo, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                         bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(cairo, size);
}

void choose_colour(cairo_t* cairo, Colour colour) {
  cairo_set_source_rgba(cairo, colour.red, colour.green, colour.blue, colour.alpha);
}

double advance(cairo_t* cairo, const std::string& text) {
  cairo_text_extents_t extents;
  cairo_text_extents(cairo, text.c_str(), &extents);
  return extents.x_advance;
}

// Called by C code: no exception may leave it.
cairo_status_t append(void* target, const unsigned char* bytes, unsigned int count) try {
  static_cast<std::string*>(target)->append(reinterpret_cast<const char*>(bytes), count);
  return CAIRO_STATUS_SUCCESS;
} catch (const std::exception&) {
  return CAIRO_STATUS_NO_MEMORY;
}

void check_drawn(cairo_status_t status) {
  if (status == CAIRO_STATUS_SUCCESS) return;
  throw Error(ErrorKind::failed,
              fmt::format("cannot draw a chart: {}", cairo_status_to_string(status)));
}

}  // namespace

struct Canvas::Surface {
  cairo_surface_t* surface;
  cairo_t* cairo;
};

Canvas::Canvas(double width, double height) : surface_(std::make_unique<Surface>()) {
  surface_->surface = cairo_image_surface_create(
      CAIRO_FORMAT_RGB24, static_cast<int>(std::lround(width * kPixelsPerPoint)),
      static_cast<int>(std::lround(height * kPixelsPerPoint)));
  surface_->cairo = cairo_create(surface_->surface);
  cairo_scale(surface_->cairo, kPixelsPerPoint, kPixelsPerPoint);
  cairo_set_line_join(surface_->cairo, CAIRO_LINE_JOIN_ROUND);
  cairo_set_line_cap(surface_->cairo, CAIRO_LINE_CAP_ROUND);
  rectangle(0, 0, width, height, {1, 1, 1});
}

Canvas::~Canvas() {
  cairo_destroy(surface_->cairo);
  cairo_surface_destroy(surface_->surface);
}

void Canvas::line(const std::vector<std::pair<double, double>>& points, Colour colour,
                  double width) {
  cairo_t* cairo = surface_->cairo;
  choose_colour(cairo, colour);
  cairo_set_line_width(cairo, width);
  cairo_new_path(cairo);  // text leaves a point behind, from which a line would start
  for (const auto& [x, y] : points) cairo_line_to(cairo, x, y);
  cairo_stroke(cairo);
}

void Canvas::disc(double x, double y, double radius, Colour colour) {
  choose_colour(surface_->cairo, colour);
  cairo_new_path(surface_->cairo);
  cairo_arc(surface_->cairo, x, y, radius, 0, kTurn);
  cairo_fill(surface_->cairo);
}

void Canvas::rectangle(double x, double y, double width, double height, Colour colour) {
  choose_colour(surface_->cairo, colour);
  cairo_rectangle(surface_->cairo, x, y, width, height);
  cairo_fill(surface_->cairo);
}

void Canvas::text(double x, double y, const std::string& text, const TextStyle& style) {
  cairo_t* cairo = surface_->cairo;
  choose_font(cairo, style.size, style.bold);
  choose_colour(cairo, style.colour);
  const double share = style.anchor == Anchor::start ? 0 : style.anchor == Anchor::middle ? 0.5 : 1;
  // Capitals and figures of this font are 0.73 of its size high.
  cairo_move_to(cairo, x - share * advance(cairo, text), y + 0.365 * style.size);
  cairo_show_text(cairo, text.c_str());
  // An odd text, not UTF-8 say, must not silence everything drawn after it.
  check_drawn(cairo_status(cairo));
}

void Canvas::image(double x, double y, const std::vector<unsigned char>& rgb, int width, int height,
                   double zoom) {
  cairo_surface_t* image = cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
  check_drawn(cairo_surface_status(image));
  cairo_surface_flush(image);
  unsigned char* data = cairo_image_surface_get_data(image);
  const int stride = cairo_image_surface_get_stride(image);
  for (int row = 0; row < height; ++row) {
    auto* target = reinterpret_cast<uint32_t*>(data + row * stride);
    for (int column = 0; column < width; ++column) {
      const unsigned char* pixel = &rgb[static_cast<size_t>(3 * (row * width + column))];
      target[column] = uint32_t{pixel[0]} << 16 | uint32_t{pixel[1]} << 8 | pixel[2];
    }
  }
  cairo_surface_mark_dirty(image);
  cairo_t* cairo = surface_->cairo;
  cairo_save(cairo);
  cairo_translate(cairo, x, y);
  cairo_scale(cairo, zoom, zoom);
  cairo_set_source_surface(cairo, image, 0, 0);
  cairo_pattern_set_filter(cairo_get_source(cairo), CAIRO_FILTER_NEAREST);
  cairo_paint(cairo);
  cairo_restore(cairo);
  cairo_surface_destroy(image);
}

std::string Canvas::png() const {
  std::string bytes;
  check_drawn(cairo_status(surface_->cairo));
  check_drawn(cairo_surface_write_to_png_stream(surface_->surface, append, &bytes));
  return bytes;
}

double text_width(const std::string& text, double size, bool bold) {
  cairo_surface_t* surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, 1, 1);
  cairo_t* cairo = cairo_create(surface);
  choose_font(cairo, size, bold);
  const double width = advance(cairo, text);
  cairo_destroy(cairo);
  cairo_surface_destroy(surface);
  return width;
}

std::vector<std::string> wrapped(const std::string& text, double size, double width) {
  std::vector<std::string> lines;
  for (const auto& word : split(text, ' ')) {
    const bool fits = !lines.empty() && text_width(lines.back() + " " + word, size) <= width;
    if (fits) {
      lines.back() += " " + word;
    } else if (!word.empty()) {
      lines.push_back(word);
    }
  }
  return lines;
}

bool charts_are_built() { return true; }

}  // namespace bespoke
