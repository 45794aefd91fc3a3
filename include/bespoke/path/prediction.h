#pragma once

#include <string>
#include <vector>

#include "bespoke/path/schedule.h"

namespace bespoke {

// What a model's output is, on the path x = alpha x_1 + sigma eps:
//   velocity  u = alpha' D + sigma' E          noise  E = E[eps | x]        data  D = E[x_1 | x]
//   v         alpha E - sigma D                edm    F, with D = c_skip x/alpha + c_out F
//   score     -E / sigma, the gradient of the log-density of x
// D and E always satisfy x = alpha D + sigma E, so each is an affine function of x and any other.
enum class Prediction { velocity, noise, data, v, edm, score };

// The names of all predictions, in the order of the enumeration.
const std::vector<std::string>& prediction_names();
// The name of a prediction, as cards and solver files have it.
std::string to_string(Prediction prediction);
// Reads the name of a prediction. Takes the names of other tools too: eps, epsilon, x0, sample,
// v_prediction, flow.
Prediction parse_prediction(const std::string& name);

// The deviation of the data that EDM's preconditioning assumes.
constexpr double kEdmSigmaData = 0.5;

// wanted = state * x + output * f, with x the state and f the model's output.
template <class T>
struct Affine {
  T state;   // the weight of x
  T output;  // the weight of f
};

// The data prediction D from what the model returns.
template <class T>
Affine<T> data_from(Prediction prediction, const BasicPoint<T>& p);
// The noise prediction E from what the model returns.
template <class T>
Affine<T> noise_from(Prediction prediction, const BasicPoint<T>& p);
// The velocity u from what the model returns.
template <class T>
Affine<T> velocity_from(Prediction prediction, const BasicPoint<T>& p);

// The weights of a combination data * D + noise * E.
template <class T>
struct DataNoise {
  T data;   // the weight of D
  T noise;  // the weight of E
};
// The model's output as such a combination: the inverse of the conversions above.
template <class T>
DataNoise<T> output_in_terms_of_data_and_noise(Prediction prediction, const BasicPoint<T>& p);

// The nearest time at which D and E can be computed from the prediction. A noise prediction
// says nothing of the data where alpha = 0, a data prediction nothing of the noise where
// sigma = 0, a score is infinite there, and a velocity where sigma' is (VP at t = 1); there the
// conversion is taken a hair inside, at snr = margin or 1 / margin. Nor is any model asked beyond
// its path's last_time.
double safe_time(Prediction prediction, const Schedule& schedule, double t, double margin);

// The same for the velocity, which is infinite wherever sigma' is, whatever the prediction.
double safe_velocity_time(Prediction prediction, const Schedule& schedule, double t, double margin);

// How near an end a model of this machine epsilon is trusted. Moving by the margin costs an error
// of its order in u, dividing by it one of epsilon / margin: the root balances the two.
double safe_margin(double epsilon);

}  // namespace bespoke
