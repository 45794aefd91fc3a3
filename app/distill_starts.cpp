#include "distill_starts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "bespoke/core/error.h"
#include "bespoke/core/text.h"
#include "solver_options.h"

namespace bespoke {

namespace {

// In these coordinates every model's field is bounded and nearly straight, so methods start best.
constexpr char kStraightest[] = "fm-ot";

std::vector<double> sigma_0_values(const std::string& text) {
  if (text == kAuto) return {1, 0.5, 2, 5};
  const double value = parse_number(text, "--sigma0");
  if (!(value > 0)) throw usage_error("--sigma0 must be positive, found {}", text);
  return {value};
}

// The two every family and optimiser can start from, of those that can spend the evaluations.
std::vector<std::string> plain_starts(const std::string& family, int nfe,
                                      const FieldDescription& field,
                                      const std::vector<double>& sigma_0s) {
  std::vector<std::string> names;
  if (family != "bst-rk1" && can_spend("midpoint", nfe)) names.push_back("midpoint");
  if (family == "bns" || family == "bst-rk1") names.push_back("euler");
  const bool preconditioned = sigma_0s.size() == 1 && sigma_0s.front() != 1;
  if (field.schedule->name() == kStraightest || preconditioned) return names;
  for (auto& name : names) name += std::string("@") + kStraightest;
  return names;
}

// The grids to start on. A start decides most by where its times lie: the optimiser soon finds the
// coefficients but, since networks ripple in t, hardly moves a time over a ripple. Times do best
// evenly spaced in log-SNR from where samples begin to show, which with more evaluations is worth
// knowing ever earlier, and is measured against how far the samples deviate from 0
// (docs/distillation.md). Uniform t is for models that are unlike all that was tried.
std::vector<std::string> automatic_grids(const StartRequest& request) {
  const double shift = -std::log(request.data_deviation / 0.5);
  const double centre = -1.25 - 0.75 * std::log2(request.nfe) + shift;
  const double to = 4.5 + shift;
  std::vector<std::string> grids = {"uniform-t"};
  for (const double offset : {-0.8, -0.4, 0.0, 0.4}) {
    const double from = std::max(centre + offset, request.field.schedule->lambda(0));
    const auto grid = fmt::format("lambda-range:from={:.2f},to={:.2f}", from, to);
    if (from < to - 1 && grid != grids.back()) grids.push_back(grid);
  }
  return grids;
}

// Every method that is the nearest to some model with few evaluations, on one grid.
std::vector<std::string> candidates_on(const std::string& grid, int nfe) {
  std::vector<std::string> names;
  for (const std::string name :
       {"midpoint", "ab2", "dpm++2m", "unipc3-bh2", "deis-t-ab3", "ipndm"}) {
    if (can_spend(name, nfe)) names.push_back(name + "/" + grid);
  }
  return names;
}

bool is_number(const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0';
}

// KEY=VALUE or a number, maybe with the schedule after them: no start begins like that.
bool continues_a_grid(const std::string& piece) {
  if (is_solver_file(piece)) return false;
  const std::string head = piece.substr(0, piece.find('@'));
  const bool option =
      head.find('=') != std::string::npos && head.find_first_of(":/") == std::string::npos;
  return option || is_number(head);
}

// Commas separate starts, and the options of a start's grid.
std::vector<std::string> split_starts(const std::string& text) {
  std::vector<std::string> starts;
  for (const auto& piece : split(text, ',')) {
    if (!starts.empty() && continues_a_grid(piece)) {
      starts.back() += "," + piece;
    } else {
      starts.push_back(piece);
    }
  }
  return starts;
}

// NAME, NAME/GRID, NAME@SCHEDULE or a file, under each sigma_0.
void add_starts(const std::string& text, const std::vector<double>& sigma_0s, int nfe,
                const FieldDescription& field, std::vector<NamedStart>& starts) {
  if (is_solver_file(text)) {
    const NsSolver solver = resolve_solver(text, 0, field, {}).solver;
    if (solver.nfe() > nfe) {
      throw usage_error("{} spends {} evaluations, more than --nfe {}", text, solver.nfe(), nfe);
    }
    starts.push_back({text, pad(solver, nfe)});
    return;
  }
  const size_t at = text.find('@');
  const std::string head = text.substr(0, at);
  const bool from_file = head.rfind("tableau:", 0) == 0 || head.rfind("multistep:", 0) == 0;
  const size_t slash = from_file ? std::string::npos : head.find('/');
  const std::string name = head.substr(0, slash);
  for (const double sigma_0 : sigma_0s) {
    SolverOptions options;
    options.sigma_0 = sigma_0;
    if (slash != std::string::npos) options.grid = head.substr(slash + 1);
    // With several values preconditioning, a change of schedule itself, takes the place of another;
    // a single one beside it is a contradiction, which resolve_solver says.
    if (at != std::string::npos && (sigma_0 == 1 || sigma_0s.size() == 1)) {
      options.via = text.substr(at + 1);
    }
    const std::string label = sigma_0 == 1 ? text : fmt::format("{} (sigma_0 {})", name, sigma_0);
    starts.push_back({label, resolve_solver(name, nfe, field, options).solver});
  }
}

}  // namespace

std::vector<NamedStart> make_starts(const DistillCommandOptions& options,
                                    const StartRequest& request, const ChooseStart& choose) {
  const int nfe = request.nfe;
  const bool automatic = options.init == kAuto;
  const auto sigma_0s = sigma_0_values(options.sigma_0);
  // Sigma_0 is a grid of its own, and the published recipe starts from the plain ones.
  const bool screened = automatic && options.family == "bns" && options.optimizer == "lm" &&
                        sigma_0s == std::vector<double>{1};
  std::vector<NamedStart> starts;
  if (screened) {
    for (const auto& grid : automatic_grids(request)) {
      std::vector<NamedStart> all;
      for (const auto& name : candidates_on(grid, nfe)) {
        add_starts(name, sigma_0s, nfe, request.field, all);
      }
      starts.push_back(all[choose(all)]);
    }
  } else {
    const auto names = automatic ? plain_starts(options.family, nfe, request.field, sigma_0s)
                                 : split_starts(options.init);
    for (const auto& name : names) add_starts(name, sigma_0s, nfe, request.field, starts);
  }
  const NsSolver* neighbour = request.neighbour;
  if (automatic && neighbour != nullptr && options.family == "bns") {
    starts.push_back({fmt::format("{} NFE, padded", neighbour->nfe()), pad(*neighbour, nfe)});
  }
  return starts;
}

}  // namespace bespoke
