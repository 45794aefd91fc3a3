#include "runs/shown_execution.h"

#include <set>

#include "bespoke/base/message.h"
#include "runs/team.h"

namespace bespoke {

void ProgressBars::begin(const std::string& what) {
  bar_ = std::make_unique<Progress>(what_ = what);
}

void ProgressBars::turn_to(const std::string& what) {
  if (!bar_ || what != what_) begin(what);
}

void ProgressBars::report(const std::string& what, double done) {
  turn_to(what);
  bar_->update(done);
  if (done >= 1) clear();
}

void ProgressBars::show(const std::string& what, double done, const std::string& note) {
  turn_to(what);
  bar_->show(done, note);
}

void ProgressBars::clear() { bar_.reset(); }

Execution shown_execution(const OpenModel& open, int64_t batch,
                          const std::shared_ptr<ProgressBars>& bars) {
  Execution execution;
  execution.device = open.device;
  execution.dtype = open.state_dtype();
  execution.batch = batch;
  execution.team = &team();
  execution.on_progress = [bars](const std::string& what, double done) {
    bars->report(what, done);
  };
  execution.on_note = [said = std::make_shared<std::set<std::string>>()](const std::string& note) {
    if (said->insert(note).second) detail::say("bespoke: {}", note);
  };
  return execution;
}

}  // namespace bespoke
