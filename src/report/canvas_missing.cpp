// In place of canvas.cpp where cairo was not found.

#include "bespoke/base/error.h"
#include "bespoke/report/chart.h"
#include "canvas.h"

namespace bespoke {

namespace {

Error without_cairo() {
  return Error(ErrorKind::failed,
               "this build draws no charts; install libcairo2-dev and build Bespoke again");
}

}  // namespace

struct Canvas::Surface {};

Canvas::Canvas(double, double) { throw without_cairo(); }
Canvas::~Canvas() = default;
void Canvas::line(const std::vector<std::pair<double, double>>&, Colour, double) {}
void Canvas::disc(double, double, double, Colour) {}
void Canvas::rectangle(double, double, double, double, Colour) {}
void Canvas::text(double, double, const std::string&, const TextStyle&) {}
void Canvas::image(double, double, const std::vector<unsigned char>&, int, int, double) {}
std::string Canvas::png() const { throw without_cairo(); }

bool charts_are_built() { return false; }

double text_width(const std::string&, double, bool) { throw without_cairo(); }
std::vector<std::string> wrapped(const std::string&, double, double) { throw without_cairo(); }

}  // namespace bespoke
