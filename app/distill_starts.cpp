#include "distill_starts.h"

#include <fmt/format.h>

#include "bespoke/core/text.h"
#include "solver_options.h"

namespace bespoke {

namespace {

// In these coordinates every model's field is bounded and nearly straight, so methods start best.
constexpr char kStraightest[] = "fm-ot";

std::vector<double> sigma_0_values(const std::string& text) {
  if (text == kAuto) return {1, 0.5, 2, 5};
  return {parse_number(text, "--sigma0")};
}

// The catalogue solvers worth starting from, of those that can spend the evaluations.
std::vector<std::string> default_starts(const std::string& family, int nfe,
                                        const FieldDescription& field) {
  std::vector<std::string> names;
  if (family != "bst-rk1" && can_spend("midpoint", nfe)) names.push_back("midpoint");
  if (family == "bns" || family == "bst-rk1") names.push_back("euler");
  if (field.schedule->name() == kStraightest) return names;
  for (auto& name : names) name += std::string("@") + kStraightest;
  return names;
}

// NAME, NAME@SCHEDULE or a file, under each sigma_0.
void add_starts(const std::string& text, const std::vector<double>& sigma_0s, int nfe,
                const FieldDescription& field, std::vector<NamedStart>& starts) {
  if (is_solver_file(text)) {
    starts.push_back({text, resolve_solver(text, nfe, field, {}).solver});
    return;
  }
  const size_t at = text.find('@');
  const std::string name = text.substr(0, at);
  for (const double sigma_0 : sigma_0s) {
    SolverOptions options;
    options.sigma_0 = sigma_0;
    // Preconditioning is a change of schedule itself and takes the place of another.
    if (at != std::string::npos && sigma_0 == 1) options.via = text.substr(at + 1);
    const std::string label = sigma_0 == 1 ? text : fmt::format("{} (sigma_0 {})", name, sigma_0);
    starts.push_back({label, resolve_solver(name, nfe, field, options).solver});
  }
}

}  // namespace

std::vector<NamedStart> make_starts(const DistillCommandOptions& options, int nfe,
                                    const FieldDescription& field, const NsSolver* neighbour) {
  const bool automatic = options.init == kAuto;
  const auto names =
      automatic ? default_starts(options.family, nfe, field) : split(options.init, ',');
  std::vector<NamedStart> starts;
  for (const auto& name : names) {
    add_starts(name, sigma_0_values(options.sigma_0), nfe, field, starts);
  }
  if (automatic && neighbour != nullptr && options.family == "bns") {
    starts.push_back({fmt::format("{} NFE, padded", neighbour->nfe()), pad(*neighbour, nfe)});
  }
  return starts;
}

}  // namespace bespoke
