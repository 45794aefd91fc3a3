#include <bespoke/bespoke.h>

#include <cstdio>

int main() {
  using namespace bespoke;
  ModelRequest model;  // a card's file, where it is not a mixture: model.card
  model.name = "analytic:mixture:dim=4@vp";
  const OpenModel open = open_model(model);
  DistillationRequest request;
  request.job.nfes = {4, 6};
  request.training.samples = 16;
  request.folder = "run";  // with request.resume a run that was stopped goes on
  const DistillationResult result = run_distillation(request, open, execution_on(open));
  for (const DistilledSolver& found : result.solvers) {
    std::printf("%s: %.1f dB\n", evaluations_text(found.solver.shape()).c_str(),
                found.summary["validation_psnr"].get<double>());
  }
}
