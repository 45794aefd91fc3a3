#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <set>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/message.h"
#include "bespoke/base/progress.h"
#include "bespoke/base/sha256.h"
#include "bespoke/base/text.h"
#include "bespoke/io/dataset.h"
#include "bespoke/io/safetensors.h"
#include "bespoke/jobs/conditions.h"
#include "bespoke/jobs/run_folder.h"
#include "bespoke/model/fields.h"
#include "bespoke/model/guidance.h"
#include "bespoke/sample/in_batches.h"
#include "bespoke/solver/grid.h"
#include "bespoke/solver/imported_solver.h"
#include "options/model_options.h"
#include "runs/embedded_models.h"
#include "teachers/halving.h"
#include "teachers/script_student.h"
#include "teachers/student_card.h"
#include "training/progressive_options.h"
#include "training/train_run.h"
#include "training/training_commands.h"

namespace bespoke {

using namespace detail;

namespace {

// What students learn from: samples whose labels are numbers of rows of the conditions.
struct DistillationSet {
  Dataset data;
  Conditions conditions;        // a row for each sample
  std::set<std::string> given;  // conditions that are not null
};

// The whole work, apart from how far it has got.
struct ProgressiveRun {
  const ProgressiveOptions& options;
  TrainOptions train;  // for all students alike
  torch::ScalarType dtype;
  OpenModel first;  // the first teacher
  DistillationSet set;
  std::vector<double> times;  // of its steps
  std::filesystem::path folder;
};

ModelOptions model_options(const ProgressiveOptions& options) {
  ModelOptions model;
  model.model = options.model;
  model.guidance = options.guidance;
  model.device = options.device;
  model.threads = options.threads;
  // Coarser products cost a teacher nothing beside what a student gets wrong.
  if (parse_device(options.device).is_cuda()) model.dtype = "tf32";
  return model;
}

OpenModel open_first_teacher(const ProgressiveOptions& options) {
  OpenModel open = open_model(model_options(options));
  if (!open.network) {
    throw usage_error("{} has no weights to train; give a model card of a TorchScript model",
                      options.model);
  }
  if (open.card.steps > 0 && open.card.steps != options.from) {
    throw usage_error("{} is a student for {} steps; give --from {}", options.model,
                      open.card.steps, open.card.steps);
  }
  return open;
}

// The condition that labels of data are; null where the model has none.
const ConditionCard* class_condition(const ModelCard& card) {
  for (const auto& condition : card.conditions) {
    if (!condition.is_tensor()) return &condition;
  }
  return nullptr;
}

const ConditionCard* text_condition(const ModelCard& card) {
  for (const auto& condition : card.conditions) {
    if (condition.is_text()) return &condition;
  }
  return nullptr;
}

void check_samples_of_data(const Dataset& data, const ModelCard& card, const std::string& source) {
  if (data.samples.sizes().slice(1) == torch::IntArrayRef(card.sample_shape)) return;
  throw bad_input(
      "{} has samples of {}, {} is of {}; leave out --data to learn from the model's own samples",
      source, fmt::join(data.samples.sizes().slice(1), "x"), card.name,
      fmt::join(card.sample_shape, "x"));
}

Dataset read_examples(const ProgressiveOptions& options, const ModelCard& card) {
  DatasetOptions wanted;
  wanted.size = options.size;
  const auto& shape = card.sample_shape;
  const bool square_images = shape.size() == 3 && shape[1] == shape[2];
  if (square_images && wanted.size == 0) wanted.size = shape[2];
  if (square_images && (shape[0] == 1 || shape[0] == 3)) wanted.channels = shape[0];
  Dataset data;
  {
    Progress progress("reading");
    wanted.on_progress = [&](double done) { progress.update(done); };
    data = read_dataset({options.data.begin(), options.data.end()}, wanted);
  }
  for (const auto& note : data.notes) say("{}", note);
  check_samples_of_data(data, card, options.data.front());
  return data;
}

torch::Tensor rows_of_captions(const ProgressiveOptions& options, const ConditionCard& condition,
                               int64_t count) {
  auto lines = split(read_text_file(options.captions), '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (static_cast<int64_t>(lines.size()) != count) {
    throw bad_input("{} has {} captions for {} samples; give one per line, in their order",
                    options.captions, lines.size(), count);
  }
  std::vector<torch::Tensor> rows;
  for (const auto& line : lines) {
    rows.push_back(read_checked(options.captions, [&] { return text_row(condition, line); }));
  }
  return torch::cat(rows);
}

// What the data says of its samples, as the model's conditions.
Conditions conditions_of_data(const ProgressiveOptions& options, const Dataset& data,
                              const ModelCard& card) {
  Conditions rows;
  if (const ConditionCard* condition = class_condition(card)) {
    const auto classes = static_cast<int64_t>(data.classes.size());
    if (classes > condition->classes) {
      throw bad_input("{} has {} classes, {} knows {}; give the data it was trained on",
                      options.data.front(), classes, card.name, condition->classes);
    }
    rows[condition->name] = data.labels;
  }
  const ConditionCard* text = text_condition(card);
  if (!options.captions.empty() && text == nullptr) {
    throw usage_error("--captions is for models that are told what to draw in words, {} is not",
                      card.name);
  }
  if (text != nullptr && options.captions.empty()) {
    throw usage_error("{} is told what to draw in words; give --captions FILE with --data",
                      card.name);
  }
  if (text != nullptr) {
    rows[text->name] = rows_of_captions(options, *text, data.samples.size(0));
  }
  return rows;
}

DistillationSet set_of_data(const ProgressiveOptions& options, const ModelCard& card) {
  DistillationSet set;
  set.data = read_examples(options, card);
  const Conditions rows = conditions_of_data(options, set.data, card);
  for (const auto& [name, values] : rows) set.given.insert(name);
  set.conditions = read_conditions(card.conditions, {}, set.data.samples.size(0), rows);
  return set;
}

// All classes in turn where nothing else is said.
std::vector<std::string> conditions_of_own_samples(const ProgressiveOptions& options,
                                                   const ModelCard& card) {
  std::vector<std::string> texts = options.conditions;
  const ConditionCard* condition = class_condition(card);
  const bool is_said =
      condition == nullptr || std::any_of(texts.begin(), texts.end(), [&](const auto& text) {
        return text.rfind(condition->name + "=", 0) == 0;
      });
  if (!is_said) {
    // The null class may be the last of those that the card counts.
    const bool counts_null = condition->null == condition->classes - 1;
    const int64_t last = condition->classes - (counts_null ? 2 : 1);
    texts.push_back(fmt::format("{}=0-{}", condition->name, last));
  }
  return texts;
}

// The model's own samples by the steps that are distilled, kept in the folder for a run that is
// resumed.
torch::Tensor own_samples(const ProgressiveRun& run) {
  const auto path = run.folder / "samples.safetensors";
  if (is_file(path)) return read_safetensors(path).tensors.at("samples");
  Progress progress("sampling");
  Batching batching;
  batching.batch = run.train.batch;
  batching.on_progress = [&](double done) { progress.update(done); };
  const ModelPtr model = guided(run.first, run.set.conditions);
  const Conditions conditions = conditions_on(run.set.conditions, run.first.device);
  const NsSolver solver = on_times("ddim", run.times, run.first.card.schedule);
  const torch::Tensor noise = starting_noise(*model, run.train.seed, 0, run.options.samples)
                                  .to(run.first.device, torch::kFloat);
  const torch::Tensor samples =
      sample_in_batches(solver, VelocityField(model), noise, conditions, batching)
          .to(torch::kCPU, torch::kFloat);
  write_safetensors(path, {{{"samples", samples}}, {}});
  return samples;
}

DistillationSet set_of_own_samples(const ProgressiveOptions& options, const ModelCard& card) {
  DistillationSet set;
  const auto texts = conditions_of_own_samples(options, card);
  for (const auto& text : texts) {
    set.given.insert(parse_condition(card.conditions, text).condition->name);
  }
  set.conditions = read_conditions(card.conditions, texts, options.samples);
  return set;
}

std::filesystem::path folder_of(const ProgressiveRun& run, int64_t steps) {
  return run.folder / fmt::format("steps-{:02}", steps);
}

AdamWState train_student(const ProgressiveRun& run, const TrainOptions& train_options,
                         ScriptStudent& student, const Loss& loss, const Examples& examples,
                         const std::filesystem::path& folder) {
  AdamWState state = state_to_begin_with(folder, run.options.resume, run.train.device, student);
  TrainingRun log(folder, state.step);
  const int64_t begin = state.step;
  {
    Progress progress(folder.filename().string());
    train(student, loss, examples, train_options, state, [&](const TrainProgress& at) {
      const double rate = static_cast<double>((at.step - begin) * train_options.batch) /
                          std::max(log.seconds(), 1e-9);
      progress.show(
          static_cast<double>(at.step) / static_cast<double>(train_options.steps),
          fmt::format("update {}, loss {:.3g}, {:.0f} examples/s", at.step, at.loss, rate));
      log.record(at, state);
      return !interrupt_requested();
    });
  }
  log.store(state);
  if (interrupt_requested()) {
    throw Error(ErrorKind::interrupted,
                fmt::format("interrupted at update {} of {} of {}; continue with --resume",
                            state.step, train_options.steps, folder.filename().string()));
  }
  return state;
}

// What the first teacher's network is called to learn one example of one update.
int64_t forwards_per_example(const ProgressiveRun& run, size_t halving) {
  const bool doubled = halving == 0 && !run.first.guidance.is_zero();
  return doubled ? 5 : 3;
}

void write_student(const ProgressiveRun& run, size_t halving, const std::vector<double>& times,
                   const ScriptStudent& student, const torch::Tensor& weights,
                   const std::filesystem::path& folder) {
  const ModelCard& card = run.first.card;
  const auto steps = static_cast<int64_t>(times.size()) - 1;
  const std::string file = student.file_with(weights);
  write_file_atomically(folder / kStudentWeights, file);
  copy_card_files(card, folder);
  SolverFile solver;
  solver.name = "ddim";
  solver.field = run.first.field();
  solver.field.guidance = {};
  solver.put({on_times("ddim", times, card.schedule)});
  solver.provenance["made_by"] = "progressive";
  write_solver_file(folder / "ddim.solver.json", solver);
  const int64_t updates = run.options.updates_of(halving);
  const nlohmann::json summary = {
      {"steps", steps},
      {"times", times},
      {"updates", updates},
      {"batch", run.train.batch},
      {"forwards", updates * run.train.batch * forwards_per_example(run, halving)},
      {"training_samples", run.set.data.samples.size(0)},
      {"training_data", run.options.data.empty() ? "own samples" : "data"},
      {"parameters", weights.numel()}};
  write_file_atomically(folder / "summary.json", json_text(summary, 2) + "\n");
  StudentFacts facts;
  facts.steps = steps;
  facts.weights_sha256 = sha256(file);
  facts.conditions = run.set.given;
  facts.source = fmt::format("{} distilled to {} DDIM step{} by 'bespoke-train progressive'",
                             card.name, steps, steps == 1 ? "" : "s");
  if (!run.first.guidance.is_zero()) facts.source += ", with " + to_string(run.first.guidance);
  const auto embedded = embedded_card(run.options.model);
  const auto origin = embedded.empty() ? std::filesystem::path(run.options.model) : embedded;
  // Last: a student is done when its card is there.
  write_file_atomically(folder / "model.json",
                        student_card_text(card, read_text_file(origin), facts));
}

// One halving: what the teacher takes `times` for, as a student in every second of them. The card
// of the student.
ModelCard halve(const ProgressiveRun& run, size_t halving, const ModelCard& teacher_card,
                const ModelPtr& teacher, const std::vector<double>& times,
                const Examples& examples) {
  const auto steps = halved_steps(teacher_card.prediction, *teacher_card.schedule, times,
                                  run.options.loss_weight());
  const auto folder = folder_of(run, static_cast<int64_t>(steps.size()));
  const auto card_file = folder / "model.json";
  if (run.options.resume && is_file(card_file)) return read_model_card(card_file);
  make_folders(folder);
  ScriptStudent student(teacher_card, run.train.device);
  TrainOptions train_options = run.train;
  train_options.steps = run.options.updates_of(halving);
  // Another for each student, so that they do not see the same noise.
  train_options.seed = run.train.seed + (static_cast<uint64_t>(steps.size()) << 32);
  const Loss loss = halving_loss(teacher, student.model(teacher_card, run.dtype), steps,
                                 conditions_on(run.set.conditions, run.train.device));
  const Clock::time_point begun = Clock::now();
  const AdamWState state = train_student(run, train_options, student, loss, examples, folder);
  write_student(run, halving, every_second(times), student, state.average, folder);
  fmt::print(
      "{} steps: {} updates of {} examples, {} forwards, {:.0f} s; wrote {}\n", steps.size(),
      train_options.steps, train_options.batch,
      grouped(train_options.steps * train_options.batch * forwards_per_example(run, halving)),
      seconds_since(begun), card_file.string());
  return read_model_card(card_file);
}

void run_progressive(const ProgressiveOptions& options) {
  options.check();
  refuse_unless_resumed(options.output, options.resume);
  OpenModel open = open_first_teacher(options);
  ProgressiveRun run = {options, options.train, torch::kFloat, open, {}, {}, options.output};
  run.train.device = open.device;
  const bool half = options.dtype == "bf16" || (options.dtype == "auto" && open.device.is_cuda());
  run.dtype = half ? torch::kBFloat16 : torch::kFloat;
  run.times = make_grid(options.grid, static_cast<int>(options.from), *open.card.schedule);
  // What cannot be distilled is refused before any folder is made.
  halved_steps(open.card.prediction, *open.card.schedule, run.times, options.loss_weight());
  const int64_t weights = copy_weights(ScriptStudent(open.card, torch::kCPU)).numel();
  run.set = options.data.empty() ? set_of_own_samples(options, open.card)
                                 : set_of_data(options, open.card);
  const ModelPtr first = guided(open, run.set.conditions);
  nlohmann::json resolved = options.resolved();
  resolved["dtype"] = half ? "bf16" : "fp32";
  const FolderLock lock = claim_folder(options.output, resolved, options.resume);
  if (options.data.empty()) run.set.data.samples = own_samples(run);
  const int64_t count = run.set.data.samples.size(0);
  run.set.data.labels = torch::arange(count, torch::kLong);
  fmt::print("{}, {:.2f} million weights, {} {}\n", open.title(),
             1e-6 * static_cast<double>(weights), count,
             options.data.empty() ? "samples of its own" : "examples");
  const Examples examples(run.set.data, open.device);
  ModelCard card = open.card;
  ModelPtr teacher = first;
  std::vector<double> times = run.times;
  for (size_t halving = 0; halving < options.students().size(); ++halving) {
    card = halve(run, halving, card, teacher, times, examples);
    times = every_second(times);
    teacher = load_model(card, {open.device, torch::kFloat});
  }
}

}  // namespace

void add_progressive_command(CLI::App& app) {
  auto options = std::make_shared<ProgressiveOptions>();
  auto* command = app.add_subcommand(
      "progressive",
      "Train students of a model that need half its steps, a quarter, ...: progressive "
      "distillation "
      "(Salimans and Ho, 2022), to compare solvers with.\n\n"
      "Examples:\n"
      "  bespoke-train progressive --model model.json --data photos.zip --flip --from 64 --to 4 -o "
      "out\n"
      "  bespoke-train progressive --model cifar10-fm-ot --samples 20000 --updates 4000 -o out\n"
      "  bespoke sample --model out/steps-04/model.json --cond y=0-9 --solver "
      "out/steps-04/ddim.solver.json -o pictures");
  options->add_to(*command);
  command->callback([options] { run_progressive(*options); });
}

}  // namespace bespoke
