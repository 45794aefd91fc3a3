#include "bespoke/model/mixture.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/base/random.h"
#include "bespoke/tensor/noise.h"

namespace bespoke {

int64_t Mixture::class_count() const {
  return classes.empty() ? 0 : 1 + *std::max_element(classes.begin(), classes.end());
}

void Mixture::validate() const {
  const auto components = static_cast<size_t>(means.size(0));
  if (deviations.size() != components || weights.size() != components ||
      (!classes.empty() && classes.size() != components)) {
    throw bad_input("a mixture needs one deviation, weight and class per component");
  }
  for (int64_t label = 0; label < class_count(); ++label) {
    if (std::count(classes.begin(), classes.end(), label) == 0) {
      throw bad_input("class {} has no components", label);
    }
  }
  for (size_t k = 0; k < components; ++k) {
    if (!(deviations[k] > 0) || !(weights[k] > 0)) {
      throw bad_input("component {} has deviation {} and weight {}, both must be positive", k,
                      deviations[k], weights[k]);
    }
  }
}

Mixture random_mixture(const RandomMixtureOptions& options) {
  if (options.dimension < 1 || options.components < 1 || options.classes < 0 ||
      options.classes > options.components) {
    throw usage_error(
        "a mixture needs dim >= 1, components >= 1 and at most one class per component, found dim "
        "= "
        "{}, components = {}, classes = {}",
        options.dimension, options.components, options.classes);
  }
  if (!(options.min_deviation > 0 && options.min_deviation <= options.max_deviation)) {
    throw usage_error("a mixture needs 0 < min_deviation <= max_deviation, found {} and {}",
                      options.min_deviation, options.max_deviation);
  }
  constexpr uint32_t kDeviationStream = 1;
  Mixture mixture;
  mixture.means =
      options.spread * normal_noise(options.seed, 0, options.components, {options.dimension});
  const auto components = static_cast<size_t>(options.components);
  for (const double u : uniform_numbers(options.seed, kDeviationStream, components)) {
    mixture.deviations.push_back(options.min_deviation +
                                 u * (options.max_deviation - options.min_deviation));
  }
  mixture.weights.assign(components, 1.0);
  for (size_t k = 0; options.classes > 0 && k < components; ++k) {
    mixture.classes.push_back(static_cast<int64_t>(k) % options.classes);
  }
  return mixture;
}

namespace {

// What is shared by all samples, laid out for the kernels.
struct Components {
  std::vector<double> means;  // [components][dimension]
  std::vector<double> squared_norms, variances, log_weights;
  std::vector<int64_t> classes;
  int64_t class_count, dimension;

  explicit Components(const Mixture& mixture)
      : classes(mixture.classes),
        class_count(mixture.class_count()),
        dimension(mixture.means.size(1)) {
    const torch::Tensor flat = mixture.means.to(torch::kCPU, torch::kDouble).contiguous();
    means.assign(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
    for (size_t k = 0; k < mixture.deviations.size(); ++k) {
      double norm = 0;
      for (int64_t i = 0; i < dimension; ++i) norm += mean(k)[i] * mean(k)[i];
      squared_norms.push_back(norm);
      variances.push_back(mixture.deviations[k] * mixture.deviations[k]);
      log_weights.push_back(std::log(mixture.weights[k]));
    }
  }
  size_t count() const { return variances.size(); }
  const double* mean(size_t k) const { return means.data() + k * static_cast<size_t>(dimension); }
  bool includes(size_t k, int64_t label) const {
    return class_count == 0 || label == class_count || classes[k] == label;
  }
};

// The path and the output's definition at one time: output = sum_k r_k (p D_k + q E_k), with
// posterior weights r_k. Only q sigma is ever needed, which stays finite where q does not.
struct OutputPoint {
  Jet alpha, variance, p, q_sigma;
};

OutputPoint output_point(const Schedule& schedule, Prediction prediction, double t) {
  const BasicPoint<Jet> point = schedule.jet_at(t);
  const DataNoise<Jet> weights = output_in_terms_of_data_and_noise(prediction, point);
  const bool velocity = prediction == Prediction::velocity;
  return {point.alpha, schedule.variance_jet(t), weights.data,
          velocity ? point.variance_rate : weights.noise * point.sigma};
}

double dot(const double* a, const double* b, int64_t size) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

double squared_distance(const double* x, double alpha, const double* mean, int64_t size) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < size; ++i) {
    const double difference = x[i] - alpha * mean[i];
    sum += difference * difference;
  }
  return sum;
}

void add_scaled(double* out, double factor, const double* values, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) out[i] += factor * values[i];
}

// The quantities of one sample at one time, per component.
struct Posterior {
  std::vector<size_t> index;                   // components of the sample's class
  std::vector<double> v, distance, weight, g;  // variance of x, |x - alpha m|^2, r_k, gain on x

  Posterior(const Components& components, const OutputPoint& point, int64_t label,
            const double* x) {
    const double alpha = point.alpha.value;
    for (size_t k = 0; k < components.count(); ++k) {
      if (!components.includes(k, label)) continue;
      index.push_back(k);
      v.push_back(alpha * alpha * components.variances[k] + point.variance.value);
      distance.push_back(squared_distance(x, alpha, components.mean(k), components.dimension));
      g.push_back((point.p.value * alpha * components.variances[k] + point.q_sigma.value) /
                  v.back());
      weight.push_back(components.log_weights[k] -
                       0.5 * static_cast<double>(components.dimension) * std::log(v.back()) -
                       distance.back() / (2 * v.back()));
    }
    softmax();
  }

 private:
  void softmax() {
    const double largest = *std::max_element(weight.begin(), weight.end());
    double total = 0;
    for (double& w : weight) total += w = std::exp(w - largest);
    for (double& w : weight) w /= total;
  }
};

// out = sum_k r_k (p m_k + g_k (x - alpha m_k)).
void predict_one(const Components& components, const OutputPoint& point, int64_t label,
                 const double* x, double* out) {
  const Posterior posterior(components, point, label, x);
  double gain = 0;
  for (size_t j = 0; j < posterior.index.size(); ++j) gain += posterior.weight[j] * posterior.g[j];
  for (int64_t i = 0; i < components.dimension; ++i) out[i] = gain * x[i];
  for (size_t j = 0; j < posterior.index.size(); ++j) {
    const double factor =
        posterior.weight[j] * (point.p.value - point.alpha.value * posterior.g[j]);
    add_scaled(out, factor, components.mean(posterior.index[j]), components.dimension);
  }
}

// The pull-back of a cotangent c through predict_one: fills x_gradient, returns the gradient in t.
// With phi_k = <c, p m_k + g_k y_k>, y_k = x - alpha m_k, the output is phi = sum_k r_k phi_k.
double pull_back_one(const Components& components, const OutputPoint& point, int64_t label,
                     const double* x, const double* c, double* x_gradient) {
  const Posterior posterior(components, point, label, x);
  const int64_t size = components.dimension;
  const size_t count = posterior.index.size();
  const Jet& alpha = point.alpha;
  const double c_x = dot(c, x, size);
  std::vector<double> c_m(count), phi(count);
  double total = 0, gain = 0;
  for (size_t j = 0; j < count; ++j) {
    c_m[j] = dot(c, components.mean(posterior.index[j]), size);
    phi[j] = point.p.value * c_m[j] + posterior.g[j] * (c_x - alpha.value * c_m[j]);
    total += posterior.weight[j] * phi[j];
    gain += posterior.weight[j] * posterior.g[j];
  }
  for (int64_t i = 0; i < size; ++i) x_gradient[i] = gain * c[i];

  double t_gradient = 0, pull_on_x = 0;
  for (size_t j = 0; j < count; ++j) {
    const size_t k = posterior.index[j];
    const double v = posterior.v[j], s2 = components.variances[k];
    const double excess = posterior.weight[j] * (phi[j] - total);
    pull_on_x += excess / v;
    add_scaled(x_gradient, alpha.value * excess / v, components.mean(k), size);

    const double v_dot = 2 * alpha.value * alpha.first * s2 + point.variance.first;
    const double g_dot = (point.p.first * alpha.value * s2 + point.p.value * alpha.first * s2 +
                          point.q_sigma.first - posterior.g[j] * v_dot) /
                         v;
    const double phi_dot = point.p.first * c_m[j] + g_dot * (c_x - alpha.value * c_m[j]) -
                           posterior.g[j] * alpha.first * c_m[j];
    const double y_m = dot(x, components.mean(k), size) - alpha.value * components.squared_norms[k];
    const double log_weight_dot = -0.5 * static_cast<double>(size) * v_dot / v +
                                  alpha.first * y_m / v +
                                  posterior.distance[j] * v_dot / (2 * v * v);
    t_gradient += posterior.weight[j] * phi_dot + excess * log_weight_dot;
  }
  add_scaled(x_gradient, -pull_on_x, x, size);
  return t_gradient;
}

// A batch on the CPU in float64, however it came.
struct Batch {
  torch::Tensor x;       // [batch, dimension]
  torch::Tensor t;       // [batch]
  torch::Tensor labels;  // [batch] int64, or undefined

  int64_t label(int64_t i) const { return labels.defined() ? labels.data_ptr<int64_t>()[i] : 0; }
  double* row(const torch::Tensor& tensor, int64_t i) const {
    return tensor.data_ptr<double>() + i * x.size(1);
  }
};

// Reference-counted in LibTorch's way, so that a graph waiting for its backward pass keeps it
// alive.
struct Definition : torch::CustomClassHolder {
  Definition(const Mixture& mixture, SchedulePtr path, Prediction output)
      : components(mixture), schedule(std::move(path)), prediction(output) {}
  Components components;
  SchedulePtr schedule;
  Prediction prediction;
};
using DefinitionPtr = c10::intrusive_ptr<Definition>;

template <class Work>
void for_each_sample(const Batch& batch, Work work) {
  at::parallel_for(0, batch.x.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) work(i);
  });
}

class MixtureFunction : public torch::autograd::Function<MixtureFunction> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& t, const torch::Tensor& labels,
                               const DefinitionPtr& definition) {
    const Batch batch = {x.to(torch::kCPU, torch::kDouble).reshape({x.size(0), -1}).contiguous(),
                         t.contiguous(), labels};
    torch::Tensor out = torch::empty_like(batch.x);
    for_each_sample(batch, [&](int64_t i) {
      const OutputPoint point = output_point(*definition->schedule, definition->prediction,
                                             batch.t.data_ptr<double>()[i]);
      predict_one(definition->components, point, batch.label(i), batch.row(batch.x, i),
                  batch.row(out, i));
    });
    context->save_for_backward({x, batch.t, labels});
    context->saved_data["definition"] = torch::IValue::make_capsule(definition);
    return out.reshape(x.sizes()).to(x.device(), x.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor& x = saved[0];
    const auto definition = c10::static_intrusive_pointer_cast<Definition>(
        context->saved_data["definition"].toCapsule());
    const Batch batch = {x.to(torch::kCPU, torch::kDouble).reshape({x.size(0), -1}).contiguous(),
                         saved[1], saved[2]};
    const torch::Tensor cotangent =
        gradients[0].to(torch::kCPU, torch::kDouble).reshape(batch.x.sizes()).contiguous();
    torch::Tensor x_gradient = torch::empty_like(batch.x), t_gradient = torch::empty_like(batch.t);
    for_each_sample(batch, [&](int64_t i) {
      const OutputPoint point = output_point(*definition->schedule, definition->prediction,
                                             batch.t.data_ptr<double>()[i]);
      t_gradient.data_ptr<double>()[i] =
          pull_back_one(definition->components, point, batch.label(i), batch.row(batch.x, i),
                        batch.row(cotangent, i), batch.row(x_gradient, i));
    });
    return {x_gradient.reshape(x.sizes()).to(x.device(), x.scalar_type()), t_gradient,
            torch::Tensor(), torch::Tensor()};
  }
};

class MixtureModel : public Model {
 public:
  MixtureModel(const Mixture& mixture, SchedulePtr schedule, Prediction prediction,
               torch::ScalarType dtype)
      : definition_(c10::make_intrusive<Definition>(mixture, std::move(schedule), prediction)),
        dtype_(dtype) {}

  torch::Tensor predict(const torch::Tensor& x, const torch::Tensor& t,
                        const Conditions& conditions) const override {
    return MixtureFunction::apply(x, t, labels(conditions, x.size(0)), definition_).to(dtype_);
  }

  Prediction prediction() const override { return definition_->prediction; }
  SchedulePtr schedule() const override { return definition_->schedule; }
  std::vector<int64_t> sample_shape() const override { return {definition_->components.dimension}; }
  torch::ScalarType dtype() const override { return dtype_; }

 private:
  torch::Tensor labels(const Conditions& conditions, int64_t batch) const {
    const int64_t null_class = definition_->components.class_count;
    const auto entry = conditions.find("class");
    if (entry == conditions.end()) return torch::full({batch}, null_class, torch::kLong);
    torch::Tensor labels = entry->second.to(torch::kCPU, torch::kLong).contiguous();
    if (labels.numel() != batch) {
      throw bad_input("{} classes were given for {} samples", labels.numel(), batch);
    }
    if (labels.numel() > 0 &&
        (labels.min().item<int64_t>() < 0 || labels.max().item<int64_t>() > null_class)) {
      throw bad_input(
          "class out of range: found {} to {}, the mixture has classes 0 to {} ({} is the null "
          "class)",
          labels.min().item<int64_t>(), labels.max().item<int64_t>(), null_class, null_class);
    }
    return labels;
  }

  DefinitionPtr definition_;
  torch::ScalarType dtype_;
};

}  // namespace

ModelPtr mixture_model(Mixture mixture, SchedulePtr schedule, Prediction prediction,
                       torch::ScalarType dtype) {
  mixture.validate();
  return std::make_shared<MixtureModel>(mixture, std::move(schedule), prediction, dtype);
}

}  // namespace bespoke
