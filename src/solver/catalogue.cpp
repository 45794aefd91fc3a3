#include "bespoke/solver/catalogue.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"
#include "bespoke/path/scale_time.h"
#include "bespoke/solver/grid.h"
#include "bespoke/solver/lowering.h"
#include "bespoke/solver/multistep.h"
#include "bespoke/solver/runge_kutta.h"
#include "dpm_solver.h"
#include "exponential.h"
#include "unipc.h"

namespace bespoke {

using namespace detail;

namespace {

using Grid = std::vector<double>;

constexpr char kRungeKutta[] = "Runge-Kutta";
constexpr char kMultistep[] = "multistep";
constexpr char kExponentialRungeKutta[] = "exponential Runge-Kutta";
constexpr char kExponentialMultistep[] = "exponential multistep";
constexpr char kScaleTimeRungeKutta[] = "scale-time Runge-Kutta";

// As their papers have them: DPM-Solver and UniPC step evenly in log-SNR, DEIS quadratically in
// time, DDIM and PNDM evenly in time.
constexpr char kEvenInTime[] = "uniform-t";
constexpr char kEvenInLogSnr[] = "uniform-lambda";
constexpr char kQuadraticInTime[] = "quadratic";

// How evaluations become steps.
std::function<int(int)> multiples_of(int stages) {
  return [stages](int nfe) { return nfe % stages == 0 ? nfe / stages : 0; };
}
int one_each(int nfe) { return nfe; }

bool velocity_is_infinite(const Schedule& schedule, double t) {
  return !std::isfinite(schedule.at(t).sigma_dot);
}

CatalogueEntry adams_entry(int order) {
  return {"ab" + std::to_string(order),
          kMultistep,
          fmt::format("Adams-Bashforth over {} velocities, variable steps", order),
          order,
          1,
          kEvenInTime,
          false,
          one_each,
          [order](const SolverRequest&, const Grid& grid, bool) {
            return adams_bashforth(order, grid);
          }};
}

CatalogueEntry exponential_multistep_entry(std::string name, std::string description, int order,
                                           Prediction form, PolynomialIn variable) {
  return {std::move(name),
          kExponentialMultistep,
          std::move(description),
          order,
          1,
          kEvenInLogSnr,
          true,
          one_each,
          [=](const SolverRequest& request, const Grid& grid, bool) {
            return exponential_multistep(*request.schedule, grid, form, variable,
                                         {order, request.lower_order_final});
          }};
}

CatalogueEntry exponential_runge_kutta_entry(const std::string& base, int order, Prediction form,
                                             const ButcherTableau& tableau) {
  const bool noise = form == Prediction::noise;
  return {fmt::format("exp-{}-{}", base, to_string(form)),
          kExponentialRungeKutta,
          fmt::format("{} in {} on the {} prediction", base, noise ? "sigma/alpha" : "alpha/sigma",
                      to_string(form)),
          order,
          tableau.stages(),
          kEvenInLogSnr,
          false,
          multiples_of(tableau.stages()),
          [=](const SolverRequest& request, const Grid& grid, bool infinite_at_end) {
            const std::vector<ButcherTableau> tableaus(grid.size() - 1, tableau);
            return exponential_runge_kutta(*request.schedule, grid, form, tableaus,
                                           infinite_at_end);
          }};
}

std::string dpm_name(int order, Prediction form, const char* kind) {
  return fmt::format("dpm{}{}{}", form == Prediction::data ? "++" : "", order, kind);
}

// The method's name in its paper.
std::string dpm_title(int order, Prediction form, const char* kind) {
  return form == Prediction::data ? fmt::format("DPM-Solver++({}{})", order, kind)
                                  : fmt::format("DPM-Solver-{}", order);
}

std::string dpm_singlestep_description(int order, Prediction form) {
  return fmt::format("{}: {} in log-SNR on {}", dpm_title(order, form, "S"),
                     order == 2 ? "midpoint" : "three stages", to_string(form));
}

// A method that takes as many steps of the full order as fit, and the rest in steps of lower order.
CatalogueEntry dpm_singlestep_entry(int order, Prediction form) {
  return {dpm_name(order, form, "s"),
          kExponentialRungeKutta,
          dpm_singlestep_description(order, form),
          order,
          order,
          kEvenInLogSnr,
          false,
          [order](int nfe) { return static_cast<int>(dpm_singlestep_orders(order, nfe).size()); },
          [=](const SolverRequest& request, const Grid& grid, bool) {
            return dpm_singlestep(*request.schedule, grid, form,
                                  dpm_singlestep_orders(order, request.nfe));
          }};
}

CatalogueEntry dpm_singlestep_fixed_entry(int order, Prediction form) {
  return {dpm_name(order, form, "s-fixed"),
          kExponentialRungeKutta,
          dpm_singlestep_description(order, form) + ", the same on every step",
          order,
          order,
          kEvenInLogSnr,
          false,
          multiples_of(order),
          [=](const SolverRequest& request, const Grid& grid, bool) {
            return dpm_singlestep(*request.schedule, grid, form,
                                  std::vector<int>(grid.size() - 1, order));
          }};
}

// 3M is of order two as published: its curvature term is half the exact one (exp-ab3 has it whole
// and is of order three).
CatalogueEntry dpm_multistep_entry(int order, Prediction form) {
  return {dpm_name(order, form, "m"),
          kExponentialMultistep,
          fmt::format("{}, multistep: differences of the {} prediction in log-SNR",
                      dpm_title(order, form, "M"), to_string(form)),
          2,
          1,
          kEvenInLogSnr,
          true,
          one_each,
          [=](const SolverRequest& request, const Grid& grid, bool) {
            return dpm_multistep(*request.schedule, grid, form, {order, request.lower_order_final});
          }};
}

// The corrector interpolates one point more than the predictor of the order it is named after.
CatalogueEntry unipc_entry(int order, UniPcVariant variant) {
  const char* bh = variant == UniPcVariant::bh1 ? "bh1" : "bh2";
  return {fmt::format("unipc{}-{}", order, bh),
          kExponentialMultistep,
          fmt::format("UniPC-{} with B(h) of {}, predictor and corrector on data", order, bh),
          order + 1,
          1,
          kEvenInLogSnr,
          true,
          one_each,
          [=](const SolverRequest& request, const Grid& grid, bool) {
            return unipc(*request.schedule, grid, variant, {order, request.lower_order_final});
          }};
}

// Heun in EDM's coordinates with Euler on the step to sigma = 0: 2 n - 1 evaluations.
CatalogueEntry edm_heun_entry() {
  return {"edm-heun",
          kScaleTimeRungeKutta,
          "Heun in EDM's sigma with a last Euler step, on Karras's grid",
          2,
          2,
          "karras",
          false,
          [](int nfe) { return nfe % 2 == 1 ? (nfe + 1) / 2 : 0; },
          [](const SolverRequest& request, const Grid& grid, bool infinite_at_end) {
            std::vector<ButcherTableau> tableaus(grid.size() - 1, heun_tableau());
            tableaus.back() = euler_tableau();
            return exponential_runge_kutta(*request.schedule, grid, Prediction::noise, tableaus,
                                           infinite_at_end);
          }};
}

struct NamedTableau {
  const char* name;
  const char* description;
  int order;
  ButcherTableau tableau;
};

std::vector<NamedTableau> generic_tableaus() {
  return {{"euler", "explicit Euler", 1, euler_tableau()},
          {"midpoint", "explicit midpoint", 2, midpoint_tableau()},
          {"heun", "explicit trapezoid", 2, heun_tableau()},
          {"ralston", "Ralston's second-order method, least error bound", 2, ralston_tableau()},
          {"rk3", "Kutta's third-order method", 3, rk3_tableau()},
          {"rk4", "the classical Runge-Kutta method", 4, rk4_tableau()}};
}

std::vector<CatalogueEntry> make_catalogue() {
  constexpr auto noise = Prediction::noise;
  constexpr auto data = Prediction::data;
  std::vector<CatalogueEntry> list;
  for (const auto& t : generic_tableaus()) {
    list.push_back(runge_kutta_entry(t.name, t.description, t.order, t.tableau));
  }
  for (const int order : {2, 3, 4}) list.push_back(adams_entry(order));

  list.push_back(exponential_multistep_entry("ddim", "DDIM: the data prediction held fixed", 1,
                                             data, PolynomialIn::lambda));
  list.back().can_lower_order = false;
  list.back().default_grid = kEvenInTime;
  for (const auto form : {noise, data}) {
    for (const int order : {2, 3}) list.push_back(dpm_singlestep_entry(order, form));
    for (const int order : {2, 3}) list.push_back(dpm_singlestep_fixed_entry(order, form));
    for (const int order : {2, 3}) list.push_back(dpm_multistep_entry(order, form));
  }
  for (const int order : {1, 2, 3}) {
    list.push_back(exponential_multistep_entry(
        fmt::format("deis-rho-ab{}", order),
        fmt::format("DEIS: noise as a polynomial in sigma/alpha, order {}", order), order, noise,
        PolynomialIn::rho));
    list.back().default_grid = kQuadraticInTime;
  }
  for (const int order : {1, 2, 3}) {
    list.push_back(exponential_multistep_entry(
        fmt::format("deis-t-ab{}", order),
        fmt::format("DEIS tAB: noise as a polynomial in t, order {}", order), order, noise,
        PolynomialIn::t));
    list.back().default_grid = kQuadraticInTime;
  }
  for (const int order : {2, 3}) {
    for (const auto variant : {UniPcVariant::bh1, UniPcVariant::bh2}) {
      list.push_back(unipc_entry(order, variant));
    }
  }
  list.push_back({"ipndm", kExponentialMultistep,
                  "iPNDM: DDIM on noise extrapolated with the weights of equal steps", 2, 1,
                  kEvenInTime, false, one_each,
                  [](const SolverRequest& request, const Grid& grid, bool) {
                    return ipndm(*request.schedule, grid);
                  }});
  for (const auto form : {noise, data}) {
    for (const int order : {2, 3, 4}) {
      list.push_back(exponential_multistep_entry(
          fmt::format("exp-ab{}-{}", order, to_string(form)),
          fmt::format("{} as a polynomial in log-SNR, order {}{}", to_string(form), order,
                      form == noise ? " (DEIS log-rho)" : ""),
          order, form, PolynomialIn::lambda));
    }
    for (const auto& t : generic_tableaus()) {
      if (t.order > 1)
        list.push_back(exponential_runge_kutta_entry(t.name, t.order, form, t.tableau));
    }
  }
  list.push_back(edm_heun_entry());
  return list;
}

// "6 or 8", the nearest below and above that can be spent.
std::string nearest_nfe(const CatalogueEntry& entry, int nfe) {
  std::string below, above;
  for (int n = nfe - 1; n > 0 && below.empty(); --n) {
    if (entry.steps(n) > 0) below = std::to_string(n);
  }
  for (int n = std::max(1, nfe + 1); above.empty(); ++n) {
    if (entry.steps(n) > 0) above = std::to_string(n);
  }
  return below.empty() ? above : below + " or " + above;
}

}  // namespace

CatalogueEntry runge_kutta_entry(std::string name, std::string description, int order,
                                 const ButcherTableau& tableau) {
  return {std::move(name),
          kRungeKutta,
          std::move(description),
          order,
          tableau.stages(),
          kEvenInTime,
          false,
          multiples_of(tableau.stages()),
          [tableau](const SolverRequest&, const Grid& grid, bool infinite_at_end) {
            return runge_kutta(tableau, grid, infinite_at_end);
          }};
}

CatalogueEntry multistep_entry(std::string name, std::string description, int order,
                               const MultistepRule& rule) {
  return {std::move(name),
          kMultistep,
          std::move(description),
          order,
          1,
          kEvenInTime,
          false,
          one_each,
          [rule](const SolverRequest&, const Grid& grid, bool) { return multistep(rule, grid); }};
}

std::string CatalogueEntry::grid_for(const Schedule& schedule) const {
  if (family.rfind("exponential", 0) != 0) return default_grid;
  if (is_flow(schedule)) return kEvenInTime;
  const bool only_adds_noise = schedule.alpha(0) == 1 && schedule.alpha(0.5) == 1;
  return only_adds_noise ? "karras" : default_grid;
}

std::string CatalogueEntry::taxonomy() const {
  const bool one_step = family.find("Runge-Kutta") != std::string::npos;
  const char* scale_time = one_step ? "ST-RK" : "ST-multistep";
  if (family == kScaleTimeRungeKutta) return fmt::format("{} < NS", scale_time);
  const bool exponential = family.rfind("exponential", 0) == 0;
  return fmt::format("{}{} < {} < NS", exponential ? "exp-" : "", one_step ? "RK" : "multistep",
                     scale_time);
}

const std::vector<CatalogueEntry>& catalogue() {
  static const std::vector<CatalogueEntry> list = make_catalogue();
  return list;
}

void check_nfe(int64_t nfe) {
  if (nfe >= 1 && nfe <= kMostEvaluations) return;
  throw usage_error("NFE must be from 1 to {}, found {}", kMostEvaluations, nfe);
}

const CatalogueEntry& find_solver(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& entry : catalogue()) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  throw Error(ErrorKind::usage,
              unknown_name("solver", name, names) + " ('bespoke solvers' lists them all)");
}

// A run that starts at t_0 > 0 starts from noise of that time's deviation, as EDM does.
static NsSolver scaled_to_start(NsSolver solver, const Schedule& schedule) {
  solver.start_scale = schedule.sigma(solver.times.front()) / schedule.sigma(0);
  return solver;
}

// `infinite_at_one`: the velocity at t = 1 is infinite, whatever the request's schedule says.
static NsSolver build_solver(const CatalogueEntry& entry, const SolverRequest& request,
                             bool infinite_at_one) {
  check_nfe(request.nfe);
  const int steps = entry.steps(request.nfe);
  if (steps == 0) {
    throw usage_error("{} cannot spend exactly {} evaluations; the nearest it can is {}",
                      entry.name, request.nfe, nearest_nfe(entry, request.nfe));
  }
  if (request.lower_order_final && !entry.can_lower_order) {
    throw usage_error("{} has no order to lower at the end; leave +lower-order-final out",
                      entry.name);
  }
  const Schedule& schedule = *request.schedule;
  const Grid grid =
      make_grid(request.grid.empty() ? entry.grid_for(schedule) : request.grid, steps, schedule);
  const bool infinite =
      velocity_is_infinite(schedule, grid.back()) || (infinite_at_one && grid.back() == 1);
  return scaled_to_start(entry.build(request, grid, infinite), schedule);
}

NsSolver make_solver(const CatalogueEntry& entry, const SolverRequest& request) {
  return build_solver(entry, request, false);
}

NsSolver make_solver(const std::string& name, const SolverRequest& request) {
  return make_solver(find_solver(name), request);
}

NsSolver make_solver_via(const CatalogueEntry& entry, const SolverRequest& request,
                         const SchedulePtr& via) {
  SolverRequest there = request;
  // It ends where the model's path does.
  const double end = request.schedule->lambda(1);
  there.schedule = std::isinf(end) ? via : part_of(via, 0, via->time_at_lambda(end), false);
  // Where `via` has more noise than the model's schedule, the run starts at the model's own end.
  const double first = there.schedule->time_at_lambda(request.schedule->lambda(0));
  const std::string grid = request.grid.empty() ? entry.grid_for(*there.schedule) : request.grid;
  there.grid = first > 0 ? grid_from(grid, first, *there.schedule) : grid;
  const NsSolver solver = build_solver(entry, there, velocity_is_infinite(*request.schedule, 1));
  return scaled_to_start(fold(solver, *schedule_change(request.schedule, there.schedule)),
                         *request.schedule);
}

}  // namespace bespoke
