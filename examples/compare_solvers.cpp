#include <bespoke/bespoke.h>

#include <cstdio>

int main() {
  using namespace bespoke;
  ModelRequest request;  // a card's file, where it is not a mixture: request.card
  request.name = "analytic:mixture:dim=4@vp";
  CompareJob job;
  job.solvers = {"euler", "dpm++2m/karras"};
  job.nfes = {4, 8};
  job.samples.count = 16;
  const int64_t keep = 8;  // samples of each solver
  OpenModel open = open_model(request);
  const Execution execution = execution_on(open);
  const ModelComparison result = run_comparison(
      prepare_comparison(job, std::move(open), TensorCache(), execution), keep, execution);
  std::puts(tables_by_cost(result.figures, job.nfes, TableFormat::table, "").c_str());
  write_report("comparison.html", render_html(make_report(result, {})), true);
}
