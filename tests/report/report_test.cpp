#include "bespoke/report/report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/io/image.h"
#include "bespoke/io/png.h"
#include "report/made_up_report.h"
#include "self_guided.h"
#include "temporary_folder.h"

namespace bespoke {

using namespace detail;
namespace {

using testing::made_up_audio_report;
using testing::made_up_image_report;
using testing::made_up_report;

size_t occurrences(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// The bytes of every data URI of a media type, in the page's order. Decoded on its own account.
std::vector<std::string> embedded_files(const std::string& html, const std::string& media_type) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::string open = "src=\"data:" + media_type + ";base64,";
  std::vector<std::string> files;
  for (size_t at = html.find(open); at != std::string::npos; at = html.find(open, at + 1)) {
    std::string bytes;
    uint32_t bits = 0;
    int held = 0;
    for (size_t i = at + open.size(); html[i] != '"' && html[i] != '='; ++i) {
      bits = bits << 6 | uint32_t(digits.find(html[i]));
      held += 6;
      if (held >= 8) bytes += char(bits >> (held -= 8) & 255);
    }
    files.push_back(bytes);
  }
  return files;
}

TEST(Report, SaysWhatWasAchieved) {
  Report report;
  report.model = "m";
  report.rows = {{"bns", 8, 45.8}, {"midpoint", 20, 45.0}, {"midpoint", 24, 47.0}};
  report.rows[0].distilled = true;
  // 45.8 lies 0.4 of the way from 20 to 24: 21.6, which is 2.7 times 8.
  const std::string html = render_html(report);
  EXPECT_NE(html.find("<strong>8 evaluations</strong> reach 45.8 dB. <span>midpoint needs 22 for "
                      "the same, 2.7 times as many.</span>"),
            std::string::npos);
  EXPECT_NE(html.find("<b>2.7×</b>speed-up in evaluations over midpoint"), std::string::npos);
  EXPECT_NE(html.find("<td>21.6 <small>2.7×</small></td>"), std::string::npos);
}

TEST(Report, SaysWhenNothingElseGetsThere) {
  Report report;
  report.rows = {{"bns", 8, 45.8}, {"euler", 20, 30}, {"heun", 16, 31}};
  report.rows[0].distilled = true;
  const std::string html = render_html(report);
  // Heun was measured up to 16 only: more cannot be said of all.
  EXPECT_NE(html.find("No other solver measured reaches that, with up to 16 evaluations."),
            std::string::npos);
  EXPECT_NE(html.find("<b>&gt; 2.0×</b>speed-up in evaluations over every other solver measured"),
            std::string::npos);
  EXPECT_NE(html.find("<td>&gt; 20</td>"), std::string::npos);
}

TEST(Report, NeedsNeitherDistilledSolversNorAnythingElse) {
  Report report;
  EXPECT_NE(render_html(report).find("No solver came to an end."), std::string::npos);
  report.rows = {{"euler", 8, 30}, {"heun", 8, 31}};
  const std::string html = render_html(report);
  EXPECT_NE(html.find("heun comes nearest: <strong>31.0 dB</strong>"), std::string::npos);
  for (const char* absent : {"id=\"equal\"", "id=\"frechet\"", "id=\"samples\"", "id=\"solver\"",
                             "id=\"training\"", "id=\"commands\"", "id=\"provenance\""}) {
    EXPECT_EQ(html.find(absent), std::string::npos) << absent;
  }
}

TEST(Report, DrawsEveryFigure) {
  const Report report = made_up_report();
  const std::string html = render_html(report);
  for (const auto& row : report.rows) {
    if (!std::isfinite(row.psnr)) continue;
    const std::string error = row.psnr_error > 0 ? fmt::format(" ± {:.2g}", row.psnr_error) : "";
    const auto says = [&](double figure, const std::string& more) {
      return fmt::format("<title>{}, {} evaluations: {:.4g}{}</title>", row.solver, row.cost,
                         figure, more);
    };
    // The chart of PSNR twice, for wide screens and for phones.
    EXPECT_GE(occurrences(html, says(row.psnr, error)), 2u) << says(row.psnr, error);
    EXPECT_GE(occurrences(html, says(*row.frechet_real, "")), 1u) << row.solver;
  }
  // Each training curve has a line for each start, of PSNR and of the loss.
  EXPECT_EQ(occurrences(html, "<h3>Validation PSNR</h3><svg"), report.training.size());
  EXPECT_EQ(occurrences(html, "<h3>Loss</h3><svg"), report.training.size());
  EXPECT_NE(html.find("<option selected>bns, 8 evaluations ("), std::string::npos);
}

TEST(Report, CountsInItsUnit) {
  Report report = made_up_report();
  report.unit = "network call";
  report.reference_cost = 160;
  const NsSolver plain = report.solvers[0].numbers;
  report.solvers[0].numbers = testing::guided_in_the_first(plain, 2, 3);
  report.rows.back().agreement = 0.875;
  report.rows.back().latent_psnr = 33.25;
  const std::string html = render_html(report);
  for (const char* words :
       {"Quality against network calls", "Network calls for equal quality", "8 network calls",
        "(160 network calls per sample)", ">network calls</button>", "c<sub>1</sub>",
        "data-name=\"c3,1\"", "agreement, %", ">87.5</td>", "PSNR of latents, dB", ">33.25</td>"}) {
    EXPECT_NE(html.find(words), std::string::npos) << words;
  }
  EXPECT_EQ(html.find("c<sub>2</sub>"), std::string::npos);
  EXPECT_EQ(html.find("{{"), std::string::npos);
}

TEST(Report, EscapesWhatUsersWrite) {
  const std::string evil = "</script><img src=x onerror=alert(1)>\"'&<!--";
  Report report = made_up_image_report();
  const size_t scripts = occurrences(render_html(report), "</script>");
  report.model = report.of = report.date = evil;
  for (auto& row : report.rows) row.solver += evil;
  for (auto& solver : report.solvers) solver.solver += evil;
  for (auto& curve : report.training) curve.solver += evil;
  for (auto& samples : report.gallery.others) samples.solver += evil;
  report.gallery.reference.solver += evil;
  report.gallery.prompts.assign(8, evil);
  report.commands = {evil};
  report.provenance = {{evil, evil}};
  const std::string html = render_html(report);
  EXPECT_EQ(html.find("<img src=x"), std::string::npos);
  EXPECT_EQ(occurrences(html, "</script>"), scripts);
  EXPECT_EQ(html.find("onerror=alert(1)>"), std::string::npos);
  EXPECT_NE(html.find("<pre><code><span>&lt;/script&gt;&lt;img</span> <span>src=x</span> "
                      "<span>onerror=alert(1)&gt;&quot;&#39;&amp;&lt;!--</span></code>"),
            std::string::npos);
}

TEST(Report, TakesNamesWithBracesAndBrokenUtf8) {
  Report report = made_up_report();
  report.model = "{{css}}";
  report.rows[0].solver = "\xff";
  const std::string html = render_html(report);
  EXPECT_NE(html.find("<h1>{{css}}</h1>"), std::string::npos);
  EXPECT_NE(html.find("<title>\xEF\xBF\xBD, "), std::string::npos);
}

// Nothing but data URIs and places on the page itself in what a browser would load.
void expect_self_contained(const std::string& html) {
  for (const char* attribute : {"src=\"", "href=\"", "srcset=\"", "action=\"", "poster=\""}) {
    const std::string name = attribute;
    for (size_t at = html.find(name); at != std::string::npos; at = html.find(name, at + 1)) {
      const std::string target = html.substr(at + name.size(), 6);
      EXPECT_TRUE(target.rfind("data:", 0) == 0 || target[0] == '#') << target;
    }
  }
  for (const char* loader : {"url(", "@import", "fetch(", "XMLHttpRequest", "importScripts"}) {
    EXPECT_EQ(html.find(loader), std::string::npos) << loader;
  }
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
}

TEST(Report, FetchesNothing) { expect_self_contained(render_html(made_up_image_report())); }

TEST(Report, HoldsTheVeryImages) {
  const Report report = made_up_image_report();
  const auto files = embedded_files(render_html(report), "image/png");
  ASSERT_EQ(files.size(), 8 * (1 + 2 * report.gallery.others.size()));
  const testing::TemporaryFolder folder;
  const auto image = [&](size_t index) {
    write_file_atomically(folder.path() / "x.png", files[index]);
    return read_png(folder.path() / "x.png").image;
  };
  EXPECT_TRUE(torch::equal(image(3), to_bytes(report.gallery.reference.values[3], -1, 1)));
  // Behind the reference, samples and error maps alternate: eight times too bright, of 2.
  const auto& euler = report.gallery.others.back().values;
  const torch::Tensor error = (euler[7] - report.gallery.reference.values[7]).abs();
  EXPECT_TRUE(torch::equal(image(files.size() - 2), to_bytes(euler[7], -1, 1)));
  EXPECT_TRUE(torch::equal(image(files.size() - 1), to_bytes(error.to(torch::kDouble) * 8, 0, 2)));
}

TEST(Report, ShowsEachPromptUnderItsImage) {
  Report report = made_up_image_report();
  EXPECT_EQ(render_html(report).find("prompts\""), std::string::npos);
  for (int i = 0; i < 8; ++i) report.gallery.prompts.push_back(fmt::format("{} keys & more", i));
  const std::string html = render_html(report);
  EXPECT_NE(html.find("<small>7 keys &amp; more</small>"), std::string::npos);
  EXPECT_NE(html.find("sample 3 of reference: 2 keys &amp; more"), std::string::npos);
  report.gallery.prompts.pop_back();
  EXPECT_THROW(render_html(report), Error);
}

TEST(Report, HoldsTheSounds) {
  const Report report = made_up_audio_report();
  const std::string html = render_html(report);
  expect_self_contained(html);
  const auto files = embedded_files(html, "audio/wav");
  ASSERT_EQ(files.size(), 2 * (1 + report.gallery.others.size()));
  for (const auto& file : files) {
    EXPECT_EQ(file.substr(0, 4), "RIFF");
    EXPECT_EQ(file.size(), 44u + 2 * 8000);
  }
}

TEST(Report, RefusesSamplesThatDoNotMatch) {
  Report report = made_up_image_report();
  report.gallery.others[0].values = torch::zeros({8, 3, 16, 16});
  EXPECT_THROW(render_html(report), Error);
  report.gallery.reference.values = torch::zeros({8, 3});
  EXPECT_THROW(render_html(report), Error);
}

TEST(Report, IsNotWrittenOverSilently) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "report.html";
  write_report(path, "first", false);
  try {
    write_report(path, "second", false);
    FAIL() << "it was written over";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("is there already"), std::string::npos);
  }
  EXPECT_EQ(read_file(path), "first");
  write_report(path, "second", true);
  EXPECT_EQ(read_file(path), "second");
}

TEST(Headline, SaysWhatTheOthersNeed) {
  Report report;
  report.rows = {{"bns", 8, 45}, {"euler", 8, 20}, {"midpoint", 16, 40}, {"midpoint", 32, 50}};
  report.rows[0].distilled = true;
  EXPECT_EQ(headline(report),
            "8 evaluations of bns reach 45.0 dB. midpoint needs 24 for the same, 3.0 times as "
            "many.");
  report.rows[0].psnr_error = 0.26;
  EXPECT_EQ(headline(report).substr(0, 44), "8 evaluations of bns reach 45.0 ± 0.3 dB. m");
}

// What the solver is worth is what the best of all others costs, not the worst, nor the reference.
TEST(Headline, SaysWhatTheBestOfTheCatalogueNeeds) {
  using Kind = CostNeeded::Kind;
  Report report;
  report.reference_cost = 80;
  report.rows = {{"bns", 8, 45}, {"euler", 8, 20}, {"other", 8, 40}, {"other", 12, 41}};
  report.rows[0].distilled = report.rows[2].distilled = report.rows[3].distilled = true;
  report.featured_solver = "bns";
  report.featured_cost = 8;
  report.catalogue = {"unipc3-bh2/karras", {Kind::interpolated, 19.2}};
  const auto says = [&](const std::string& part) {
    return headline(report).find(part) != std::string::npos;
  };
  const auto tile = [&](const std::string& part) {
    return render_html(report).find("<li><b>" + part) != std::string::npos;
  };
  EXPECT_TRUE(
      says("The best of the catalogue (unipc3-bh2/karras) needs about 20 for the same, 2.4 "
           "times as many."))
      << headline(report);
  EXPECT_TRUE(tile("2.4×"));
  EXPECT_FALSE(says("80"));
  report.catalogue->needed = {Kind::more_than, 40};
  EXPECT_TRUE(
      says("Nothing in the catalogue gets there with 40, which is 5.0 times as many; "
           "unipc3-bh2/karras comes nearest."))
      << headline(report);
  EXPECT_TRUE(tile("&gt; 5.0×"));
  report.catalogue->needed = {Kind::at_most, 8};
  EXPECT_TRUE(says("The best of the catalogue (unipc3-bh2/karras) needs at most 8 for the same."));
  EXPECT_TRUE(tile("≤ 1.0×"));
  // Another distilled solver that needs less is told instead.
  report.catalogue->needed = {Kind::interpolated, 19.2};
  report.rows[3].psnr = 50;
  EXPECT_TRUE(says("other needs 10 for the same")) << headline(report);
}

TEST(Report, HoldsFiguresAndSolverForDownload) {
  const std::string page = render_html(made_up_image_report());
  EXPECT_NE(page.find("download=\"figures.csv\" href=\"data:text/csv;base64,"), std::string::npos);
  EXPECT_EQ(occurrences(page, "download=\"bns.solver.json\""), 3u);
}

// One cost is seen at first; pictures for a README hold that alone.
TEST(Report, HidesSamplesOfOtherCosts) {
  const std::string page = render_html(made_up_image_report());
  EXPECT_EQ(occurrences(page, "data-cost=\"8\"><p>"), 7u);
  EXPECT_EQ(occurrences(page, "data-cost=\"8\" hidden>"), 0u);
  EXPECT_EQ(occurrences(page, "data-cost=\"16\" hidden>"), 7u);
  EXPECT_EQ(occurrences(page, "data-costs=\"4,8,16\""), 1u);
}

TEST(Report, SaysNothingOfASpeedUpThatWasNotMeasured) {
  Report report;
  report.rows = {{"bns", 8, 45}, {"euler", 8, 20}};
  report.rows[0].distilled = true;
  EXPECT_EQ(render_html(report).find("1.0×"), std::string::npos);
}

TEST(Headline, DoesNotTakeWhatDivergedForARival) {
  Report report;
  report.rows = {{"bns", 8, 45}, {"heun", 8, NAN}};
  report.rows[0].distilled = true;
  EXPECT_EQ(headline(report), "8 evaluations of bns reach 45.0 dB.");
  report.rows.push_back({"euler", 16, 30});
  EXPECT_NE(headline(report).find("with up to 16 evaluations"), std::string::npos);
}

TEST(Headline, CountsOtherDistilledSolversAmongTheOthers) {
  Report report;
  report.rows = {{"a", 4, 30}, {"b", 8, 40}, {"euler", 8, 20}};
  report.rows[0].distilled = report.rows[1].distilled = true;
  report.featured_solver = "a";
  report.featured_cost = 4;
  EXPECT_EQ(headline(report), "4 evaluations of a reach 30.0 dB. b needs at most 8 for the same.");
  report.featured_solver = "b";
  report.featured_cost = 8;
  EXPECT_EQ(headline(report),
            "8 evaluations of b reach 40.0 dB. No other solver measured reaches that, with up to 4 "
            "evaluations.");
}

TEST(Headline, IsOfTheFeaturedSolver) {
  Report report;
  report.rows = {{"a", 8, 39}, {"b", 8, 40}};
  for (auto& row : report.rows) row.distilled = true;
  report.featured_solver = "b";
  report.featured_cost = 8;
  EXPECT_EQ(headline(report).substr(0, 30), "8 evaluations of b reach 40.0 ");
}

}  // namespace
}  // namespace bespoke
