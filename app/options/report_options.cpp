#include "options/report_options.h"

#include <fmt/format.h>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/message.h"
#include "bespoke/report/report_pictures.h"
#include "options/retired_options.h"

namespace bespoke {

using namespace detail;

void ReportOptions::add_to(CLI::App& command) {
  command.add_option("--report", page,
                     "write a page with charts, tables and samples: an HTML file");
  command.add_option("--svg", pictures,
                     "write the charts and sample grids as SVG into this folder");
  add_retired_option(command, "--png", "write --svg FOLDER (rsvg-convert makes PNGs of SVGs)");
  command.add_flag("--force", force, "overwrite a report or pictures that are there already");
}

void ReportOptions::check() const {
  std::error_code unknown;
  if (!page.empty() && std::filesystem::is_directory(page, unknown)) {
    throw usage_error("--report {} is a folder; name a file in it", page);
  }
  if (force) return;
  const auto refuse = [](const std::filesystem::path& path) {
    if (!is_file(path)) return;
    throw usage_error("{} is there already; add --force to overwrite it, or name another",
                      path.string());
  };
  if (!page.empty()) refuse(page);
  if (!pictures.empty()) refuse(std::filesystem::path(pictures) / "psnr.svg");
}

void ReportOptions::make_room() const {
  const auto folder = std::filesystem::path(page).parent_path();
  if (!folder.empty()) make_folders(folder);
  if (!pictures.empty()) make_folders(pictures);
}

void write_reports(const Report& report, const ReportOptions& options) {
  if (!options.pictures.empty()) {
    for (const auto& picture : report_pictures(report)) {
      write_file_atomically(std::filesystem::path(options.pictures) / picture.name, picture.svg);
    }
    say("pictures: {}", options.pictures);
  }
  // Last: where the page is, all is.
  if (options.page.empty()) return;
  write_report(options.page, render_html(report), options.force);
  say("report: {}", options.page);
}

}  // namespace bespoke
