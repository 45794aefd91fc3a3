#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bespoke/solver/catalogue.h"

namespace bespoke::testing {

// The parameters of a test that runs once for every solver in the catalogue.
inline std::vector<std::string> catalogue_names() {
  std::vector<std::string> names;
  for (const auto& entry : catalogue()) names.push_back(entry.name);
  return names;
}

// Test names take letters, digits and underscores only.
inline std::string catalogue_test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name;
  for (const char c : info.param) name += c == '+' ? 'p' : c == '-' ? '_' : c;
  return name;
}

}  // namespace bespoke::testing
