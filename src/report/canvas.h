#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace bespoke {

struct Colour {
  double red = 0, green = 0, blue = 0, alpha = 1;
};

// The colours of the page on white.
constexpr Colour kInk = {0.11, 0.12, 0.13};
constexpr Colour kSoft = {0.36, 0.39, 0.42};
constexpr Colour kLine = {0.89, 0.89, 0.87};
constexpr Colour kAccent = {0.78, 0.26, 0.10};
constexpr Colour kNegative = {0.15, 0.38, 0.66};

enum class Anchor { start, middle, end };

struct TextStyle {
  double size = 12;
  Colour colour = kInk;
  Anchor anchor = Anchor::start;
  bool bold = false;
};

// A white sheet drawn on with cairo, at two pixels a point; (0, 0) is its upper left. In a build
// without cairo the constructor throws an error that names the package to install.
class Canvas {
 public:
  Canvas(double width, double height);
  ~Canvas();
  Canvas(const Canvas&) = delete;
  Canvas& operator=(const Canvas&) = delete;

  void line(const std::vector<std::pair<double, double>>& points, Colour colour, double width);
  void disc(double x, double y, double radius, Colour colour);
  void rectangle(double x, double y, double width, double height, Colour colour);

  // `y` is the middle of the letters' height.
  void text(double x, double y, const std::string& text, const TextStyle& style);

  // RGB bytes, row by row, each pixel of the image a square of `zoom` points.
  void image(double x, double y, const std::vector<unsigned char>& rgb, int width, int height,
             double zoom);

  std::string png() const;

 private:
  struct Surface;
  std::unique_ptr<Surface> surface_;
};

// How wide a text would be drawn.
double text_width(const std::string& text, double size, bool bold = false);

// The text in lines no wider than `width`, broken at spaces.
std::vector<std::string> wrapped(const std::string& text, double size, double width);

}  // namespace bespoke
