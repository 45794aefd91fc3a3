#pragma once

#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace bespoke::testing {

// The attributes of every element of a name, in the order of the drawing.
inline std::vector<std::map<std::string, std::string>> elements(const std::string& svg,
                                                                const std::string& name) {
  std::vector<std::map<std::string, std::string>> found;
  const std::regex element("<" + name + " ([^>]*)>"), attribute("([a-z-]+)=\"([^\"]*)\"");
  for (std::sregex_iterator one(svg.begin(), svg.end(), element), end; one != end; ++one) {
    const std::string text = (*one)[1];
    found.emplace_back();
    for (std::sregex_iterator a(text.begin(), text.end(), attribute); a != end; ++a) {
      found.back()[(*a)[1]] = (*a)[2];
    }
  }
  return found;
}

// Those of one colour.
inline std::vector<std::map<std::string, std::string>> elements(const std::string& svg,
                                                                const std::string& name,
                                                                const std::string& attribute,
                                                                const std::string& colour) {
  std::vector<std::map<std::string, std::string>> found;
  for (const auto& one : elements(svg, name)) {
    const auto value = one.find(attribute);
    if (value != one.end() && value->second == colour) found.push_back(one);
  }
  return found;
}

inline double number(const std::map<std::string, std::string>& element, const std::string& name) {
  return std::stod(element.at(name));
}

// The corners of a line.
inline std::vector<std::pair<double, double>> corners(
    const std::map<std::string, std::string>& element) {
  std::vector<std::pair<double, double>> points;
  std::istringstream text(element.at("points"));
  double x = 0, y = 0;
  char comma = 0;
  while (text >> x >> comma >> y) points.emplace_back(x, y);
  return points;
}

}  // namespace bespoke::testing
