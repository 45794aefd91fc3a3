#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/io/tensor_cache.h"
#include "bespoke/jobs/execution.h"
#include "bespoke/jobs/feature_choice.h"
#include "bespoke/jobs/open_model.h"
#include "bespoke/jobs/sample_choice.h"
#include "bespoke/measure/compare.h"
#include "bespoke/report/report.h"

namespace bespoke {

// What a comparison of solvers is to measure: with the model, all that decides its figures.
// `bespoke compare` fills one in. The defaults compare methods that need no training.
struct CompareJob {
  // What to compare: names of solvers, as everywhere, files of them, and "best" for the best of the
  // catalogue on its best grid. Each at every NFE it can spend.
  std::vector<std::string> solvers = {"euler",   "midpoint",   "heun",          "ab2",       "ddim",
                                      "dpm++2m", "unipc2-bh2", "exp-ab2-noise", "deis-t-ab2"};
  std::vector<int> nfes = {4, 8, 12, 16};  // evaluations per sample, 1 ... kMostEvaluations

  SampleChoice samples;             // which noise and conditions they all start from
  double tolerance = 1e-6;          // of the reference, relative and absolute
  bool of_decoded = false;          // whether errors are of what samples decode to
  FeatureChoice features;           // for Fréchet distances
  std::string real;                 // data to take such distances to as well; empty: none
  std::vector<std::string> judges;  // folders of classifiers
  // Evaluations up to which is looked for what the best of the catalogue needs; 0: not at all.
  int equal_up_to = 40;

  // Throws a usage error where things do not go together, and bad input where the real data is not
  // there, whatever the model.
  void validate() const;
};

// Every field, by its name in CompareJob and in the parts of it.
nlohmann::json to_json(const CompareJob& job);
// Reads back what to_json wrote, and validates it. Bad input for a field that is missing, unknown
// or of another type; `source` says in messages where the JSON is from.
CompareJob parse_compare_job(const nlohmann::json& json, const std::string& source);

// What is compared: each by its whole name, with those that are files.
struct Contenders {
  std::vector<NamedSolver> solvers;         // in the order of the job, each at the NFEs it has
  std::map<std::string, SolverFile> files;  // by their paths, which are their solvers' names
  std::vector<std::string> notes;           // which solvers "best" is, for people
  std::vector<int> nfes;  // rising; those asked for, and of files that have but one
};

// A comparison, with everything found that its figures are made of.
struct PreparedComparison {
  CompareJob job;                        // as it was asked for
  OpenModel open;                        // the model whose samples are to be reproduced
  TensorCache cache;                     // off for a team of several
  ChosenSamples samples;                 // whose noise every solver starts from
  Contenders contenders;                 // with "best" replaced by what it is
  std::optional<OpenFeatures> features;  // for Fréchet distances; none: the job names no extractor
  MeasureInputs inputs;                  // all but the statistics of real data
  DecodeSamples decode;                  // null where there is no decoder
};

// Finds every mistake in the job before any figure is computed; "best" is looked for here. The
// cache keeps the reference's samples and statistics of real data for later comparisons; it may be
// off, and is not used by a team of several.
PreparedComparison prepare_comparison(const CompareJob& job, OpenModel open, TensorCache cache,
                                      const Execution& execution);

// A comparison that was made.
struct ModelComparison {
  PreparedComparison prepared;           // what it was made of, with the statistics of real data
  Comparison figures;                    // of every contender and of the reference
  bool cached_reference = false;         // whether the cache had all of the reference's samples
  std::optional<ReferenceResult> first;  // of the first samples, where there is a cache
  // What the best of the catalogue needs to come as near as the featured row; see find_need.
  std::optional<CatalogueNeed> catalogue;
};

// Measures. Of each solver and of the reference the first `keep` samples are kept.
ModelComparison run_comparison(PreparedComparison prepared, int64_t keep,
                               const Execution& execution);

// What the best of the catalogue needs to come as near as the solver that is spoken of; none where
// no solver is, or where as many evaluations as it is worth are not to be tried.
std::optional<CatalogueNeed> find_need(const ModelComparison& comparison,
                                       const Execution& execution);

}  // namespace bespoke
