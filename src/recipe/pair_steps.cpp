#include "pair_steps.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "bespoke/base/json_checks.h"
#include "bespoke/tensor/tensor_arrays.h"
#include "pair_shard.h"

namespace bespoke::detail {

namespace {

constexpr char kSteps[] = "steps";
constexpr int64_t kMostSteps = int64_t{1} << 32;  // sums stay far from overflow

std::vector<Array> single_rows(const torch::Tensor& all, int64_t begin, int64_t count) {
  std::vector<Array> rows;
  for (int64_t k = begin; k < begin + count; ++k) rows.push_back(array_of(all.slice(0, k, k + 1)));
  return rows;
}

}  // namespace

TensorFile joined_steps(const std::vector<RecordedSteps>& samples) {
  std::vector<int64_t> counts;
  std::vector<double> times;
  std::vector<torch::Tensor> states, slopes, middles;
  const auto append = [](auto& all, const auto& some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  for (const RecordedSteps& sample : samples) {
    counts.push_back(static_cast<int64_t>(sample.middles.size()));
    append(times, sample.times);
    append(states, tensors_in(sample.states));
    append(slopes, tensors_in(sample.slopes));
    append(middles, tensors_in(sample.middles));
  }
  TensorFile file;
  file.tensors = {{kSteps, torch::tensor(counts, torch::kLong)},
                  {"times", torch::tensor(times, torch::kDouble)},
                  {"states", torch::cat(states)},
                  {"slopes", torch::cat(slopes)},
                  {"middles", torch::cat(middles)}};
  return file;
}

std::vector<RecordedSteps> separate_steps(const TensorFile& file, int64_t samples,
                                          const PairManifest& manifest, const std::string& source) {
  const torch::Tensor counts = checked_tensor(file, kSteps, {samples}, torch::kLong, source);
  int64_t steps = 0;
  for (int64_t k = 0; k < samples; ++k) {
    const int64_t count = counts[k].item<int64_t>();
    require(count >= 1 && count < kMostSteps, source,
            fmt::format("sample {} has {} steps, at least 1 is needed", k, count));
    steps += count;
  }
  const auto shaped = [&](const char* name, int64_t rows) {
    return checked_tensor(file, name, with_count(rows, manifest.sample_shape),
                          manifest.state_dtype(), source);
  };
  const torch::Tensor times =
      checked_tensor(file, "times", {steps + samples}, torch::kDouble, source);
  const torch::Tensor states = shaped("states", steps + samples);
  const torch::Tensor slopes = shaped("slopes", steps + samples);
  const torch::Tensor middles = shaped("middles", steps);
  std::vector<RecordedSteps> result;
  int64_t end = 0, middle = 0;
  for (int64_t k = 0; k < samples; ++k) {
    const int64_t count = counts[k].item<int64_t>();
    const double* first = times.data_ptr<double>() + end;
    RecordedSteps sample;
    sample.times.assign(first, first + count + 1);
    require(std::is_sorted(sample.times.begin(), sample.times.end()), source,
            fmt::format("the times of sample {} must rise", k));
    sample.states = single_rows(states, end, count + 1);
    sample.slopes = single_rows(slopes, end, count + 1);
    sample.middles = single_rows(middles, middle, count);
    result.push_back(std::move(sample));
    end += count + 1;
    middle += count;
  }
  return result;
}

}  // namespace bespoke::detail
