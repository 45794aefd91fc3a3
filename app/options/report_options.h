#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "bespoke/report/report.h"

namespace bespoke {

// The options that ask for something to look at.
struct ReportOptions {
  std::string page;      // an HTML file
  std::string pictures;  // a folder
  bool force = false;

  void add_to(CLI::App& command);
  bool any() const { return !page.empty() || !pictures.empty(); }
  // Whether this build can make them and they are not there already: asked before all else.
  void check() const;
  // Makes their folders: once all is checked, before the work.
  void make_room() const;
};

// Writes what was asked for; says on stderr where it is.
void write_reports(const Report& report, const ReportOptions& options);

}  // namespace bespoke
