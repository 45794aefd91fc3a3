#include "bespoke/jobs/pair_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bespoke/base/clock.h"
#include "bespoke/base/error.h"
#include "bespoke/model/guidance.h"
#include "bespoke/recipe/error_mask.h"
#include "bespoke/recipe/reference_choice.h"
#include "bespoke/run/multistep.h"

namespace bespoke {

namespace {

PairRun run_on(const Execution& execution, const std::string& what) {
  PairRun run;
  run.batch = execution.batch;
  run.device = execution.device;
  run.team = execution.team;
  run.on_progress = [&execution, what](double done) { execution.report(what, done); };
  run.on_given_up = [](int64_t, const std::string&) {};  // intact_pairs leaves it out
  return run;
}

// Who the pairs belong to, and how they were chosen.
PairRequest completed(PairRequest request, const OpenModel& open) {
  request.plan.owner = {open.identity(), open.guidance};
  request.plan.tf32 = open.is_tf32();
  check_plan(request.plan);
  return request;
}

// The pairs whose statistics are matched are training pairs that follow the others.
PairPlan with_matching(const PairRequest& request) {
  PairPlan plan = request.plan;
  plan.train.count += request.matching;
  return plan;
}

}  // namespace

Pairs make_pairs(const OpenModel& open, PairSource source, const Execution& execution,
                 const std::string& what) {
  if (const auto& range = open.guidance.range) {
    source.conditions[kGuidanceCondition] =
        guidance_weights(*range, static_cast<uint64_t>(source.seed),
                         static_cast<uint64_t>(source.first), source.count);
  }
  return make_pairs(guided(open, source.conditions), source, run_on(execution, what));
}

Pairs intact_pairs(const Pairs& pairs, const std::string& what, const Execution& execution) {
  IntactPairs intact = leave_out_broken(pairs, what);
  for (const int64_t pair : intact.left_out) {
    execution.note(
        fmt::format("{} sample {} left out: the model's own sample is not finite", what, pair));
  }
  return intact.pairs.to(execution.device, execution.dtype);
}

PairMaker::PairMaker(const OpenModel& open, PairRequest request, Execution execution)
    : open_(open),
      request_(completed(std::move(request), open)),
      execution_(std::move(execution)),
      matching_evaluations_(std::min(request_.fixed_evaluations, kUsualEvaluations)),
      deals_(open, request_.conditions, with_matching(request_)) {
  request_.plan.conditions = deals_.policy();
}

void PairMaker::look_first() const {
  if (!open_.network) return;
  GlanceOptions options;
  options.count = std::min(options.count, plan().train.count);
  options.batch = execution_.batch;
  options.seed = static_cast<uint64_t>(plan().train.seed);
  options.device = execution_.device;
  options.conditions = deals_.of(Split::train, 0, options.count);
  options.mask = error_mask(open_.card, options.conditions);
  note_remarks(
      glance_at_samples(guided(open_, deals_.rows()), open_.card.least, open_.card.most, options));
}

void PairMaker::look_at(const Pairs& pairs) const {
  if (!open_.network) return;
  note_remarks(glance_at(pairs.x1, open_.card.least, open_.card.most,
                         error_mask(open_.card, pairs.conditions)));
}

void PairMaker::note_remarks(const SampleGlance& glance) const {
  for (const auto& remark : remarks(glance, open_.card)) execution_.note("warning: " + remark);
}

PairReport PairMaker::fill_at_once(const std::filesystem::path& folder) const {
  const auto conditions = [&](Split split, int64_t begin, int64_t end) {
    return deals_.of(split, begin, end);
  };
  PairRun run = run_on(execution_, "pairs");
  run.on_given_up = [&](int64_t, const std::string& why) {
    execution_.note(why + "; distillation leaves it out");
  };
  const Clock::time_point begun = Clock::now();
  PairReport report = make_pairs(folder, plan(), guided(open_, deals_.rows()), conditions, run);
  report.seconds = seconds_since(begun);
  return report;
}

PairReport PairMaker::fill(const std::filesystem::path& folder) const {
  // A run that is continued has been looked at.
  if (!std::filesystem::exists(folder / "manifest.json")) look_first();
  try {
    return fill_at_once(folder);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::interrupted) throw;
    throw Error(error.kind(), fmt::format("interrupted; what is done is in {}, run the same "
                                          "command again to continue",
                                          folder.string()));
  }
}

int64_t PairMaker::choose_reference() {
  if (request_.fixed_evaluations == 0) return 0;
  PairSource source = source_of(Split::train, 0);
  source.conditions = deals_.of(Split::train, 0, source.count);
  const ReferenceChoice choice =
      bespoke::choose_reference(guided(open_, deals_.rows()), source, request_.fixed_evaluations,
                                run_on(execution_, "how to draw the model's own samples"));
  request_.fixed_evaluations = choice.fixed_evaluations;
  if (choice.fixed_evaluations == 0) request_.plan.tolerances = choice.tolerances;
  for (SplitPlan* split : {&request_.plan.train, &request_.plan.validation}) {
    split->count = choice.affordable(split->count);
  }
  return choice.calls;
}

Pairs PairMaker::make(Split split, PairSource source, const std::string& what) const {
  source.conditions = deals_.of(split, source.first, source.first + source.count);
  return make_pairs(guided(open_, deals_.rows()), source,
                    run_on(execution_, fmt::format("the model's own samples ({})", what)));
}

PairSource PairMaker::source_of(Split split, int64_t trajectories) const {
  const SplitPlan& wanted = split == Split::train ? plan().train : plan().validation;
  PairSource source;
  source.seed = wanted.seed;
  source.count = wanted.count;
  source.tolerances = plan().tolerances;
  source.trajectories = trajectories;
  source.fixed_evaluations = request_.fixed_evaluations;
  return source;
}

Pairs PairMaker::make(Split split, int64_t trajectories) const {
  return make(split, source_of(split, trajectories), to_string(split));
}

Pairs PairMaker::make_matching() const {
  PairSource source;
  source.seed = plan().train.seed;
  source.first = plan().train.count;
  source.count = request_.matching;
  source.tolerances = request_.matching_tolerances;
  source.fixed_evaluations = matching_evaluations_;
  return make(Split::train, source, "to match statistics of");
}

}  // namespace bespoke
