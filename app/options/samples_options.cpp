#include "options/samples_options.h"

#include "options/condition_options.h"
#include "options/number_checks.h"

namespace bespoke {

void add_sample_options(CLI::App& command, SampleChoice& choice) {
  add_condition_options(
      command, choice.conditions,
      "condition NAME=VALUE: a class, a list that repeats over the samples "
      "(class=0-9), or a tensor (text=FILE.safetensors[:KEY] or FILE.npy), one per "
      "sample or shared");
  command
      .add_option("--count", choice.count,
                  "number of samples; default 64, or all of --seeds, --noise or --utterances")
      ->check(positive_number());
  command.add_option("--seed", choice.seed, "sample i starts from noise (seed, i)")
      ->capture_default_str();
  command.add_option("--seeds", choice.seeds,
                     "a seed for each sample, such as 0-63: sample i starts from noise (seeds[i], "
                     "0)");
  command.add_option("--noise", choice.noise,
                     "start from this .npy, or the tensor 'noise' of this .safetensors, as it is");
}

}  // namespace bespoke
