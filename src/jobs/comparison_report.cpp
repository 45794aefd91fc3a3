#include "bespoke/jobs/comparison_report.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <set>
#include <utility>

#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/text.h"
#include "bespoke/jobs/distill_run.h"
#include "bespoke/solver/solver_file.h"
#include "bespoke/version.h"

namespace bespoke {

using namespace detail;

namespace {

// The solvers of one run make one line of a chart: the files of version 1 had one each, "bns-nfe8".
std::string family_name(const SolverFile& file) {
  return file.name.substr(0, file.name.find("-nfe"));
}

const SolverFile* file_of(const ModelComparison& compared, const ComparisonRow& row) {
  const auto found = compared.prepared.contenders.files.find(row.name);
  return found == compared.prepared.contenders.files.end() ? nullptr : &found->second;
}

// Whether another row would be taken for this one if both went by their families.
bool is_ambiguous(const ModelComparison& compared, const ComparisonRow& row,
                  const SolverFile& file) {
  const std::string family = family_name(file);
  const CostUnit unit = unit_of(compared.figures);
  for (const auto& other : compared.figures.rows) {
    if (other.name == row.name) continue;
    const SolverFile* theirs = file_of(compared, other);
    if (theirs == nullptr
            ? other.name == family
            : family_name(*theirs) == family && cost_of(other, unit) == cost_of(row, unit)) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string few_samples_note(int64_t count) {
  if (count >= kEnoughSamples) return "";
  return fmt::format(" {} sample{} few: others may differ by decibels.", count,
                     count == 1 ? " is" : "s are");
}

std::string line_name(const ModelComparison& compared, const ComparisonRow& row) {
  const SolverFile* file = file_of(compared, row);
  if (file == nullptr) return row.name;
  return is_ambiguous(compared, row, *file) ? row.name : family_name(*file);
}

namespace {

bool is_distilled(const ModelComparison& compared, const ComparisonRow& row) {
  const SolverFile* file = file_of(compared, row);
  return file != nullptr && file->provenance_of(row.nfe).is_distilled();
}

// What a row is called.
using RowName = std::string (*)(const ModelComparison& compared, const ComparisonRow& row);

ReportRow report_row(const ModelComparison& compared, const ComparisonRow& row, RowName named) {
  return {named(compared, row),
          cost_of(row, unit_of(compared.figures)),
          row.psnr(),
          row.figure("snr_db").value_or(NAN),
          row.figure("latent_psnr_db"),
          row.figure("mse_median").value_or(NAN),
          row.seconds,
          row.figure("fd_ref"),
          row.figure("fd_real"),
          row.figure("agreement"),
          is_distilled(compared, row),
          row.psnr_error()};
}

// What made the solvers goes before what made the figures, each once.
void add_commands(Report& report, const std::vector<std::string>& of_solvers) {
  std::vector<std::string> all = report.commands;
  for (auto command = of_solvers.rbegin(); command != of_solvers.rend(); ++command) {
    if (std::find(all.begin(), all.end(), *command) == all.end()) all.insert(all.begin(), *command);
  }
  report.commands = all;
}

// Of what a program has to say of its own; a dash where it says nothing.
std::string own_text(const Provenance& provenance, const char* key) {
  const auto value = provenance.more.value(key, nlohmann::json("-"));
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

std::string count_text(const std::optional<int64_t>& count) {
  return count ? grouped(*count) : "-";
}

void add_distilled(Report& report, const ModelComparison& compared, const ComparisonRow& row) {
  const SolverFile& file = *file_of(compared, row);
  const std::string name = line_name(compared, row);
  const NsSolver& solver = file.at(row.nfe);
  const int cost = cost_of(row, unit_of(compared.figures));
  report.solvers.push_back({name, cost, solver, read_file(row.name)});
  const auto log = distillation_log(std::filesystem::path(row.name).parent_path(), solver);
  const Provenance provenance = file.provenance_of(row.nfe);
  if (is_file(log)) {
    report.training.push_back({name, cost, parse_training_log(read_file(log)),
                               static_cast<double>(provenance.screening_forwards.value_or(0)),
                               provenance.initial_psnr});
  }
  report.provenance.emplace_back(
      fmt::format("{} of {} evaluations", name, row.nfe),
      fmt::format("{}, {} iterations from {}, {} evaluations, seed {}; pairs {}",
                  provenance.made_by, count_text(provenance.iterations), provenance.start,
                  count_text(provenance.forwards ? provenance.forwards : provenance.calls),
                  own_text(provenance, "seed"), own_text(provenance, "pairs")));
}

}  // namespace

const ComparisonRow* featured_row(const ModelComparison& compared) {
  const CostUnit unit = unit_of(compared.figures);
  const ComparisonRow *featured = nullptr, *nearest = nullptr;
  bool rivals = false;
  double lead = 0;
  for (const auto& row : compared.figures.rows) {
    if (!is_distilled(compared, row) || !std::isfinite(row.psnr())) continue;
    if (nearest == nullptr || row.psnr() > nearest->psnr()) nearest = &row;
    double best = -INFINITY;
    for (const auto& other : compared.figures.rows) {
      const bool rival = &other != &row && cost_of(other, unit) == cost_of(row, unit);
      if (rival && std::isfinite(other.psnr())) best = std::max(best, other.psnr());
    }
    if (std::isinf(best)) continue;
    rivals = true;
    if (!(row.psnr() - best > lead)) continue;
    lead = row.psnr() - best;
    featured = &row;
  }
  return rivals ? featured : nearest;
}

namespace {

// Sounds may be [count, length], images are shown in three channels or one.
bool can_be_shown(const OpenModel& open, const torch::Tensor& samples) {
  if (!samples.defined()) return false;
  if (open.card.sample_rate > 0) return samples.dim() == 2 || samples.dim() == 3;
  return samples.dim() == 4 && (samples.size(1) == 1 || samples.size(1) == 3);
}

torch::Tensor as_shown(const torch::Tensor& samples) {
  return samples.dim() == 2 ? samples.unsqueeze(1) : samples;
}

// That of the featured solver, or of the first distilled one, or of the first of all.
int shown_cost(const Report& report) {
  if (report.featured_cost > 0) return report.featured_cost;
  for (const auto& row : report.rows) {
    if (row.distilled) return row.cost;
  }
  return report.rows.empty() ? 0 : report.rows.front().cost;
}

// Several, distilled in other ways or for other costs, and nothing else.
bool are_all_distilled(const Report& report) {
  const auto& rows = report.rows;
  return rows.size() > 1 &&
         std::all_of(rows.begin(), rows.end(), [](const ReportRow& row) { return row.distilled; });
}

// All solvers at the costs of the distilled ones, which come first, the cheapest on top. Where
// there are no others they are seen at all costs at once.
ReportGallery make_gallery(const ModelComparison& compared, const Report& report) {
  ReportGallery gallery;
  const auto& figures = compared.figures;
  if (!can_be_shown(compared.prepared.open, figures.reference.samples)) return gallery;
  gallery.shown_cost = shown_cost(report);
  std::set<int> costs = {gallery.shown_cost};
  for (const auto& row : report.rows) {
    if (row.distilled) costs.insert(row.cost);
  }
  const CostUnit unit = unit_of(figures);
  gallery.reference = {"reference", 0, false, as_shown(figures.reference.samples)};
  for (const auto& row : figures.rows) {
    const int cost = cost_of(row, unit);
    if (costs.count(cost) == 0 || !row.samples.defined()) continue;
    gallery.others.push_back(
        {line_name(compared, row), cost, is_distilled(compared, row), as_shown(row.samples)});
  }
  if (are_all_distilled(report)) gallery.shown_cost = 0;
  std::stable_sort(gallery.others.begin(), gallery.others.end(),
                   [](const ReportSamples& left, const ReportSamples& right) {
                     return std::make_pair(!left.distilled, left.cost) <
                            std::make_pair(!right.distilled, right.cost);
                   });
  const auto& prompts = compared.prepared.samples.prompts;
  if (!prompts.empty()) {
    gallery.prompts.assign(prompts.begin(), prompts.begin() + gallery.reference.values.size(0));
  }
  if (compared.prepared.inputs.gaps != nullptr) {
    gallery.spans = compared.prepared.inputs.gaps->spans(0, gallery.reference.values.size(0));
  }
  const ValueRange range =
      value_range(compared.prepared.open, compared.prepared.open.decoder != nullptr);
  gallery.least = range.least;
  gallery.most = range.most;
  gallery.sample_rate = static_cast<int>(compared.prepared.open.card.sample_rate);
  return gallery;
}

void add_provenance(Report& report, const ModelComparison& compared) {
  const OpenModel& open = compared.prepared.open;
  const auto add = [&](const std::string& key, const std::string& value) {
    if (!value.empty()) report.provenance.emplace_back(key, value);
  };
  add("model", open.title());
  if (open.network) add("weights SHA-256", open.identity().value("weights_sha256", ""));
  add("licence", open.card.licence);
  add("source", open.card.source);
  add("samples", compared.prepared.samples.title);
  add("reference",
      fmt::format("Dormand-Prince 5(4), tolerance {:g}, {:.1f} evaluations per sample",
                  compared.prepared.job.tolerance, compared.figures.reference_evaluations));
  for (const auto& note : compared.prepared.contenders.notes) add("chosen", note);
  if (compared.catalogue) {
    add("best of the catalogue",
        fmt::format("chosen anew at each number of evaluations, over all grids, on the first {} "
                    "samples; {} where it gets there or was last tried",
                    searched_samples(compared.prepared.samples.count()),
                    compared.catalogue->solver));
  }
  if (compared.figures.reference.figure("fd_real")) {
    add("reference's Fréchet distance to real data",
        fmt::format("{:.4g}", *compared.figures.reference.figure("fd_real")));
  }
  add("made by", fmt::format("bespoke {} with LibTorch {}.{}", BESPOKE_VERSION, TORCH_VERSION_MAJOR,
                             TORCH_VERSION_MINOR));
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[64];
  std::strftime(text, sizeof(text), "%d %B %Y", std::gmtime(&now));
  return text;
}

Report report_of_figures(const ModelComparison& compared, RowName named) {
  Report report;
  const std::string& title = compared.prepared.open.card.name;
  report.model = title.empty() ? compared.prepared.open.name : title;
  report.of = fmt::format("{}, {} space{}.{}", compared.prepared.samples.title,
                          compared.prepared.job.of_decoded ? "decoded" : "sample",
                          compared.prepared.inputs.counted,
                          few_samples_note(compared.prepared.samples.count()));
  report.peak = value_peak(compared.prepared.open, compared.prepared.job.of_decoded);
  report.reference_cost = compared.figures.reference_evaluations;
  if (unit_of(compared.figures) == CostUnit::network_calls) {
    report.unit = "network call";
    report.reference_cost *= 2;  // every evaluation of it is guided
  }
  const ComparisonRow* featured = featured_row(compared);
  for (const auto& row : compared.figures.rows) {
    report.rows.push_back(report_row(compared, row, named));
    if (&row != featured) continue;
    report.featured_solver = report.rows.back().solver;
    report.featured_cost = report.rows.back().cost;
  }
  report.catalogue = compared.catalogue;
  // Every evaluation of the catalogue's is guided.
  if (report.catalogue && report.unit != "evaluation") report.catalogue->needed.cost *= 2;
  return report;
}

}  // namespace

std::string finding_of(const ModelComparison& compared) {
  return headline(report_of_figures(
      compared, [](const ModelComparison&, const ComparisonRow& row) { return row.name; }));
}

Report make_report(const ModelComparison& compared, const std::vector<std::string>& commands) {
  Report report = report_of_figures(compared, line_name);
  report.commands = commands;
  add_provenance(report, compared);
  std::vector<std::string> of_solvers;
  for (const auto& row : compared.figures.rows) {
    if (!is_distilled(compared, row)) continue;
    add_distilled(report, compared, row);
    const Provenance provenance = file_of(compared, row)->provenance_of(row.nfe);
    if (!provenance.command.empty()) {
      of_solvers.push_back(provenance.command);
    }
  }
  add_commands(report, of_solvers);
  report.gallery = make_gallery(compared, report);
  report.date = today();
  return report;
}

}  // namespace bespoke
