// Writes the pages that the browser test looks at: report_pages FOLDER
// Ends with 77, for skipped, where the build lacks what they are made of.

#include <cstdio>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "report/made_up_report.h"

namespace {

void write_pages(const std::filesystem::path& folder) {
  using namespace bespoke;
  bespoke::detail::make_folders(folder);
  write_report(folder / "images.html", render_html(testing::made_up_image_report()), true);
  write_report(folder / "audio.html", render_html(testing::made_up_audio_report()), true);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: report_pages FOLDER\n", stderr);
    return 2;
  }
  try {
    write_pages(arguments[1]);
  } catch (const bespoke::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return std::string(error.what()).rfind("this build ", 0) == 0 ? 77 : 1;
  }
  return 0;
}
