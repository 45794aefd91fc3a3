#include "runs/shown_execution.h"

#include <set>

#include "bespoke/base/message.h"
#include "runs/team.h"

namespace bespoke {

void ProgressBars::begin(const std::string& what) {
  clear();
  bar(what);
}

Progress& ProgressBars::bar(const std::string& what) {
  return bars_.try_emplace(what, what).first->second;
}

void ProgressBars::report(const std::string& what, double done) {
  bar(what).update(done);
  if (done >= 1) bars_.erase(what);
}

void ProgressBars::show(const std::string& what, double done, const std::string& note) {
  bar(what).show(done, note);
}

void ProgressBars::clear() { bars_.clear(); }

Execution shown_execution(const OpenModel& open, int64_t batch,
                          const std::shared_ptr<ProgressBars>& bars) {
  Execution execution = execution_on(open);
  execution.batch = batch;
  execution.team = &team();
  execution.on_progress = [bars](const std::string& what, double done) {
    bars->report(what, done);
  };
  execution.on_note = [bars,
                       said = std::make_shared<std::set<std::string>>()](const std::string& note) {
    if (!said->insert(note).second) return;
    bars->clear();  // a note has a line of its own
    detail::say("bespoke: {}", note);
  };
  return execution;
}

}  // namespace bespoke
