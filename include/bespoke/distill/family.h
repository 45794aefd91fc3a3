#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bespoke/base/matrix.h"
#include "bespoke/distill/coefficients.h"
#include "bespoke/path/coordinates.h"
#include "bespoke/solver/ns_solver.h"
#include "bespoke/solver/time_rounding.h"

namespace bespoke {

// A trainable family of solvers: free parameters theta, every value of which is a valid NS solver
// with t_n = 1. An optimiser needs to know nothing else of it.
class Family {
 public:
  virtual ~Family() = default;

  // The same solvers in the canonical coordinates of a path. What a family holds its solvers to, it
  // holds them to where they will run: in the model's own coordinates.
  virtual std::shared_ptr<const Family> in_coordinates(const CoordinatesPtr& coordinates) const = 0;
  // A solver of the family in the model's own coordinates, to run there.
  virtual NsSolver in_own_coordinates(const NsSolver& solver) const = 0;

  // The name that users write.
  virtual std::string name() const = 0;
  // The shape that all its solvers have.
  virtual SolverShape shape() const = 0;
  // How many evaluations each of its solvers makes.
  int nfe() const { return shape().nfe; }

  // Whether it is every NS solver, up to constraints on the start scale and on times.
  virtual bool is_bns() const = 0;
  // How many entries theta has.
  virtual size_t parameter_count() const = 0;

  // The solver of these parameters.
  virtual NsSolver solver(const std::vector<double>& theta) const = 0;

  // The derivative of the solver's coefficients by theta, [coefficient_count, parameter_count].
  virtual Matrix jacobian(const std::vector<double>& theta) const = 0;

  // Which entries of theta are the coefficients a_{n-1}, b_{n-1,0} ... b_{n-1,n-1}, c_{n-1,0} ...
  // of the last step themselves; empty if they are not free.
  virtual std::vector<size_t> last_step() const = 0;

  // Which entries of theta place the times, where the family rounds them: the others have to follow
  // where the times came to lie. Empty where times are free.
  virtual std::vector<size_t> rounded_parameters() const = 0;

  // The parameters of a solver to start from. Times are made representable: t_n becomes 1 (it has
  // no effect), and increments of less than a hundredth of the mean are raised to that, which pulls
  // repeated times (Heun, RK4) apart; t_0 of a BNS solver is raised to a tenth of the mean. Where
  // the start scale is held at 1, another one moves into the coefficients of x_0.
  // Throws a bad-input error where the coefficients are not in the family.
  virtual std::vector<double> parameters(const NsSolver& solver) const = 0;
};
// A family, shared by all that ask it.
using FamilyPtr = std::shared_ptr<const Family>;

// What a solver must be like where it will run: in the model's own coordinates, whatever those of
// the family are.
struct BnsConstraints {
  bool unit_start_scale = false;         // whether the noise is taken as it is
  TimeRounding times;                    // how times are rounded
  CoordinatesPtr coordinates = nullptr;  // of the family's solvers; null: the model's own
};

// Bespoke Non-Stationary solvers: every NS solver of a shape. theta is n + 1 logits, whose softmax
// is t_0 and the increments of the times after it, then a, b, start_scale and c as they are. t_0 is
// free: at t = 0 a model sees nothing but noise and can only answer with the mean, so an evaluation
// there is all but wasted.
// sigma_0 preconditioning is a choice of where to start: NS solvers are closed under `fold`, so one
// trains from a solver made in the coordinates of preconditioned_schedule (make_solver_via), on the
// model's own velocity.
// Where times are rounded the solvers have the rounded ones, and the Jacobian is that of the times
// before rounding.
FamilyPtr bns_family(const SolverShape& shape, const BnsConstraints& constraints = {});

// What a Bespoke Scale-Time solver applies to the transformed field: Euler or midpoint steps.
enum class ScaleTimeBase { rk1, rk2 };

// Bespoke Scale-Time solvers: steps of length h in r with any t_r (rising), t'_r > 0, s_r > 0 and
// s'_r at the points of evaluation,
//   rk1:  x' = ((s + h s_dot) x + h t_dot s u) / s_next
//   rk2:  z  = (s + h s_dot / 2) x + h s t_dot / 2 u
//         x' = (s x + h (s_dot_half / s_half z + t_dot_half s_half u(t_half, z / s_half))) / s_next
// where s_0 = 1 and t_0 = 0. theta is, for N = nfe evaluations, N logits of the increments of t,
// the logarithms of N values t_dot and of the N values s after s_0, and N values s_dot: 4 N, one of
// which (a shift of all logits) changes nothing. rk2 needs an even nfe. A solver is in the family
// if its every step starts from the last state alone and its signs allow t_dot, s > 0.
FamilyPtr bst_family(ScaleTimeBase base, int nfe);

// Solvers of bounded history: each step is made of the last state and the last `history`
// velocities,
//   x_{i+1} = c_i x_i + sum_{i - history < j <= i} d_ij u_j,
// as multistep methods are. With as many as there are steps they are all NS solvers but those with
// an a_i of 0. theta is n + 1 logits as of bns_family, then c_i and d_ij step by step, then the
// start scale where it is free. Times are not rounded.
FamilyPtr history_family(int history, int nfe, const BnsConstraints& constraints = {});

// One method of the catalogue, by its name, of which only the times are free: for methods of
// several evaluations per step, those at which steps begin. The path is the model's own. Parameters
// of any other solver are those of its times. The Jacobian is taken by differences, for the method
// is run on symbols.
FamilyPtr times_family(const std::string& method, int nfe, const SchedulePtr& schedule);

}  // namespace bespoke
