#include "svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>

#include "bespoke/base/base64.h"
#include "bespoke/base/text.h"
#include "template.h"

namespace bespoke {

namespace {

// A hundredth of a point is less than anybody sees.
std::string place(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string places(const std::vector<std::pair<double, double>>& points) {
  std::string text;
  for (const auto& [x, y] : points) {
    text += (text.empty() ? "" : " ") + place(x) + "," + place(y);
  }
  return text;
}

const char* name_of(Anchor anchor) {
  return anchor == Anchor::start ? "start" : anchor == Anchor::middle ? "middle" : "end";
}

// Names come from users: what XML cannot hold, broken letters and signs that control a terminal, is
// replaced.
std::string shown(const std::string& text) {
  using nlohmann::json;
  std::string valid = json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace));
  for (char& c : valid) {
    if (static_cast<unsigned char>(c) < ' ') c = '?';
  }
  return escape_html(valid);
}

}  // namespace

Colour series_colour(size_t place) { return kSeriesColours[place % std::size(kSeriesColours)]; }

Svg::Svg(double width, double height, Medium medium, const std::string& label) : medium_(medium) {
  const std::string size = place(width) + " " + place(height);
  if (medium == Medium::page) {
    content_ = fmt::format("<svg viewBox=\"0 0 {}\" role=\"img\" aria-label=\"{}\">\n", size,
                           shown(label));
    return;
  }
  content_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {}\" "
      "font-family=\"DejaVu Sans, Verdana, Helvetica, Arial, sans-serif\">\n"
      "<title>{}</title>\n",
      place(width), place(height), size, shown(label));
  rectangle(0, 0, width, height, kPaper);
}

// A page's properties are known to styles alone, and what converts files knows attributes alone.
std::string Svg::painted(const char* attribute, Colour colour, double opacity) const {
  const std::string paint = medium_ == Medium::page
                                ? fmt::format("style=\"{}:var({})\"", attribute, colour.property)
                                : fmt::format("{}=\"{}\"", attribute, colour.on_white);
  return opacity == 1 ? paint : fmt::format("{} {}-opacity=\"{:.3g}\"", paint, attribute, opacity);
}

void Svg::add(const std::string& element, const std::string& attributes, const std::string& says) {
  if (says.empty()) {
    content_ += fmt::format("<{} {}/>\n", element, attributes);
  } else {
    content_ +=
        fmt::format("<{0} {1}><title>{2}</title></{0}>\n", element, attributes, shown(says));
  }
}

void Svg::line(const std::vector<std::pair<double, double>>& points, const LineStyle& style) {
  add("polyline",
      fmt::format("points=\"{}\" fill=\"none\" {} stroke-width=\"{}\" stroke-linejoin=\"round\"{}",
                  places(points), painted("stroke", style.colour, style.opacity),
                  place(style.width), style.dashed ? " stroke-dasharray=\"8 4\"" : ""),
      "");
}

void Svg::disc(double x, double y, double radius, Colour colour, const std::string& says) {
  add("circle",
      fmt::format("cx=\"{}\" cy=\"{}\" r=\"{}\" {}", place(x), place(y), place(radius),
                  painted("fill", colour)),
      says);
}

void Svg::polygon(const std::vector<std::pair<double, double>>& corners, Colour colour,
                  const std::string& says) {
  add("polygon", fmt::format("points=\"{}\" {}", places(corners), painted("fill", colour)), says);
}

void Svg::rectangle(double x, double y, double width, double height, Colour colour, double opacity,
                    const std::string& says) {
  add("rect",
      fmt::format("x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" {}", place(x), place(y),
                  place(width), place(height), painted("fill", colour, opacity)),
      says);
}

void Svg::text(double x, double y, const std::string& text, const TextStyle& style) {
  // Capitals and figures are about 0.73 of a font's size high.
  content_ += fmt::format(
      "<text x=\"{}\" y=\"{}\" font-size=\"{}\" {}{}{}>{}</text>\n", place(x),
      place(y + 0.365 * style.size), place(style.size), painted("fill", style.colour),
      style.anchor == Anchor::start ? ""
                                    : fmt::format(" text-anchor=\"{}\"", name_of(style.anchor)),
      style.bold ? " font-weight=\"bold\"" : "", shown(text));
}

void Svg::image(double x, double y, double width, double height, const std::string& png) {
  add("image",
      fmt::format("x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" "
                  "style=\"image-rendering:pixelated\" href=\"{}\"",
                  place(x), place(y), place(width), place(height),
                  detail::data_uri("image/png", png)),
      "");
}

void Svg::begin_group(const std::string& name) {
  content_ += fmt::format("<g data-name=\"{}\">\n", shown(name));
}

void Svg::end_group() { content_ += "</g>\n"; }

std::string Svg::str() const { return content_ + "</svg>\n"; }

double text_width(const std::string& text, double size, bool bold) {
  constexpr double kNarrow = 0.36, kUsual = 0.63, kCapital = 0.72, kWide = 0.95, kBold = 1.1;
  double ems = 0;
  for (const char c : text) {
    const bool continues = (static_cast<unsigned char>(c) & 0xC0) == 0x80;  // a letter of UTF-8
    if (continues) continue;
    const bool capital = c >= 'A' && c <= 'Z';
    const bool wide = c != 0 && std::strchr("mwMW@%", c) != nullptr;
    const bool narrow = c != 0 && std::strchr(" .,:;'|!()[]/ijlItfr-", c) != nullptr;
    ems += wide ? kWide : narrow ? kNarrow : capital ? kCapital : kUsual;
  }
  return ems * size * (bold ? kBold : 1);
}

std::vector<std::string> wrapped(const std::string& text, double size, double width, bool bold) {
  std::vector<std::string> lines;
  for (const auto& word : detail::split(text, ' ')) {
    const bool fits = !lines.empty() && text_width(lines.back() + " " + word, size, bold) <= width;
    if (fits) {
      lines.back() += " " + word;
    } else if (!word.empty()) {
      lines.push_back(word);
    }
  }
  return lines;
}

std::vector<std::string> name_lines(const std::string& name, double size, double width, bool bold) {
  std::vector<std::string> lines = {""};
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find_first_of("/:,@ ", begin), name.size() - 1) + 1;
    const std::string part = name.substr(begin, end - begin);
    const bool fits = lines.back().empty() || text_width(lines.back() + part, size, bold) <= width;
    if (!fits) lines.emplace_back();
    lines.back() += part;
    begin = end;
  }
  return lines;
}

}  // namespace bespoke
