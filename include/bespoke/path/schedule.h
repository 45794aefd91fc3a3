#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bespoke/base/jet.h"

namespace bespoke {

// The Gaussian path x_t = alpha_t x_1 + sigma_t eps at one time. T is double, or Jet where the
// derivative with respect to t is wanted too.
template <class T>
struct BasicPoint {
  T alpha;          // the weight of the data
  T sigma;          // the weight of the noise
  T alpha_dot;      // the derivative of alpha with respect to t
  T sigma_dot;      // the derivative of sigma with respect to t
  T variance_rate;  // sigma * sigma_dot, finite even where sigma_dot is not

  // W = sigma alpha' - alpha sigma' > 0, the determinant of (x, u) in terms of (data, noise).
  T wronskian() const { return sigma * alpha_dot - alpha * sigma_dot; }
};
// A point of the path in plain numbers.
using SchedulePoint = BasicPoint<double>;

// A noise schedule on t in [0, 1], 0 = noise, 1 = data, with rising signal-to-noise ratio.
// All of it is float64. A new schedule is one class and one row of the registry in schedule.cpp.
//
// Samples are drawn from t = 0, whatever signal there is, to t = 1, where alpha = 1 and sigma = 0
// unless the path ends before the data.
class Schedule {
 public:
  virtual ~Schedule() = default;

  // The name that users write, such as "vp".
  virtual std::string name() const = 0;
  // The name and the parameters, as schedule_from_json reads them.
  virtual nlohmann::json describe() const;

  // Alpha at t with its derivative.
  virtual Jet alpha_jet(double t) const = 0;
  // Sigma at t with its derivative, which may be infinite.
  virtual Jet sigma_jet(double t) const = 0;
  // Sigma squared at t with its derivative, which is finite.
  virtual Jet variance_jet(double t) const;

  // The time with this log-SNR, clipped to [0, 1] outside the schedule's range; takes +-infinity.
  virtual double time_at_lambda(double lambda) const = 0;

  // The last time the network is asked at. Beyond it, where it is not 1, its data prediction there
  // is held: a final denoising step.
  virtual double last_time() const { return 1; }
  // The time that t is on the whole path that the network was trained on, of which this may be a
  // part.
  virtual Jet trained_time(double t) const { return Jet::variable(t); }

  // The standard deviation of the noise a sampler starts from at t = 0.
  virtual double source_std() const { return 1; }

  // The path at one time.
  SchedulePoint at(double t) const;
  // The path at one time, each number with its derivative.
  BasicPoint<Jet> jet_at(double t) const;

  // The weight of the data at t.
  double alpha(double t) const { return alpha_jet(t).value; }
  // The weight of the noise at t.
  double sigma(double t) const { return sigma_jet(t).value; }
  // The signal-to-noise ratio alpha / sigma at t.
  double snr(double t) const { return alpha(t) / sigma(t); }
  // The log-SNR at t: -infinity where alpha = 0, +infinity where sigma = 0.
  double lambda(double t) const;
  // The time with this signal-to-noise ratio, clipped as time_at_lambda clips it.
  double time_at_snr(double snr) const;

 protected:
  // The parameters that `describe` writes after the name.
  virtual std::vector<std::pair<std::string, double>> parameters() const { return {}; }
};
// A schedule, shared by all that run on it.
using SchedulePtr = std::shared_ptr<const Schedule>;

// The flow-matching path with straight lines: alpha = t, sigma = 1 - t.
SchedulePtr fm_ot_schedule();
// The cosine path: alpha = sin(pi t / 2), sigma = cos(pi t / 2).
SchedulePtr cosine_schedule();
// The variance-preserving path: alpha = xi(1 - t) with
// xi(s) = exp(-s^2 (B - b) / 4 - s b / 2), sigma^2 = 1 - alpha^2.
SchedulePtr vp_schedule(double B = 20, double b = 0.1);
// EDM's path: alpha = 1, sigma from sigma_max to sigma_min, linear in t.
SchedulePtr edm_schedule(double sigma_max = 80, double sigma_min = 0);
// The variance-exploding path: alpha = 1, sigma from sigma_max to sigma_min, linear in its
// logarithm.
SchedulePtr ve_schedule(double sigma_min = 0.01, double sigma_max = 50);
// The variance-exploding path of dx = base^s dw from the data at s = 0: alpha = 1,
// sigma^2 = (base^(2 - 2 t) - 1) / (2 log base).
SchedulePtr ve_power_schedule(double base = 25);

// Discrete diffusion with N levels, given as the products of (1 - beta) up to each index, from
// least to most noise. Index i sits at t = 1 - (i + 1) / N; log alpha is linear in between.
SchedulePtr table_schedule(const std::vector<double>& alphas_cumprod);

// The same from the products of (1 - beta), rescaled so that the last level is pure noise and the
// first is as it was: zero terminal SNR.
std::vector<double> with_zero_terminal_snr(std::vector<double> alphas_cumprod);

// A part of a path, from one of its times to another, run through while t goes from 0 to 1. Where
// `denoise`, it then goes on to the data by one step with the data prediction made at its end.
SchedulePtr part_of(SchedulePtr path, double start, double end, bool denoise);
// Whether part_of made this schedule.
bool is_part(const Schedule& schedule);

// The number of levels of a discrete schedule, 0 for a continuous one.
int64_t discrete_levels(const Schedule& schedule);

// sigma_0 preconditioning: the same alpha, sigma multiplied by sigma_0.
SchedulePtr preconditioned_schedule(SchedulePtr base, double sigma_0);

// A row of the registry: a schedule that users can name.
struct ScheduleEntry {
  std::string name;                                      // as users write it
  std::string description;                               // one line for lists
  std::vector<std::pair<std::string, double>> defaults;  // its parameters, if not given
  // Makes the schedule from its parameters by name.
  SchedulePtr (*make)(const std::map<std::string, double>&);
};
// The registry: every schedule that users can name.
const std::vector<ScheduleEntry>& schedule_registry();

// Makes a schedule from what users type, "vp", "vp:B=20,b=0.1" or "table:FILE" (numbers, as JSON or
// plain text). Every schedule takes start, end and denoise (0 or 1) too, which make it a part.
SchedulePtr make_schedule(const std::string& text);
// Makes a schedule from what Schedule::describe wrote.
SchedulePtr schedule_from_json(const nlohmann::json& description);

}  // namespace bespoke
