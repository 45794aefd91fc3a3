#include "heading.h"

#include "svg.h"

namespace bespoke {

namespace {

constexpr double kTitleSize = 15;
constexpr double kCaptionSize = 10.5;
constexpr double kTitleLine = 21;
constexpr double kCaptionLine = 15;
constexpr double kTop = 18;

}  // namespace

Heading::Heading(const std::string& title, const std::string& caption, double width)
    : title_(wrapped(title, kTitleSize, width, true)),
      caption_(wrapped(caption, kCaptionSize, width)) {}

double Heading::height() const {
  return kTop + kTitleLine * double(title_.size()) + kCaptionLine * double(caption_.size()) + 14;
}

void Heading::draw(Svg& svg, double left) const {
  double y = kTop + kTitleLine / 2;
  for (const auto& line : title_) {
    svg.text(left, y, line, {kTitleSize, kInk, Anchor::start, true});
    y += kTitleLine;
  }
  for (const auto& line : caption_) {
    svg.text(left, y, line, {kCaptionSize, kSoft});
    y += kCaptionLine;
  }
}

}  // namespace bespoke
