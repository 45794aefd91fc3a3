#include "drawing.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <functional>

#include "bespoke/core/error.h"
#include "bespoke/core/progress.h"
#include "bespoke/model/fields.h"
#include "bespoke/solver/reference.h"
#include "bespoke/solver/sampler.h"

namespace bespoke {

namespace {

using OnProgress = std::function<void(double)>;

// work(begin, end, report) over all samples, in batches that shrink where memory runs out.
template <class Work>
void in_fitting_batches(int64_t count, int64_t batch, const OnProgress& on_progress, Work work) {
  for (int64_t begin = 0; begin < count;) {
    const int64_t end = std::min(count, begin + batch);
    const auto report = [&](double done) {
      on_progress((static_cast<double>(begin) + done * static_cast<double>(end - begin)) /
                  static_cast<double>(count));
    };
    try {
      work(begin, end, report);
      begin = end;
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      // The model splits its own batches; this is memory for the states.
      if (!is_out_of_memory(error)) throw;
      if (end - begin == 1) {
        throw Error(ErrorKind::device,
                    "out of memory even with --batch 1; use --dtype bf16, a solver of fewer "
                    "evaluations, or a device with more memory");
      }
      batch = (end - begin) / 2;
      fmt::print(stderr, "bespoke: out of memory, going on with --batch {}\n", batch);
    }
  }
}

}  // namespace

Drawing draw_with_reference(const Start& start, double tolerance, int64_t batch) {
  Progress progress("reference");
  std::vector<torch::Tensor> parts;
  double evaluations = 0;
  in_fitting_batches(
      start.count(), batch, [&](double done) { progress.update(done); },
      [&](int64_t begin, int64_t end, const OnProgress& report) {
        ReferenceOptions options;
        options.tolerances = {tolerance, tolerance};
        options.first_sample = begin;
        options.on_progress = report;
        const auto result = reference(start.model, start.noise.slice(0, begin, end),
                                      slice(start.conditions, begin, end), options);
        parts.push_back(result.x);
        evaluations += result.evaluations.sum().item<double>();
      });
  return {torch::cat(parts), evaluations / static_cast<double>(start.count())};
}

Drawing draw_with_solver(const Start& start, const NsSolver& solver, int64_t batch) {
  Progress progress("sampling");
  const VelocityField field(start.model);
  std::vector<torch::Tensor> parts;
  in_fitting_batches(
      start.count(), batch, [&](double done) { progress.update(done); },
      [&](int64_t begin, int64_t end, const OnProgress& report) {
        const auto on_step = [&](const StepInfo& info) {
          report((info.step + 1.0) / solver.nfe());
        };
        parts.push_back(sample(solver, field, start.noise.slice(0, begin, end),
                               slice(start.conditions, begin, end), on_step, begin));
      });
  return {torch::cat(parts), static_cast<double>(solver.nfe())};
}

}  // namespace bespoke
