#include "bespoke/run/canonical_samples.h"

#include <utility>

namespace bespoke {

namespace {

// A model on the canonical path, y = scale x / (alpha + sigma) with r rising evenly in time.
class CanonicalField : public ArrayField {
 public:
  CanonicalField(std::shared_ptr<const SampledField> field, CoordinatesPtr coordinates)
      : field_(std::move(field)),
        coordinates_(std::move(coordinates)),
        part_(straight_part(*coordinates_->own)),
        speed_((part_.end - part_.start) / coordinates_->canonical->last_time()) {}

  const Arrays& arrays() const override { return field_->arrays(); }

  Velocities evaluate(const Array& y, const std::vector<double>& times,
                      const std::vector<int64_t>& samples, Question question) const override {
    std::vector<double> straight;
    for (const double time : times) {
      straight.push_back(part_.start + speed_ * last_inside(*coordinates_->canonical, time));
    }
    Velocities velocities =
        field_->evaluate_straight(scaled(y, 1 / part_.scale), straight, samples, question);
    const double factor = part_.scale * speed_;
    velocities.velocity = scaled(velocities.velocity, factor);
    if (velocities.difference) velocities.difference = scaled(velocities.difference, factor);
    return velocities;
  }

 private:
  Array scaled(const Array& x, double factor) const {
    return factor == 1 ? x : arrays().combine({factor}, {x}, x);
  }

  std::shared_ptr<const SampledField> field_;
  CoordinatesPtr coordinates_;
  StraightPart part_;
  double speed_;
};

}  // namespace

Samples canonical_samples(const std::shared_ptr<const SampledField>& field, const Array& noise,
                          const Array& x1, std::shared_ptr<const Trajectories> trajectories,
                          EvaluationOptions options, std::vector<int64_t> numbers) {
  const CoordinatesPtr coordinates = canonical_coordinates(field->schedule());
  if (!coordinates) {
    return {field, noise, x1, std::move(trajectories), std::move(options), std::move(numbers)};
  }
  if (trajectories) {
    trajectories =
        std::make_shared<const Trajectories>(trajectories->seen_from(coordinates->canonical));
  }
  const Array start = field->arrays().combine({coordinates->start_factor()}, {noise}, noise);
  options.coordinates = coordinates;
  return {std::make_shared<CanonicalField>(field, coordinates),
          start,
          x1,
          std::move(trajectories),
          std::move(options),
          std::move(numbers)};
}

}  // namespace bespoke
