#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>

#include "bespoke/base/base64.h"
#include "bespoke/base/error.h"
#include "bespoke/io/image.h"
#include "bespoke/io/png.h"
#include "bespoke/io/wav.h"
#include "bespoke/report/spectrogram.h"
#include "sections.h"
#include "template.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr int64_t kMostAcross = 10;  // images beside one another

void check_gallery(const ReportGallery& gallery) {
  const torch::Tensor& first = gallery.reference.values;
  if (first.dim() != 3 && first.dim() != 4) {
    throw bad_input(
        "a gallery shows [count, channels, height, width] or [count, channels, length], found {}",
        first.sizes().vec());
  }
  for (const auto& other : gallery.others) {
    if (!other.values.defined() || other.values.sizes() != first.sizes()) {
      throw bad_input("the samples of {} differ in shape from the reference's", other.solver);
    }
  }
  const auto prompts = static_cast<int64_t>(gallery.prompts.size());
  if (prompts != 0 && prompts != first.size(0)) {
    throw bad_input("a gallery of {} samples has {} prompts", first.size(0), prompts);
  }
  const auto spans = static_cast<int64_t>(gallery.spans.size());
  if (spans != 0 && spans != first.size(0)) {
    throw bad_input("a gallery of {} samples has {} spans", first.size(0), spans);
  }
}

std::string quality_of(const ReportSamples& samples, const Report& report) {
  const auto psnr = measured_psnr(report, samples);
  return psnr ? fmt::format(" · {:.1f} dB", *psnr) : "";
}

std::string maker_of(const ReportSamples& samples, const Report& report) {
  const std::string name = escape_html(samples.solver);
  return samples.cost == 0 ? name : name + " with " + counted(samples.cost, report);
}

// Whether a row is seen before anybody moves the slider.
bool is_shown(const ReportSamples& samples, const Report& report) {
  const int shown = report.gallery.shown_cost;
  return samples.cost == 0 || shown == 0 || samples.cost == shown;
}

// A row: who made it, and what.
std::string strip(const ReportSamples& samples, const Report& report, const std::string& content) {
  const char* kind = samples.cost == 0 ? " reference" : samples.distilled ? " distilled" : "";
  const std::string detail = samples.cost == 0
                                 ? "what is reproduced"
                                 : counted(samples.cost, report) + quality_of(samples, report);
  return fmt::format(
      "<div class=\"strip{}\" data-cost=\"{}\"{}><p><b>{}</b><br><small>{}</small></p>{}</div>\n",
      kind, samples.cost, is_shown(samples, report) ? "" : " hidden", escape_html(samples.solver),
      detail, content);
}

// Chooses among the costs there are samples of; the page's script shows it where it works.
std::string cost_slider(const Report& report) {
  std::set<int> costs;
  for (const auto& samples : report.gallery.others) costs.insert(samples.cost);
  const int shown = report.gallery.shown_cost;
  if (costs.size() < 2 || costs.count(shown) == 0) return "";
  return fmt::format(
      "<p class=\"chooser\" id=\"cost-chooser\" hidden><label for=\"cost\">{0}s</label> "
      "<input type=\"range\" id=\"cost\" min=\"0\" max=\"{1}\" value=\"{2}\" data-costs=\"{3}\" "
      "data-unit=\"{0}\"> "
      "<output for=\"cost\">{4}</output></p>\n",
      report.unit, costs.size() - 1, std::distance(costs.begin(), costs.find(shown)),
      fmt::join(costs, ","), shown);
}

std::string image_html(const torch::Tensor& bytes, const char* kind, const std::string& alt) {
  return fmt::format(
      "<img class=\"{}\" loading=\"lazy\" width=\"{}\" height=\"{}\" alt=\"{}\" src=\"{}\">", kind,
      bytes.size(2), bytes.size(1), alt, data_uri("image/png", encode_png(bytes)));
}

std::string images_begin(int64_t count) {
  return fmt::format("<div class=\"images\" style=\"--count:{}\">", std::min(count, kMostAcross));
}

std::string whose_image(const ReportSamples& samples, const Report& report, int64_t index) {
  const std::vector<std::string>& prompts = report.gallery.prompts;
  std::string whose = fmt::format("sample {} of {}", index + 1, maker_of(samples, report));
  if (prompts.empty()) return whose;
  return whose + ": " + escape_html(prompts[static_cast<size_t>(index)]);
}

// What each column was told to be; nothing where it was told nothing.
std::string prompts_html(const ReportGallery& gallery) {
  if (gallery.prompts.empty()) return "";
  std::string html = "<div class=\"strip prompts\"><p><small>prompts</small></p>" +
                     images_begin(static_cast<int64_t>(gallery.prompts.size()));
  for (const auto& prompt : gallery.prompts) html += "<small>" + escape_html(prompt) + "</small>";
  return html + "</div></div>\n";
}

std::string images_html(const ReportSamples& samples, const Report& report) {
  const ReportGallery& gallery = report.gallery;
  const torch::Tensor values = samples.values.detach().to(torch::kCPU, torch::kDouble);
  const torch::Tensor truth = gallery.reference.values.detach().to(torch::kCPU, torch::kDouble);
  const torch::Tensor shown = to_bytes(values, gallery.least, gallery.most);
  const torch::Tensor errors =
      to_bytes((values - truth).abs() * gallery.error_factor, 0, gallery.most - gallery.least);
  std::string html = images_begin(values.size(0));
  for (int64_t i = 0; i < values.size(0); ++i) {
    const std::string whose = whose_image(samples, report, i);
    // One stop of the Tab key for a row; arrows move inside it.
    html += fmt::format("<button type=\"button\" class=\"zoom\" tabindex=\"{}\">", i == 0 ? 0 : -1);
    html += image_html(shown[i], "sample", whose);
    if (samples.cost != 0) html += image_html(errors[i], "error", "Error map of " + whose);
    html += "</button>";
  }
  return html + "</div>";
}

// What shows one image large.
std::string viewer_html(double error_factor) {
  std::string views;
  for (const auto& [id, name] : std::vector<std::pair<std::string, std::string>>{
           {"sample", "Solver"},
           {"reference", "Reference"},
           {"flicker", "In turns"},
           {"difference", fmt::format("Errors × {:g}", error_factor)}}) {
    views += fmt::format(
        "<label><input type=\"radio\" name=\"view\" id=\"view-{0}\" value=\"{0}\">{1}</label>", id,
        name);
  }
  return "<dialog id=\"viewer\" aria-labelledby=\"viewer-title\">"
         "<button type=\"button\" id=\"viewer-close\" aria-label=\"Close\">×</button>"
         "<p id=\"viewer-title\"></p><img id=\"viewer-image\" alt=\"no image chosen\" "
         "src=\"data:,\">"
         "<fieldset><legend class=\"visually-hidden\">View</legend>" +
         views + "</fieldset></dialog>\n";
}

std::string image_gallery(const Report& report) {
  const ReportGallery& gallery = report.gallery;
  std::string html = fmt::format(
      "<figure class=\"gallery\">\n<fieldset><legend class=\"visually-hidden\">Show</legend>"
      "<label><input type=\"radio\" name=\"show\" id=\"show-samples\" checked>Samples</label>"
      "<label><input type=\"radio\" name=\"show\" id=\"show-errors\">Errors × {:g}</label>"
      "</fieldset>\n",
      gallery.error_factor);
  html += strip(gallery.reference, report, images_html(gallery.reference, report));
  html += prompts_html(gallery);
  for (const auto& samples : gallery.others) {
    html += strip(samples, report, images_html(samples, report));
  }
  html += cost_slider(report);
  html += fmt::format(
      "<figcaption>Each column starts from the same noise. Choose an image to see it large, beside "
      "the reference and in turns with it. Errors are the absolute difference from the reference, "
      "{:g} times as bright; black is exact. {}</figcaption>\n</figure>",
      gallery.error_factor, escape_html(report.of));
  return html + viewer_html(gallery.error_factor);
}

// What is heard, above what it looks like.
std::string player(const ReportSamples& samples, int64_t index, const Report& report) {
  const ReportGallery& gallery = report.gallery;
  const auto place = static_cast<size_t>(index);
  std::optional<TimeSpan> span;
  if (!gallery.spans.empty()) span = gallery.spans[place];
  const torch::Tensor sound = samples.values[index];
  const std::string whose = fmt::format("sample {} of {}", index + 1, maker_of(samples, report));
  const std::string picture =
      image_html(spectrogram_image(sound.mean(0), gallery.sample_rate, span), "spectrogram",
                 "Spectrogram of " + whose);
  return fmt::format(
      "<div><audio controls preload=\"metadata\" aria-label=\"{}\" src=\"{}\"></audio>{}</div>",
      whose, data_uri("audio/wav", encode_wav(sound, gallery.sample_rate)), picture);
}

// "Sample 3: three five two, 0.81 to 1.32 s filled".
std::string sound_heading(const ReportGallery& gallery, int64_t index) {
  const auto place = static_cast<size_t>(index);
  std::string text = fmt::format("Sample {}", index + 1);
  if (!gallery.prompts.empty()) text += ": " + escape_html(gallery.prompts[place]);
  if (gallery.spans.empty()) return text;
  return text + fmt::format(", {:.2f} to {:.2f} s filled", gallery.spans[place].from,
                            gallery.spans[place].to);
}

std::string sound_gallery(const Report& report) {
  const ReportGallery& gallery = report.gallery;
  std::string html = "<figure><div class=\"sounds\">\n";
  for (int64_t i = 0; i < gallery.reference.values.size(0); ++i) {
    html += fmt::format("<div class=\"sound\"><h3>{}</h3>\n", sound_heading(gallery, i));
    html += strip(gallery.reference, report, player(gallery.reference, i, report));
    for (const auto& samples : gallery.others) {
      html += strip(samples, report, player(samples, i, report));
    }
    html += "</div>\n";
  }
  html += "</div>" + cost_slider(report);
  return html + fmt::format(
                    "<figcaption>Each group starts from the same noise; {} Hz. {}"
                    "{}</figcaption></figure>",
                    gallery.sample_rate,
                    gallery.spans.empty() ? "" : "A bar marks what was filled in. ",
                    escape_html(report.of));
}

}  // namespace

std::string gallery_html(const Report& report) {
  if (!report.gallery.reference.values.defined()) return "";
  check_gallery(report.gallery);
  return report.gallery.reference.values.dim() == 4 ? image_gallery(report) : sound_gallery(report);
}

}  // namespace bespoke
