#include "bespoke/path/coordinates.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace bespoke {

namespace {

// A path with states of another size.
class Scaled : public Schedule {
 public:
  Scaled(SchedulePtr path, double scale) : path_(std::move(path)), scale_(scale) {}

  std::string name() const override { return path_->name(); }
  nlohmann::json describe() const override { return path_->describe(); }
  Jet alpha_jet(double t) const override { return scale_ * path_->alpha_jet(t); }
  Jet sigma_jet(double t) const override { return scale_ * path_->sigma_jet(t); }
  double time_at_lambda(double lambda) const override { return path_->time_at_lambda(lambda); }
  double last_time() const override { return path_->last_time(); }
  double source_std() const override { return scale_ * path_->source_std(); }

 private:
  SchedulePtr path_;
  double scale_;
};

}  // namespace

double last_inside(const Schedule& path, double t) {
  // A hair inside: at the last time itself rounding would decide on which side of a kink it is.
  constexpr double kInside = 1 - 1e-12;
  const double last = path.last_time();
  return last < 1 ? std::min(t, last * kInside) : t;
}

double Coordinates::start_factor() const { return to_canonical->at(0).s; }

double Coordinates::canonical_time(double own_time) const {
  if (own_time == 1) return 1;
  return last_inside(*canonical, to_own->at(last_inside(*own, own_time)).t);
}

double Coordinates::own_time(double canonical_time) const {
  if (canonical_time == 1) return 1;
  return last_inside(*own, to_canonical->at(last_inside(*canonical, canonical_time)).t);
}

StraightPart straight_part(const Schedule& schedule) {
  const double last = schedule.last_time();
  const SchedulePoint end = schedule.at(1);
  return {from_fm_ot(schedule, 0).t, from_fm_ot(schedule, last).t, end.alpha + end.sigma};
}

CoordinatesPtr canonical_coordinates(const SchedulePtr& schedule) {
  const SchedulePtr straight = fm_ot_schedule();
  if (schedule->describe() == straight->describe()) return nullptr;
  const StraightPart part = straight_part(*schedule);
  SchedulePtr canonical = straight;
  if (part.start > 0 || part.end < 1) {
    canonical = part_of(straight, part.start, part.end, schedule->last_time() < 1);
  }
  if (part.scale != 1) canonical = std::make_shared<Scaled>(canonical, part.scale);
  // schedule_change(a, b) is read on b: at a time there it says where that is on a.
  return std::make_shared<const Coordinates>(Coordinates{schedule, canonical,
                                                         schedule_change(schedule, canonical),
                                                         schedule_change(canonical, schedule)});
}

}  // namespace bespoke
