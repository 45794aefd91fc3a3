#pragma once

#include <map>
#include <memory>
#include <string>

#include "bespoke/base/progress.h"
#include "bespoke/jobs/execution.h"
#include "bespoke/jobs/open_model.h"

namespace bespoke {

// A bar for each thing that is being done, until it is done. One may be part of another, whose bar
// then goes on with its own time.
class ProgressBars {
 public:
  void begin(const std::string& what);  // with a new bar, the only one, even where it has one
  void report(const std::string& what, double done);
  // The same with a note beside the bar, for work that ends tidily itself.
  void show(const std::string& what, double done, const std::string& note);
  void clear();

 private:
  Progress& bar(const std::string& what);

  std::map<std::string, Progress> bars_;
};

// Runs on an open model's device by all processes of this command; its progress is a bar for each
// thing that is done, and its notes go to stderr, each once.
Execution shown_execution(
    const OpenModel& open, int64_t batch,
    const std::shared_ptr<ProgressBars>& bars = std::make_shared<ProgressBars>());

}  // namespace bespoke
