#include "bespoke/jobs/conditions.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/text.h"
#include "bespoke/io/tensor_file.h"
#include "bespoke/model/vocabulary.h"

namespace bespoke {

using namespace detail;

namespace {

std::vector<std::string> read_prompts(const std::filesystem::path& path) {
  std::vector<std::string> prompts;
  for (const auto& line : split(read_text_file(path), '\n')) {
    if (!caption_words(line).empty()) prompts.push_back(line);
  }
  if (prompts.empty()) throw bad_input("{} holds no prompts; give one a line", path.string());
  return prompts;
}

const ConditionCard& find_condition(const std::vector<ConditionCard>& known,
                                    const std::string& name) {
  std::vector<std::string> names;
  for (const auto& condition : known) {
    if (condition.name == name) return condition;
    names.push_back(condition.name);
  }
  const auto text = std::find_if(known.begin(), known.end(), [](const ConditionCard& condition) {
    return condition.is_text();
  });
  if (name == kPromptCondition && text != known.end()) return *text;
  if (names.empty()) {
    throw usage_error("this model has no conditions, found --cond {}; leave it out", name);
  }
  throw Error(ErrorKind::usage, unknown_name("condition", name, names));
}

void check_classes(const ConditionCard& condition, const torch::Tensor& values) {
  for (int64_t i = 0; i < values.numel(); ++i) {
    const auto value = values[i].item<int64_t>();
    const bool known = (value >= 0 && value < condition.classes) || value == condition.null;
    if (!known) {
      throw bad_input("condition {} = {} is out of range; the model has 0 to {}{}", condition.name,
                      value, condition.classes - 1,
                      condition.null < 0 ? "" : fmt::format(", and {} for none", condition.null));
    }
  }
}

// A tensor from a file as [rows, shape...], its shape checked against the card's.
torch::Tensor with_batch(const ConditionCard& condition, const torch::Tensor& tensor,
                         const std::string& source) {
  const torch::IntArrayRef shape(condition.shape);
  if (tensor.sizes() == shape) return tensor.unsqueeze(0);
  if (tensor.dim() == static_cast<int64_t>(shape.size()) + 1 && tensor.sizes().slice(1) == shape &&
      tensor.size(0) > 0) {
    return tensor;
  }
  throw bad_input("{}: a tensor of shape [{}] does not fit the condition {}, [{}] or [samples, {}]",
                  source, fmt::join(tensor.sizes(), ", "), condition.name,
                  fmt::join(condition.shape, ", "), fmt::join(condition.shape, ", "));
}

// One prompt, or a file of prompts, one a line.
torch::Tensor prompt_rows(const ConditionCard& condition, const std::string& text) {
  if (text.empty() || text.front() != kPromptFileMark) return text_row(condition, text);
  std::vector<torch::Tensor> rows;
  for (const auto& prompt : read_prompts(text.substr(1))) {
    rows.push_back(text_row(condition, prompt));
  }
  return torch::cat(rows);
}

torch::Tensor read_rows(const ConditionCard& condition, const std::string& text) {
  const bool whole = !condition.is_tensor() || condition.integer;
  if (is_tensor_file(text)) {
    const torch::Tensor tensor = read_tensor_file(text, condition.name);
    if (whole == tensor.is_floating_point()) {
      throw bad_input("{}: the condition {} needs {}", text, condition.name,
                      whole ? "integers, found floating-point numbers"
                            : "floating-point numbers, found integers");
    }
    if (!whole && !torch::isfinite(tensor).all().item<bool>()) {
      throw bad_input("{}: the condition {} holds NaN or infinity; give numbers", text,
                      condition.name);
    }
    const torch::Tensor rows = with_batch(condition, tensor, text);
    return whole ? rows.to(torch::kLong) : rows;
  }
  if (condition.is_text()) return prompt_rows(condition, text);
  if (condition.is_tensor()) {
    throw usage_error("the condition {} is a tensor; give --cond {}=FILE.safetensors or FILE.npy",
                      condition.name, condition.name);
  }
  return torch::tensor(parse_integer_list(text, "--cond " + condition.name), torch::kLong);
}

}  // namespace

torch::Tensor null_value(const ConditionCard& condition) {
  if (!condition.is_tensor()) return torch::full({1}, condition.null, torch::kLong);
  if (condition.zero_null) {
    std::vector<int64_t> sizes = condition.shape;
    sizes.insert(sizes.begin(), 1);
    return torch::zeros(sizes, condition.integer ? torch::kLong : torch::kFloat);
  }
  return read_rows(condition, condition.null_file.string()).slice(0, 0, 1);
}

ConditionText parse_condition(const std::vector<ConditionCard>& known, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) {
    throw usage_error("conditions are written --cond NAME=VALUE, found '{}'", text);
  }
  return {&find_condition(known, text.substr(0, equals)), text.substr(equals + 1)};
}

void refuse_twice(bool again, const std::string& name) {
  if (again) throw usage_error("--cond {}=... is given twice; give one of them", name);
}

void refuse_beside(const Conditions& rows, const std::string& name) {
  if (rows.count(name) > 0) {
    throw usage_error("--utterances says what {} is; leave out --cond {}=...", name, name);
  }
}

torch::Tensor text_row(const ConditionCard& condition, const std::string& text) {
  const auto tokens = Vocabulary(condition.vocabulary).tokens(text, condition.shape.front());
  return torch::tensor(tokens, torch::kLong).unsqueeze(0);
}

torch::Tensor condition_rows(const ConditionCard& condition, const std::string& value) {
  torch::Tensor rows = read_rows(condition, value);
  if (!condition.is_tensor()) check_classes(condition, rows);
  return rows;
}

torch::Tensor default_rows(const ConditionCard& condition) {
  if (!condition.has_null()) {
    throw usage_error("the model needs the condition {}; give --cond {}={}", condition.name,
                      condition.name, condition.is_tensor() ? "FILE.safetensors" : "0");
  }
  return null_value(condition);
}

torch::Tensor repeat_rows(const torch::Tensor& rows, int64_t begin, int64_t end) {
  return rows.index_select(0, torch::arange(begin, end, torch::kLong).remainder(rows.size(0)));
}

Conditions read_conditions(const std::vector<ConditionCard>& known,
                           const std::vector<std::string>& texts, int64_t count,
                           const Conditions& rows) {
  Conditions conditions;
  for (const auto& [name, given] : rows) conditions[name] = repeat_rows(given, 0, count);
  for (const auto& text : texts) {
    const auto [condition, value] = parse_condition(known, text);
    refuse_beside(rows, condition->name);
    refuse_twice(conditions.count(condition->name) > 0, condition->name);
    conditions[condition->name] = repeat_rows(condition_rows(*condition, value), 0, count);
  }
  for (const auto& condition : known) {
    if (conditions.count(condition.name) > 0) continue;
    const torch::Tensor none = default_rows(condition);
    if (condition.is_tensor()) conditions[condition.name] = repeat_rows(none, 0, count);
  }
  return conditions;
}

}  // namespace bespoke
