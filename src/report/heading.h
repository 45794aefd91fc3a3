#pragma once

#include <string>
#include <vector>

namespace bespoke {

class Svg;

// The title of a chart and, under it in smaller letters, what it is of. Both are measured before
// there is a sheet, since its height depends on them.
class Heading {
 public:
  Heading(const std::string& title, const std::string& caption, double width);

  double height() const;
  void draw(Svg& svg, double left) const;

 private:
  std::vector<std::string> title_, caption_;
};

}  // namespace bespoke
