#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "bespoke/report/report.h"

namespace bespoke {

// The flags that ask for something to look at.
struct ReportFlags {
  std::string page;      // an HTML file
  std::string pictures;  // a folder
  bool force = false;

  void add_to(CLI::App& command);
  bool any() const { return !page.empty() || !pictures.empty(); }
  // Whether they can be written and are not there already: asked before the work, not after it.
  // Makes the folders.
  void check() const;
};

// Writes what was asked for; says on stderr where it is.
void write_reports(const Report& report, const ReportFlags& flags);

}  // namespace bespoke
