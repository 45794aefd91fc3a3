#include "distill_starts.h"

#include <fmt/format.h>

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

// The catalogue solvers worth starting from, of those that can spend the evaluations.
std::vector<std::string> default_starts(const std::string& family, int nfe,
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

// NAME, NAME@SCHEDULE or a file, under each sigma_0.
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
  const std::string name = text.substr(0, at);
  for (const double sigma_0 : sigma_0s) {
    SolverOptions options;
    options.sigma_0 = sigma_0;
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

std::vector<NamedStart> make_starts(const DistillCommandOptions& options, int nfe,
                                    const FieldDescription& field, const NsSolver* neighbour) {
  const bool automatic = options.init == kAuto;
  const auto sigma_0s = sigma_0_values(options.sigma_0);
  const auto names =
      automatic ? default_starts(options.family, nfe, field, sigma_0s) : split(options.init, ',');
  std::vector<NamedStart> starts;
  for (const auto& name : names) add_starts(name, sigma_0s, nfe, field, starts);
  if (automatic && neighbour != nullptr && options.family == "bns") {
    starts.push_back({fmt::format("{} NFE, padded", neighbour->nfe()), pad(*neighbour, nfe)});
  }
  return starts;
}

}  // namespace bespoke
