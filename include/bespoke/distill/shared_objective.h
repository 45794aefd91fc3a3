#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bespoke/base/team.h"
#include "bespoke/distill/objective.h"

namespace bespoke {

// An objective that a team answers together: of the samples asked about, each member looks after
// every size-th, and all get what `whole` would have answered alone, to the last bit where its
// answers about a sample do not depend on the others. Every member asks the same questions, as a
// method does that is told the same; counts are those of all members.
class SharedObjective : public Objective {
 public:
  // Both must outlive it.
  SharedObjective(const Objective& whole, Team& team) : whole_(whole), team_(team) {}

  int64_t count() const override { return whole_.count(); }
  double sample_size() const override { return whole_.sample_size(); }
  double data_deviation() const override { return whole_.data_deviation(); }
  bool is_linear() const override { return whole_.is_linear(); }
  std::vector<double> log_errors(const NsSolver& solver, const std::vector<int64_t>& subset,
                                 Counts* counts) const override;
  LinearModel last_step(const NsSolver& solver, const std::vector<int64_t>& subset,
                        Counts* counts) const override;
  int64_t trajectories() const override { return whole_.trajectories(); }
  std::unique_ptr<StepwiseRun> begin_run(const SolverShape& shape,
                                         const std::vector<int64_t>& subset,
                                         Counts* counts) const override;
  std::unique_ptr<Linearisation> linearise(const NsSolver& solver,
                                           const std::vector<int64_t>& subset,
                                           const std::vector<Change>& changes,
                                           Counts* counts) const override;
  LossGradient loss_gradient(const NsSolver& solver, const std::vector<int64_t>& subset,
                             Counts* counts) const override;

 private:
  const Objective& whole_;
  Team& team_;
};

}  // namespace bespoke
