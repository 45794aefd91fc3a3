#include "bespoke/jobs/condition_deals.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include "bespoke/base/error.h"
#include "bespoke/base/random.h"
#include "bespoke/base/sha256.h"
#include "bespoke/io/tensor_file.h"
#include "bespoke/jobs/conditions.h"
#include "bespoke/model/guidance.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kRandomClasses[] = "random";
constexpr uint32_t kClassStream = 0x636C6173;  // the first; a stream for each condition

// Every class but the one that stands for none.
torch::Tensor proper_classes(const ConditionCard& condition) {
  const torch::Tensor all = torch::arange(condition.classes, torch::kLong);
  return all.masked_select(all.ne(condition.null));
}

torch::Tensor draw_rows(const SplitPlan& split, uint32_t stream, int64_t rows) {
  std::vector<int64_t> drawn;
  for (const double u : uniform_numbers(static_cast<uint64_t>(split.seed), stream,
                                        static_cast<size_t>(split.count))) {
    drawn.push_back(static_cast<int64_t>(u * static_cast<double>(rows)));
  }
  return torch::tensor(drawn, torch::kLong);
}

// Rows are named by their content: a file of the same name may have changed.
std::string describe_content(const ConditionCard& condition, const torch::Tensor& rows) {
  const torch::Tensor plain = rows.contiguous();
  const std::string bytes(static_cast<const char*>(plain.data_ptr()), plain.nbytes());
  return fmt::format("{} from {} rows in turn (SHA-256 {})", condition.name, rows.size(0),
                     sha256(bytes));
}

std::string describe_rows(const ConditionCard& condition, const std::string& value,
                          const torch::Tensor& rows) {
  if (is_tensor_file(value) || condition.is_text()) return describe_content(condition, rows);
  return fmt::format("{} = {} in turn", condition.name, value);
}

// What the user gives of each condition, by its name.
std::map<std::string, std::string> given_values(const OpenModel& open,
                                                const std::vector<std::string>& texts) {
  std::map<std::string, std::string> values;
  for (const auto& text : texts) {
    const auto [condition, value] = parse_condition(open.card.conditions, text);
    refuse_beside(open.utterance_rows, condition->name);
    refuse_twice(values.count(condition->name) > 0, condition->name);
    values[condition->name] = value;
  }
  return values;
}

}  // namespace

torch::Tensor ConditionDeals::Deal::of(Split split, int64_t begin, int64_t end) const {
  if (draws.empty()) return repeat_rows(rows, begin, end);
  return rows.index_select(0, draws.at(split).slice(0, begin, end));
}

ConditionDeals::Deal ConditionDeals::random_classes(const ConditionCard& condition, uint32_t stream,
                                                    const PairPlan& plan) {
  Deal deal;
  deal.rows = proper_classes(condition);
  for (const Split split : {Split::train, Split::validation}) {
    deal.draws[split] =
        draw_rows(split == Split::train ? plan.train : plan.validation, stream, deal.rows.size(0));
  }
  deal.policy = fmt::format("{} uniform over {} classes", condition.name, deal.rows.size(0));
  return deal;
}

// A tensor that the user does not give: none, but a model that is told what to draw must be told.
ConditionDeals::Deal ConditionDeals::without_value(const OpenModel& open,
                                                   const ConditionCard& condition) {
  if (condition.is_text()) {
    throw usage_error(
        "{}", open.encoder ? "the model fills gaps; give --utterances FOLDER, with sounds of the "
                             "kind that the solver is for"
                           : "the model draws what it is told; give --prompts FILE, with prompts "
                             "of the kind that the solver is for, one a line");
  }
  return {default_rows(condition), {}, condition.name + " = none"};
}

ConditionDeals::ConditionDeals(const OpenModel& open, const std::vector<std::string>& texts,
                               const PairPlan& plan)
    : guidance_(open.guidance.range),
      seeds_({{Split::train, plan.train.seed}, {Split::validation, plan.validation.seed}}) {
  const auto values = given_values(open, texts);
  const std::vector<ConditionCard>& known = open.card.conditions;
  for (size_t i = 0; i < known.size(); ++i) {
    const ConditionCard& condition = known[i];
    const auto value = values.find(condition.name);
    const bool is_random = value == values.end() || value->second == kRandomClasses;
    const auto uttered = open.utterance_rows.find(condition.name);
    Deal& deal = deals_[condition.name];
    if (!condition.is_tensor() && is_random) {
      deal = random_classes(condition, kClassStream + static_cast<uint32_t>(i), plan);
    } else if (uttered != open.utterance_rows.end()) {
      deal = {uttered->second, {}, describe_content(condition, uttered->second)};
    } else if (value != values.end()) {
      const torch::Tensor rows = condition_rows(condition, value->second);
      deal = {rows, {}, describe_rows(condition, value->second, rows)};
    } else {
      deal = without_value(open, condition);
    }
  }
}

std::string ConditionDeals::policy() const {
  std::vector<std::string> policies;
  for (const auto& [name, deal] : deals_) policies.push_back(deal.policy);
  return policies.empty() ? "none" : fmt::format("{}", fmt::join(policies, "; "));
}

Conditions ConditionDeals::of(Split split, int64_t begin, int64_t end) const {
  Conditions conditions;
  for (const auto& [name, deal] : deals_) conditions[name] = deal.of(split, begin, end);
  if (guidance_) {
    conditions[kGuidanceCondition] =
        guidance_weights(*guidance_, static_cast<uint64_t>(seeds_.at(split)),
                         static_cast<uint64_t>(begin), end - begin);
  }
  return conditions;
}

Conditions ConditionDeals::rows() const {
  Conditions rows;
  for (const auto& [name, deal] : deals_) rows[name] = deal.rows;
  return rows;
}

}  // namespace bespoke
