#include "bespoke/path/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/spec.h"
#include "bespoke/base/text.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr double kHalfPi = 1.57079632679489661923;

double clip_to_unit(double t) { return std::min(1.0, std::max(0.0, t)); }

class FmOt : public Schedule {
 public:
  std::string name() const override { return "fm-ot"; }
  Jet alpha_jet(double t) const override { return Jet::variable(t); }
  Jet sigma_jet(double t) const override { return 1 - Jet::variable(t); }
  double time_at_lambda(double lambda) const override { return 1 / (1 + std::exp(-lambda)); }
};

class Cosine : public Schedule {
 public:
  std::string name() const override { return "cosine"; }
  Jet alpha_jet(double t) const override { return sin(kHalfPi * Jet::variable(t)); }
  // sin(pi/2 (1 - t)) rather than cos(pi/2 t): exactly zero at t = 1.
  Jet sigma_jet(double t) const override { return sin(kHalfPi * (1 - Jet::variable(t))); }
  double time_at_lambda(double lambda) const override {
    return lambda > 0 ? 1 - std::atan(std::exp(-lambda)) / kHalfPi
                      : std::atan(std::exp(lambda)) / kHalfPi;
  }
};

class Edm : public Schedule {
 public:
  Edm(double sigma_max, double sigma_min) : sigma_max_(sigma_max), sigma_min_(sigma_min) {
    if (!(sigma_max > 0)) throw bad_input("edm: sigma_max must be positive, found {}", sigma_max);
    if (!(sigma_min >= 0 && sigma_min < sigma_max)) {
      throw bad_input("edm: sigma_min must be from 0 to below sigma_max, found {}", sigma_min);
    }
  }
  std::string name() const override { return "edm"; }
  Jet alpha_jet(double) const override { return 1; }
  Jet sigma_jet(double t) const override {
    return sigma_min_ + (sigma_max_ - sigma_min_) * (1 - Jet::variable(t));
  }
  double time_at_lambda(double lambda) const override {
    return clip_to_unit(1 - (std::exp(-lambda) - sigma_min_) / (sigma_max_ - sigma_min_));
  }
  double source_std() const override { return sigma_max_; }

 protected:
  std::vector<std::pair<std::string, double>> parameters() const override {
    return {{"sigma_max", sigma_max_}, {"sigma_min", sigma_min_}};
  }

 private:
  double sigma_max_, sigma_min_;
};

// The variance-exploding path of score networks.
class Ve : public Schedule {
 public:
  Ve(double sigma_min, double sigma_max)
      : sigma_min_(sigma_min), sigma_max_(sigma_max), span_(std::log(sigma_max / sigma_min)) {
    if (!(sigma_min > 0 && sigma_min < sigma_max && std::isfinite(sigma_max / sigma_min))) {
      throw bad_input("ve: needs 0 < sigma_min < sigma_max, found {} and {}", sigma_min, sigma_max);
    }
  }
  std::string name() const override { return "ve"; }
  Jet alpha_jet(double) const override { return 1; }
  Jet sigma_jet(double t) const override {
    return sigma_min_ * exp(span_ * (1 - Jet::variable(t)));
  }
  double time_at_lambda(double lambda) const override {
    return clip_to_unit(1 - (-lambda - std::log(sigma_min_)) / span_);
  }
  double source_std() const override { return sigma_max_; }

 protected:
  std::vector<std::pair<std::string, double>> parameters() const override {
    return {{"sigma_min", sigma_min_}, {"sigma_max", sigma_max_}};
  }

 private:
  double sigma_min_, sigma_max_, span_;
};

// Noise of deviation base^s in every moment of s = 1 - t, from none at the data.
class VePower : public Schedule {
 public:
  explicit VePower(double base) : base_(base), rate_(2 * std::log(base)) {
    constexpr double kMost = 1e100;  // its square is the variance at the noise
    if (!(base > 1 && base <= kMost)) {
      throw bad_input("ve-power: sigma must be above 1 and at most 1e100, found {}", base);
    }
  }
  std::string name() const override { return "ve-power"; }
  Jet alpha_jet(double) const override { return 1; }
  Jet variance_jet(double t) const override {
    return expm1(rate_ * (1 - Jet::variable(t))) / rate_;
  }
  Jet sigma_jet(double t) const override { return sqrt(variance_jet(t)); }
  double time_at_lambda(double lambda) const override {
    return clip_to_unit(1 - std::log1p(rate_ * std::exp(-2 * lambda)) / rate_);
  }
  double source_std() const override { return sigma(0); }

 protected:
  std::vector<std::pair<std::string, double>> parameters() const override {
    return {{"sigma", base_}};
  }

 private:
  double base_, rate_;
};

// alpha^2 + sigma^2 = 1, given by log alpha. sigma^2 = -expm1(2 log alpha) keeps its digits where
// alpha is near one.
class VariancePreserving : public Schedule {
 public:
  Jet alpha_jet(double t) const override { return exp(log_alpha(t)); }
  Jet variance_jet(double t) const override { return -expm1(2 * log_alpha(t)); }
  Jet sigma_jet(double t) const override { return sqrt(variance_jet(t)); }
  double time_at_lambda(double lambda) const override {
    // -log alpha = log(1 + exp(-2 lambda)) / 2, without overflow for very negative lambda.
    const double depth = lambda < 0 ? -lambda + 0.5 * std::log1p(std::exp(2 * lambda))
                                    : 0.5 * std::log1p(std::exp(-2 * lambda));
    return clip_to_unit(time_at_depth(depth));
  }

 protected:
  virtual Jet log_alpha(double t) const = 0;
  // The time where -log alpha = depth >= 0.
  virtual double time_at_depth(double depth) const = 0;
};

class Vp : public VariancePreserving {
 public:
  Vp(double B, double b) : B_(B), b_(b) {
    if (!(b > 0 && B > b)) {
      throw bad_input("vp: needs 0 < b < B, found B = {}, b = {}", B, b);
    }
  }
  std::string name() const override { return "vp"; }

 protected:
  Jet log_alpha(double t) const override {
    const Jet s = 1 - Jet::variable(t);
    return -(s * s * ((B_ - b_) / 4) + s * (b_ / 2));
  }
  double time_at_depth(double depth) const override {
    if (std::isinf(depth)) return 0;
    const double half_b = b_ / 2;
    return 1 - 2 * depth / (half_b + std::sqrt(half_b * half_b + (B_ - b_) * depth));
  }
  std::vector<std::pair<std::string, double>> parameters() const override {
    return {{"B", B_}, {"b", b_}};
  }

 private:
  double B_, b_;
};

std::vector<double> log_alphas(const std::vector<double>& alphas_cumprod) {
  if (alphas_cumprod.size() < 2) {
    throw bad_input("a table of alphas needs at least 2 entries, found {}", alphas_cumprod.size());
  }
  std::vector<double> logs = {0};  // no noise at s = 0
  for (size_t i = 0; i < alphas_cumprod.size(); ++i) {
    const double value = alphas_cumprod[i];
    const double previous = i == 0 ? 1 : alphas_cumprod[i - 1];
    const bool last = i + 1 == alphas_cumprod.size();
    if (!((value > 0 || (last && value == 0)) && value < previous)) {
      throw bad_input(
          "alphas_cumprod must fall strictly from below 1 to above 0, or to 0 at the last level "
          "(index 0 = least noise); entry {} is {} after {}",
          i, value, previous);
    }
    logs.push_back(0.5 * std::log(value));
  }
  return logs;
}

// Discrete diffusion: log alpha is linear between s = i / N and s = (i + 1) / N, with s = 1 - t.
// Towards a last level without signal alpha itself is.
class NoiseTable : public VariancePreserving {
 public:
  explicit NoiseTable(const std::vector<double>& alphas_cumprod)
      : alphas_cumprod_(alphas_cumprod), log_alphas_(log_alphas(alphas_cumprod)) {}

  std::string name() const override { return "table"; }
  nlohmann::json describe() const override {
    return {{"name", name()}, {"alphas_cumprod", alphas_cumprod_}};
  }
  Jet alpha_jet(double t) const override {
    return is_beyond_logs(t) ? before_the_last() * (levels() * Jet::variable(t))
                             : VariancePreserving::alpha_jet(t);
  }
  Jet variance_jet(double t) const override {
    if (!is_beyond_logs(t)) return VariancePreserving::variance_jet(t);
    const Jet alpha = alpha_jet(t);
    return 1 - alpha * alpha;
  }

 protected:
  Jet log_alpha(double t) const override {
    const Jet position = levels() * (1 - Jet::variable(t));
    const auto index =
        static_cast<size_t>(std::clamp(std::floor(position.value), 0.0, levels() - 1));
    const double slope = log_alphas_[index + 1] - log_alphas_[index];
    return log_alphas_[index] + (position - static_cast<double>(index)) * slope;
  }
  double time_at_depth(double depth) const override {
    if (std::isinf(depth)) return 0;
    if (is_beyond_logs(0) && depth > -log_alphas_[log_alphas_.size() - 2]) {
      return std::exp(-depth) / (before_the_last() * levels());
    }
    // First entry below the target; log_alphas_ falls.
    const auto after = std::lower_bound(log_alphas_.begin() + 1, log_alphas_.end() - 1, -depth,
                                        std::greater<double>());
    const auto index = static_cast<size_t>(after - log_alphas_.begin()) - 1;
    const double slope = log_alphas_[index + 1] - log_alphas_[index];
    const double position = static_cast<double>(index) + (-depth - log_alphas_[index]) / slope;
    return 1 - position / levels();
  }

 private:
  double levels() const { return static_cast<double>(alphas_cumprod_.size()); }
  // Between the last two levels, where the last one's logarithm is infinite.
  bool is_beyond_logs(double t) const {
    return alphas_cumprod_.back() == 0 && levels() * (1 - t) >= levels() - 1;
  }
  double before_the_last() const { return std::exp(log_alphas_[log_alphas_.size() - 2]); }

  std::vector<double> alphas_cumprod_;
  std::vector<double> log_alphas_;
};

// A table that remembers the formula it came from.
class NamedNoiseTable : public NoiseTable {
 public:
  NamedNoiseTable(std::string name, std::vector<std::pair<std::string, double>> parameters,
                  const std::vector<double>& alphas_cumprod)
      : NoiseTable(alphas_cumprod), name_(std::move(name)), parameters_(std::move(parameters)) {}
  std::string name() const override { return name_; }
  nlohmann::json describe() const override { return Schedule::describe(); }

 protected:
  std::vector<std::pair<std::string, double>> parameters() const override { return parameters_; }

 private:
  std::string name_;
  std::vector<std::pair<std::string, double>> parameters_;
};

constexpr char kPreconditioned[] = "preconditioned";

class Preconditioned : public Schedule {
 public:
  Preconditioned(SchedulePtr base, double sigma_0) : base_(std::move(base)), sigma_0_(sigma_0) {
    if (!(sigma_0 > 0) || !std::isfinite(sigma_0)) {
      throw bad_input("sigma_0 must be positive and finite, found {}", sigma_0);
    }
  }
  std::string name() const override { return kPreconditioned; }
  nlohmann::json describe() const override {
    return {{"name", name()}, {"base", base_->describe()}, {"sigma_0", sigma_0_}};
  }
  Jet alpha_jet(double t) const override { return base_->alpha_jet(t); }
  Jet sigma_jet(double t) const override { return sigma_0_ * base_->sigma_jet(t); }
  Jet variance_jet(double t) const override { return sigma_0_ * sigma_0_ * base_->variance_jet(t); }
  double time_at_lambda(double lambda) const override {
    return base_->time_at_lambda(lambda + std::log(sigma_0_));
  }
  double last_time() const override { return base_->last_time(); }
  Jet trained_time(double t) const override { return base_->trained_time(t); }
  double source_std() const override { return sigma_0_ * base_->source_std(); }

 private:
  SchedulePtr base_;
  double sigma_0_;
};

constexpr char kStart[] = "start", kEnd[] = "end", kDenoise[] = "denoise";

// How much of [0, 1] the final denoising step has.
constexpr double kDenoisingTime = 0.01;

class Part : public Schedule {
 public:
  Part(SchedulePtr path, double start, double end, bool denoise)
      : whole_(std::move(path)), start_(start), end_(end), denoise_(denoise) {
    if (!(start >= 0 && start < end && end <= 1)) {
      throw bad_input("schedule {}: needs 0 <= start < end <= 1, found start = {}, end = {}",
                      whole_->name(), start, end);
    }
    if (denoise && std::isinf(whole_->lambda(end))) {
      throw bad_input(
          "schedule {}: the path ends at the data, where nothing is left to denoise; leave out "
          "\"denoise\", or give an \"end\" before 1",
          whole_->name());
    }
  }
  std::string name() const override { return whole_->name(); }
  nlohmann::json describe() const override {
    nlohmann::json json = whole_->describe();
    if (start_ != 0) json[kStart] = start_;
    if (end_ != 1) json[kEnd] = end_;
    if (denoise_) json[kDenoise] = true;
    return json;
  }
  Jet alpha_jet(double t) const override {
    if (t > last_time()) return 1 - (1 - whole_->alpha(end_)) * left(t);
    return chained(whole_->alpha_jet(place(t)));
  }
  Jet sigma_jet(double t) const override {
    if (t > last_time()) return whole_->sigma(end_) * left(t);
    return chained(whole_->sigma_jet(place(t)));
  }
  Jet variance_jet(double t) const override {
    if (t > last_time()) return Schedule::variance_jet(t);
    return chained(whole_->variance_jet(place(t)));
  }
  double time_at_lambda(double lambda) const override {
    if (denoise_ && lambda > whole_->lambda(end_)) {
      const double left = 1 / (whole_->sigma(end_) * std::exp(lambda) + 1 - whole_->alpha(end_));
      return 1 - left * kDenoisingTime;
    }
    const double share = (whole_->time_at_lambda(lambda) - start_) / (end_ - start_);
    return clip_to_unit(share) * last_time();
  }
  double last_time() const override { return denoise_ ? 1 - kDenoisingTime : 1; }
  Jet trained_time(double t) const override {
    if (t >= last_time()) return whole_->trained_time(end_).value;
    return chained(whole_->trained_time(place(t)));
  }
  // Samplers start from unit noise, whatever the signal, and where the noise grows without bound
  // from that of the path.
  double source_std() const override {
    return whole_->alpha(0) == 1 ? whole_->sigma(start_) : whole_->source_std();
  }

 private:
  double rate() const { return (end_ - start_) / last_time(); }
  // On the whole path, exactly its own ends at the ends.
  double place(double t) const { return t >= last_time() ? end_ : start_ + rate() * t; }
  Jet chained(const Jet& of_the_whole) const {
    return {of_the_whole.value, rate() * of_the_whole.first, rate() * rate() * of_the_whole.second};
  }
  // From 1 to 0 during the final step.
  static Jet left(double t) { return (1 - Jet::variable(t)) / kDenoisingTime; }

  SchedulePtr whole_;
  double start_, end_;
  bool denoise_;
};

using Parameters = std::map<std::string, double>;

constexpr char kZeroTerminalSnr[] = "zero_terminal_snr";

size_t level_count(const Parameters& p) {
  const double levels = p.at("steps");
  if (!(levels >= 2 && levels <= 1e6 && levels == std::floor(levels))) {
    throw bad_input("steps must be a whole number from 2 to 1000000, found {}", levels);
  }
  return static_cast<size_t>(levels);
}

SchedulePtr named_table(const char* name, const Parameters& p, const std::vector<double>& betas) {
  std::vector<double> products;
  double product = 1;
  for (const double beta : betas) products.push_back(product *= 1 - beta);
  const double zero = p.at(kZeroTerminalSnr);
  if (zero != 0 && zero != 1) {
    throw bad_input("{}: {} is 0 or 1, found {}", name, kZeroTerminalSnr, zero);
  }
  return std::make_shared<NamedNoiseTable>(
      name, std::vector<std::pair<std::string, double>>(p.begin(), p.end()),
      zero == 1 ? with_zero_terminal_snr(products) : products);
}

double interpolate(double from, double to, size_t i, size_t levels) {
  return from + (to - from) * static_cast<double>(i) / static_cast<double>(levels - 1);
}

SchedulePtr ddpm_linear(const Parameters& p) {
  std::vector<double> betas(level_count(p));
  for (size_t i = 0; i < betas.size(); ++i) {
    betas[i] = interpolate(p.at("beta_start"), p.at("beta_end"), i, betas.size());
  }
  return named_table("ddpm-linear", p, betas);
}

SchedulePtr ddpm_scaled_linear(const Parameters& p) {
  std::vector<double> betas(level_count(p));
  for (size_t i = 0; i < betas.size(); ++i) {
    const double root =
        interpolate(std::sqrt(p.at("beta_start")), std::sqrt(p.at("beta_end")), i, betas.size());
    betas[i] = root * root;
  }
  return named_table("ddpm-scaled-linear", p, betas);
}

SchedulePtr ddpm_cosine(const Parameters& p) {
  const double offset = p.at("offset");
  if (!(p.at("beta_min") < p.at("beta_max"))) {
    throw bad_input("ddpm-cosine: needs beta_min < beta_max, found {} and {}", p.at("beta_min"),
                    p.at("beta_max"));
  }
  const auto product_at = [offset](double s) {
    const double c = std::cos((s + offset) / (1 + offset) * kHalfPi);
    return c * c;
  };
  std::vector<double> betas(level_count(p));
  const auto levels = static_cast<double>(betas.size());
  for (size_t i = 0; i < betas.size(); ++i) {
    const auto index = static_cast<double>(i);
    const double ratio = product_at((index + 1) / levels) / product_at(index / levels);
    betas[i] = std::clamp(1 - ratio, p.at("beta_min"), p.at("beta_max"));
  }
  return named_table("ddpm-cosine", p, betas);
}

const ScheduleEntry& find_entry(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& entry : schedule_registry()) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  names.push_back("table");
  throw Error(ErrorKind::usage, unknown_name("schedule", name, names));
}

std::vector<std::string> parameter_names(const ScheduleEntry& entry) {
  std::vector<std::string> names;
  for (const auto& parameter : entry.defaults) names.push_back(parameter.first);
  return names;
}

}  // namespace

static bool is_extra(const std::string& key) {
  return key == "sigma_min" || key == "beta_min" || key == kZeroTerminalSnr;
}

nlohmann::json Schedule::describe() const {
  nlohmann::json json = {{"name", name()}};
  // What is 0 unless given is left out, so that files keep saying what they said before there was
  // such a parameter.
  for (const auto& [key, value] : parameters()) {
    if (value != 0 || !is_extra(key)) json[key] = value;
  }
  return json;
}

Jet Schedule::variance_jet(double t) const {
  const Jet sigma = sigma_jet(t);
  return sigma * sigma;
}

BasicPoint<Jet> Schedule::jet_at(double t) const {
  const Jet alpha = alpha_jet(t);
  const Jet sigma = sigma_jet(t);
  return {alpha, sigma, alpha.derivative(), sigma.derivative(), 0.5 * variance_jet(t).derivative()};
}

SchedulePoint Schedule::at(double t) const {
  const Jet alpha = alpha_jet(t);
  const Jet sigma = sigma_jet(t);
  return {alpha.value, sigma.value, alpha.first, sigma.first, 0.5 * variance_jet(t).first};
}

double Schedule::lambda(double t) const { return std::log(alpha(t)) - std::log(sigma(t)); }

double Schedule::time_at_snr(double snr) const { return time_at_lambda(std::log(snr)); }

SchedulePtr fm_ot_schedule() { return std::make_shared<FmOt>(); }
SchedulePtr cosine_schedule() { return std::make_shared<Cosine>(); }
SchedulePtr vp_schedule(double B, double b) { return std::make_shared<Vp>(B, b); }
SchedulePtr edm_schedule(double sigma_max, double sigma_min) {
  return std::make_shared<Edm>(sigma_max, sigma_min);
}
SchedulePtr ve_schedule(double sigma_min, double sigma_max) {
  return std::make_shared<Ve>(sigma_min, sigma_max);
}
SchedulePtr ve_power_schedule(double base) { return std::make_shared<VePower>(base); }
SchedulePtr table_schedule(const std::vector<double>& alphas_cumprod) {
  return std::make_shared<NoiseTable>(alphas_cumprod);
}
std::vector<double> with_zero_terminal_snr(std::vector<double> alphas_cumprod) {
  if (alphas_cumprod.size() < 2) return alphas_cumprod;
  const double first = std::sqrt(alphas_cumprod.front()), last = std::sqrt(alphas_cumprod.back());
  for (double& product : alphas_cumprod) {
    const double root = (std::sqrt(product) - last) * first / (first - last);
    product = root * root;
  }
  alphas_cumprod.back() = 0;
  return alphas_cumprod;
}
SchedulePtr part_of(SchedulePtr path, double start, double end, bool denoise) {
  return std::make_shared<Part>(std::move(path), start, end, denoise);
}
bool is_part(const Schedule& schedule) {
  const nlohmann::json description = schedule.describe();
  return description.contains(kStart) || description.contains(kEnd) ||
         description.contains(kDenoise);
}
int64_t discrete_levels(const Schedule& schedule) {
  nlohmann::json description = schedule.describe();
  while (description.contains("base")) description = nlohmann::json(description["base"]);
  if (description.contains("alphas_cumprod")) {
    return static_cast<int64_t>(description["alphas_cumprod"].size());
  }
  return description.contains("steps") ? description["steps"].get<int64_t>() : 0;
}
SchedulePtr preconditioned_schedule(SchedulePtr base, double sigma_0) {
  return std::make_shared<Preconditioned>(std::move(base), sigma_0);
}

const std::vector<ScheduleEntry>& schedule_registry() {
  static const std::vector<ScheduleEntry> registry = {
      {"fm-ot",
       "flow matching with the optimal-transport path: alpha = t, sigma = 1 - t",
       {},
       [](const Parameters&) { return fm_ot_schedule(); }},
      {"cosine",
       "alpha = sin(pi t / 2), sigma = cos(pi t / 2)",
       {},
       [](const Parameters&) { return cosine_schedule(); }},
      {"vp",
       "variance preserving, continuous time",
       {{"B", 20}, {"b", 0.1}},
       [](const Parameters& p) { return vp_schedule(p.at("B"), p.at("b")); }},
      {"edm",
       "variance exploding: alpha = 1, sigma from sigma_max to sigma_min, linear in t",
       {{"sigma_max", 80}, {"sigma_min", 0}},
       [](const Parameters& p) { return edm_schedule(p.at("sigma_max"), p.at("sigma_min")); }},
      {"ve",
       "variance exploding: alpha = 1, sigma from sigma_max to sigma_min, linear in its logarithm",
       {{"sigma_min", 0.01}, {"sigma_max", 50}},
       [](const Parameters& p) { return ve_schedule(p.at("sigma_min"), p.at("sigma_max")); }},
      {"ve-power",
       "variance exploding: dx = sigma^s dw, s = 1 - t, so that alpha = 1 and the variance is "
       "(sigma^(2 s) - 1) / (2 log sigma)",
       {{"sigma", 25}},
       [](const Parameters& p) { return ve_power_schedule(p.at("sigma")); }},
      {"ddpm-linear",
       "discrete diffusion with linear betas",
       {{"steps", 1000}, {"beta_start", 1e-4}, {"beta_end", 0.02}, {kZeroTerminalSnr, 0}},
       ddpm_linear},
      {"ddpm-scaled-linear",
       "discrete diffusion with betas linear in their root (Stable Diffusion)",
       {{"steps", 1000}, {"beta_start", 0.00085}, {"beta_end", 0.012}, {kZeroTerminalSnr, 0}},
       ddpm_scaled_linear},
      {"ddpm-cosine",
       "discrete diffusion with the squared-cosine product",
       {{"steps", 1000},
        {"offset", 0.008},
        {"beta_min", 0},
        {"beta_max", 0.999},
        {kZeroTerminalSnr, 0}},
       ddpm_cosine},
  };
  return registry;
}

namespace {

// What makes a schedule a part of itself.
struct PartKeys {
  double start = 0, end = 1;
  bool denoise = false;

  SchedulePtr of(SchedulePtr path) const {
    if (start == 0 && end == 1 && !denoise) return path;
    return part_of(std::move(path), start, end, denoise);
  }
};

// Names that are known by others.
std::string own_name(const std::string& name) {
  return name == "ddpm-quadratic" ? "ddpm-scaled-linear" : name;
}

PartKeys take_part_keys(Spec& spec) {
  PartKeys part;
  part.start = spec.number(kStart, part.start);
  part.end = spec.number(kEnd, part.end);
  part.denoise = spec.number(kDenoise, 0) != 0;
  for (const char* key : {kStart, kEnd, kDenoise}) spec.options.erase(key);
  return part;
}

PartKeys take_part_keys(nlohmann::json& description, const std::string& where) {
  PartKeys part;
  if (description.contains(kStart)) part.start = number(description[kStart], where + kStart);
  if (description.contains(kEnd)) part.end = number(description[kEnd], where + kEnd);
  if (description.contains(kDenoise)) {
    require(description[kDenoise].is_boolean(), where + kDenoise, "must be true or false");
    part.denoise = description[kDenoise].get<bool>();
  }
  for (const char* key : {kStart, kEnd, kDenoise}) description.erase(key);
  return part;
}

// "alphas_cumprod", or "betas" of which they are the products.
SchedulePtr table_from_json(const nlohmann::json& description) {
  check_keys(description, {"name"}, {"alphas_cumprod", "betas", kZeroTerminalSnr},
             "schedule table");
  require(description.contains("alphas_cumprod") != description.contains("betas"), "schedule table",
          "needs either \"alphas_cumprod\" or \"betas\"");
  const char* key = description.contains("betas") ? "betas" : "alphas_cumprod";
  std::vector<double> values =
      number_list(description[key], fmt::format("schedule.{}", key), description[key].size());
  if (description.contains("betas")) {
    double product = 1;
    for (double& value : values) value = product *= 1 - value;
  }
  bool zero = false;
  if (description.contains(kZeroTerminalSnr)) {
    require(description[kZeroTerminalSnr].is_boolean(),
            fmt::format("schedule.{}", kZeroTerminalSnr), "must be true or false");
    zero = description[kZeroTerminalSnr].get<bool>();
  }
  return table_schedule(zero ? with_zero_terminal_snr(values) : values);
}

SchedulePtr whole_from_json(const nlohmann::json& description, const std::string& name) {
  if (name == "table") return table_from_json(description);
  if (name == kPreconditioned) {
    check_keys(description, {"name", "base", "sigma_0"}, {}, "schedule preconditioned");
    return preconditioned_schedule(schedule_from_json(description["base"]),
                                   number(description["sigma_0"], "schedule.sigma_0"));
  }
  const ScheduleEntry entry = find_entry(own_name(name));
  check_keys(description, {"name"}, parameter_names(entry), "schedule " + name);
  Parameters parameters(entry.defaults.begin(), entry.defaults.end());
  for (const auto& [key, value] : description.items()) {
    if (key == "name") continue;
    const bool flag = key == kZeroTerminalSnr && value.is_boolean();
    parameters[key] =
        flag ? (value.get<bool>() ? 1 : 0) : number(value, "schedule " + name + ": " + key);
  }
  return entry.make(parameters);
}

}  // namespace

SchedulePtr make_schedule(const std::string& text) {
  Spec spec = Spec::parse(text);
  const PartKeys part = take_part_keys(spec);
  if (spec.name == "table") {
    if (spec.positional.size() != 1 || !spec.options.empty()) {
      throw usage_error("write table:FILE, a file of alphas_cumprod values, found '{}'", text);
    }
    return part.of(table_schedule(read_numbers(spec.positional.front())));
  }
  const ScheduleEntry entry = find_entry(own_name(spec.name));
  spec.allow_only(parameter_names(entry));
  Parameters parameters;
  for (const auto& [key, fallback] : entry.defaults) parameters[key] = spec.number(key, fallback);
  return part.of(entry.make(parameters));
}

SchedulePtr schedule_from_json(const nlohmann::json& description) {
  require(description.is_object() && description.contains("name"), "schedule",
          fmt::format("must be an object with a \"name\", found {}", description.dump()));
  const std::string name = text_value(description["name"], "schedule.name");
  nlohmann::json path = description;
  const PartKeys part = take_part_keys(path, "schedule " + name + ": ");
  return part.of(whole_from_json(path, name));
}

}  // namespace bespoke
