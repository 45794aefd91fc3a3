#include "runs/shown_execution.h"

#include <memory>
#include <set>

#include "bespoke/base/message.h"
#include "bespoke/base/progress.h"
#include "runs/team.h"

namespace bespoke {

namespace {

// A bar for what is being done, until it is done or something else is.
class Bars {
 public:
  void show(const std::string& what, double done) {
    if (!bar_ || what != what_) bar_ = std::make_unique<Progress>(what_ = what);
    bar_->update(done);
    if (done >= 1) bar_.reset();
  }

 private:
  std::string what_;
  std::unique_ptr<Progress> bar_;
};

}  // namespace

Execution shown_execution(const OpenModel& open, int64_t batch) {
  Execution execution;
  execution.device = open.device;
  execution.dtype = open.state_dtype();
  execution.batch = batch;
  execution.team = &team();
  execution.on_progress = [bars = std::make_shared<Bars>()](const std::string& what, double done) {
    bars->show(what, done);
  };
  execution.on_note = [said = std::make_shared<std::set<std::string>>()](const std::string& note) {
    if (said->insert(note).second) detail::say("bespoke: {}", note);
  };
  return execution;
}

}  // namespace bespoke
