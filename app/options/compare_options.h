#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "bespoke/base/table.h"
#include "bespoke/jobs/compare_job.h"
#include "options/cache_options.h"
#include "options/model_options.h"
#include "options/report_options.h"

namespace bespoke {

// The options of `bespoke compare`, as typed.
struct CompareCommandOptions {
  ModelOptions model;
  CompareJob typed;  // what is typed as it is
  std::string solvers, nfe = "4-16+4", space = "sample", format = "table";
  bool details = false;
  CacheOptions cache;
  ReportOptions report;
  std::string sounds;  // a folder for them

  CompareCommandOptions();
  void add_to(CLI::App& command);

  // What they ask for, with every mistake in them found that can be found without the model.
  CompareJob job() const;
  // Whether figures are printed for other programs, which have no room for sentences.
  bool for_programs() const;
  // Whether samples are kept to be looked at or listened to.
  bool shows_samples() const { return report.any() || !sounds.empty(); }
};

}  // namespace bespoke
