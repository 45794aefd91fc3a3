#pragma once

#include <string>
#include <utility>
#include <vector>

namespace bespoke {

// What something is drawn in: a property of the page's style, which follows the reader's light or
// dark mode, and its colour on white.
struct Colour {
  const char* property;
  const char* on_white;
};
constexpr Colour kInk = {"--ink", "#1c1e21"};
constexpr Colour kSoft = {"--soft", "#5c636b"};
constexpr Colour kLine = {"--line", "#e2e3df"};
constexpr Colour kPaper = {"--page", "#ffffff"};
constexpr Colour kAccent = {"--accent", "#c8431a"};
constexpr Colour kNegative = {"--series-0", "#2662a8"};

// Cool colours for all that is not emphasised.
constexpr Colour kSeriesColours[] = {
    {"--series-0", "#2f6fb3"}, {"--series-1", "#1f8a7d"}, {"--series-2", "#7b62b5"},
    {"--series-3", "#7d858f"}, {"--series-4", "#4a9cc4"}, {"--series-5", "#5d8440"},
    {"--series-6", "#a5618b"}, {"--series-7", "#46566f"}, {"--series-8", "#94792f"}};

Colour series_colour(size_t place);

enum class Anchor { start, middle, end };

struct TextStyle {
  double size = 12;
  Colour colour = kInk;
  Anchor anchor = Anchor::start;
  bool bold = false;
};

struct LineStyle {
  Colour colour = kInk;
  double width = 1;
  double opacity = 1;
  bool dashed = false;
};

// Where a drawing goes: into a page, whose style has the colours and letters, or into a file that
// has its own on white paper.
enum class Medium { page, file };

// A drawing as SVG; (0, 0) is its upper left. What a thing says is shown where a pointer rests on
// it.
class Svg {
 public:
  // `label` is for those who cannot see it.
  Svg(double width, double height, Medium medium, const std::string& label = "");

  void line(const std::vector<std::pair<double, double>>& points, const LineStyle& style);
  void disc(double x, double y, double radius, Colour colour, const std::string& says = "");
  void polygon(const std::vector<std::pair<double, double>>& corners, Colour colour,
               const std::string& says = "");
  void rectangle(double x, double y, double width, double height, Colour colour, double opacity = 1,
                 const std::string& says = "");

  // `y` is the middle of the letters' height.
  void text(double x, double y, const std::string& text, const TextStyle& style);

  // Every pixel of a PNG is a square.
  void image(double x, double y, double width, double height, const std::string& png);

  // What is drawn between these belongs together, under a name that a page's script finds it by.
  void begin_group(const std::string& name);
  void end_group();

  std::string str() const;

 private:
  std::string painted(const char* attribute, Colour colour, double opacity = 1) const;
  void add(const std::string& element, const std::string& attributes, const std::string& says);

  Medium medium_;
  std::string content_;
};

// How wide a text is drawn, about; letters are of several widths, and fonts differ.
double text_width(const std::string& text, double size, bool bold = false);

// The text in lines no wider than `width`, broken at spaces.
std::vector<std::string> wrapped(const std::string& text, double size, double width,
                                 bool bold = false);

// The name of a solver, which has no spaces, in such lines: it may break after what parts it.
std::vector<std::string> name_lines(const std::string& name, double size, double width,
                                    bool bold = false);

}  // namespace bespoke
