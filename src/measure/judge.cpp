#include "bespoke/measure/judge.h"

#include <torch/torch.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/model/vocabulary.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kJudgeFile[] = "classifier.json";
constexpr char kJudgeFormat[] = "bespoke-classifier";

using Words = std::vector<std::string>;

bool holds(const Words& text, const Words& part) {
  return std::search(text.begin(), text.end(), part.begin(), part.end()) != text.end();
}

std::vector<Words> class_words(const nlohmann::json& names, const std::string& where) {
  require(names.is_array() && !names.empty(), where, "must be a list of the classes' names");
  std::vector<Words> classes;
  for (const auto& name : names) {
    classes.push_back(caption_words(text_value(name, where)));
    require(!classes.back().empty(), where, "has a name without a word");
  }
  return classes;
}

}  // namespace

Judge::Judge(const std::filesystem::path& folder, torch::Device device)
    : name_(folder.filename().string()) {
  const auto path = folder / kJudgeFile;
  const std::string source = path.string();
  if (!is_file(path)) {
    throw bad_input("{} is not there; give the folder of a 'bespoke-train classifier'", source);
  }
  read_checked(source, [&] {
    const nlohmann::json json = parse_json(read_text_file(path), source, "it is written by train");
    check_keys(json, {"format", "weights", "classes"}, {"sample_shape"}, source);
    require(json["format"] == kJudgeFormat, source, "is not of a classifier");
    classes_ = class_words(json["classes"], source + ": classes");
    for (const auto& size : json.value("sample_shape", nlohmann::json::array())) {
      sample_shape_.push_back(whole_number(size, source + ": sample_shape", 1, int64_t{1} << 40));
    }
    FeatureOptions options;
    options.device = device;
    logits_.emplace(folder / text_value(json["weights"], source + ": weights"), options);
    return 0;
  });
}

std::optional<int64_t> Judge::named_class(const std::string& prompt) const {
  const Words words = caption_words(prompt);
  std::vector<size_t> named;
  for (size_t k = 0; k < classes_.size(); ++k) {
    if (holds(words, classes_[k])) named.push_back(k);
  }
  const auto within_another = [&](size_t k) {
    return std::any_of(named.begin(), named.end(), [&](size_t other) {
      return other != k && holds(classes_[other], classes_[k]);
    });
  };
  std::vector<size_t> longest;
  std::copy_if(named.begin(), named.end(), std::back_inserter(longest),
               [&](size_t k) { return !within_another(k); });
  if (longest.size() != 1) return std::nullopt;
  return static_cast<int64_t>(longest.front());
}

std::vector<int64_t> Judge::seen_classes(const torch::Tensor& samples) const {
  const torch::Tensor logits = (*logits_)(samples);
  if (logits.size(1) != static_cast<int64_t>(classes_.size())) {
    throw bad_input("the classifier {} tells {} classes apart and names {}; train it anew", name_,
                    logits.size(1), classes_.size());
  }
  const torch::Tensor likeliest = logits.argmax(1).to(torch::kCPU).contiguous();
  const auto* values = likeliest.data_ptr<int64_t>();
  return {values, values + likeliest.numel()};
}

void write_judge(const std::filesystem::path& folder, const std::string& weights,
                 const std::vector<std::string>& classes,
                 const std::vector<int64_t>& sample_shape) {
  nlohmann::ordered_json json = {
      {"format", kJudgeFormat}, {"weights", weights}, {"classes", classes}};
  if (!sample_shape.empty()) json["sample_shape"] = sample_shape;
  write_file_atomically(folder / kJudgeFile, json_text(json, 2) + "\n");
}

Jury::Jury(std::vector<Judge> judges, std::vector<std::string> prompts)
    : judges_(std::move(judges)), prompts_(std::move(prompts)) {
  const bool any = std::any_of(prompts_.begin(), prompts_.end(), [&](const std::string& prompt) {
    return std::any_of(judges_.begin(), judges_.end(),
                       [&](const Judge& judge) { return judge.named_class(prompt).has_value(); });
  });
  if (!any) {
    throw bad_input(
        "no prompt names one class of the classifier{}; give prompts with the words it was taught",
        judges_.size() == 1 ? " " + judges_.front().name() : "s");
  }
}

std::vector<std::optional<bool>> Jury::verdicts(const torch::Tensor& samples, int64_t first) const {
  std::vector<std::optional<bool>> verdicts(static_cast<size_t>(samples.size(0)));
  for (const Judge& judge : judges_) {
    const auto seen = judge.seen_classes(samples);
    for (size_t i = 0; i < verdicts.size(); ++i) {
      const auto named = judge.named_class(prompts_.at(static_cast<size_t>(first) + i));
      if (named) verdicts[i] = verdicts[i].value_or(true) && seen[i] == *named;
    }
  }
  return verdicts;
}

}  // namespace bespoke
