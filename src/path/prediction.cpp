#include "bespoke/path/prediction.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"

namespace bespoke {

using namespace detail;

const std::vector<std::string>& prediction_names() {
  static const std::vector<std::string> names = {"velocity", "noise", "data", "v", "edm", "score"};
  return names;
}

std::string to_string(Prediction prediction) {
  return prediction_names()[static_cast<size_t>(prediction)];
}

// What papers and other tools call them.
static const std::map<std::string, Prediction>& aliases() {
  static const std::map<std::string, Prediction> table = {
      {"eps", Prediction::noise},      {"epsilon", Prediction::noise},
      {"x0", Prediction::data},        {"x_0", Prediction::data},
      {"sample", Prediction::data},    {"v_prediction", Prediction::v},
      {"v-prediction", Prediction::v}, {"flow", Prediction::velocity}};
  return table;
}

Prediction parse_prediction(const std::string& name) {
  const auto& names = prediction_names();
  const auto alias = aliases().find(name);
  if (alias != aliases().end()) return alias->second;
  const auto place = std::find(names.begin(), names.end(), name);
  if (place == names.end()) throw Error(ErrorKind::usage, unknown_name("prediction", name, names));
  return static_cast<Prediction>(place - names.begin());
}

namespace {

using std::sqrt;

// q = sigma^2 + alpha^2 sigma_data^2, the variance EDM divides by.
template <class T>
T edm_variance(const BasicPoint<T>& p) {
  return p.sigma * p.sigma + p.alpha * p.alpha * (kEdmSigmaData * kEdmSigmaData);
}

template <class T>
T squared_norm(const BasicPoint<T>& p) {
  return p.alpha * p.alpha + p.sigma * p.sigma;
}

}  // namespace

template <class T>
Affine<T> data_from(Prediction prediction, const BasicPoint<T>& p) {
  switch (prediction) {
    case Prediction::velocity:
      return {-p.sigma_dot / p.wronskian(), p.sigma / p.wronskian()};
    case Prediction::noise:
      return {T(1) / p.alpha, -p.sigma / p.alpha};
    case Prediction::data:
      return {T(0), T(1)};
    case Prediction::v:
      return {p.alpha / squared_norm(p), -p.sigma / squared_norm(p)};
    case Prediction::score:
      return {T(1) / p.alpha, p.sigma * p.sigma / p.alpha};
    case Prediction::edm: {
      const T q = edm_variance(p);
      return {p.alpha * (kEdmSigmaData * kEdmSigmaData) / q, p.sigma * kEdmSigmaData / sqrt(q)};
    }
  }
  throw std::logic_error("prediction out of range");
}

template <class T>
Affine<T> noise_from(Prediction prediction, const BasicPoint<T>& p) {
  switch (prediction) {
    case Prediction::velocity:
      return {p.alpha_dot / p.wronskian(), -p.alpha / p.wronskian()};
    case Prediction::noise:
      return {T(0), T(1)};
    case Prediction::data:
      return {T(1) / p.sigma, -p.alpha / p.sigma};
    case Prediction::v:
      return {p.sigma / squared_norm(p), p.alpha / squared_norm(p)};
    case Prediction::score:
      return {T(0), -p.sigma};
    case Prediction::edm: {
      const T q = edm_variance(p);
      return {p.sigma / q, -p.alpha * kEdmSigmaData / sqrt(q)};
    }
  }
  throw std::logic_error("prediction out of range");
}

// alpha' D + sigma' E, with the products that would be 0 * infinity written out.
template <class T>
Affine<T> velocity_from(Prediction prediction, const BasicPoint<T>& p) {
  const T w = p.wronskian();
  switch (prediction) {
    case Prediction::velocity:
      return {T(0), T(1)};
    case Prediction::noise:
      return {p.alpha_dot / p.alpha, -w / p.alpha};
    case Prediction::data:
      return {p.sigma_dot / p.sigma, w / p.sigma};
    case Prediction::v:
      return {(p.alpha * p.alpha_dot + p.variance_rate) / squared_norm(p), -w / squared_norm(p)};
    case Prediction::score:
      return {p.alpha_dot / p.alpha, w * p.sigma / p.alpha};
    case Prediction::edm: {
      const T q = edm_variance(p);
      const T state = p.alpha * p.alpha_dot * (kEdmSigmaData * kEdmSigmaData) + p.variance_rate;
      return {state / q, w * kEdmSigmaData / sqrt(q)};
    }
  }
  throw std::logic_error("prediction out of range");
}

template <class T>
DataNoise<T> output_in_terms_of_data_and_noise(Prediction prediction, const BasicPoint<T>& p) {
  switch (prediction) {
    case Prediction::velocity:
      return {p.alpha_dot, p.sigma_dot};
    case Prediction::noise:
      return {T(0), T(1)};
    case Prediction::data:
      return {T(1), T(0)};
    case Prediction::v:
      return {-p.sigma, p.alpha};
    case Prediction::score:
      return {T(0), T(-1) / p.sigma};
    case Prediction::edm: {
      const T root = sqrt(edm_variance(p));
      return {p.sigma / (kEdmSigmaData * root), -p.alpha * kEdmSigmaData / root};
    }
  }
  throw std::logic_error("prediction out of range");
}

double safe_time(Prediction prediction, const Schedule& schedule, double t, double margin) {
  t = std::min(t, schedule.last_time());
  const bool by_noise = prediction == Prediction::noise || prediction == Prediction::score;
  if (by_noise && schedule.alpha(t) < margin * schedule.sigma(t)) {
    return std::max(t, schedule.time_at_snr(margin));
  }
  const bool open_at_data = prediction == Prediction::data || prediction == Prediction::score;
  if (open_at_data && schedule.sigma(t) < margin * schedule.alpha(t)) {
    return std::min(t, schedule.time_at_snr(1 / margin));
  }
  if (prediction == Prediction::velocity && !std::isfinite(schedule.at(t).sigma_dot)) {
    return std::min(t, schedule.time_at_snr(1 / margin));
  }
  return t;
}

double safe_velocity_time(Prediction prediction, const Schedule& schedule, double t,
                          double margin) {
  const double safe = safe_time(prediction, schedule, t, margin);
  const bool finite = std::isfinite(schedule.at(safe).sigma_dot);
  return finite ? safe : std::min(safe, schedule.time_at_snr(1 / margin));
}

double safe_margin(double epsilon) { return std::sqrt(epsilon); }

template Affine<double> data_from(Prediction, const BasicPoint<double>&);
template Affine<double> noise_from(Prediction, const BasicPoint<double>&);
template Affine<double> velocity_from(Prediction, const BasicPoint<double>&);
template Affine<Jet> data_from(Prediction, const BasicPoint<Jet>&);
template Affine<Jet> noise_from(Prediction, const BasicPoint<Jet>&);
template Affine<Jet> velocity_from(Prediction, const BasicPoint<Jet>&);
template DataNoise<double> output_in_terms_of_data_and_noise(Prediction, const BasicPoint<double>&);
template DataNoise<Jet> output_in_terms_of_data_and_noise(Prediction, const BasicPoint<Jet>&);

}  // namespace bespoke
