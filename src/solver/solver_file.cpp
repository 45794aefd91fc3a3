#include "bespoke/solver/solver_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/text.h"
#include "bespoke/path/network_input.h"

namespace bespoke {

using namespace detail;

namespace {

using nlohmann::json;

constexpr char kFormat[] = "bespoke-solver";
constexpr int kFirstVersion = 1, kVersion = 2;

std::string numbers(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(exact(value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

int read_version(const json& document, const std::string& source) {
  require(document.is_object() && document.contains("format") && document["format"] == kFormat,
          source, fmt::format("not a solver file: \"format\" must be \"{}\"", kFormat));
  require(document.contains("version"), source, "key \"version\" is missing");
  const double version = number(document["version"], source + ": version");
  require(
      version <= kVersion, source,
      fmt::format("written by a newer bespoke (file version {}, this one reads up to {}); update "
                  "bespoke",
                  version, kVersion));
  require(version == kFirstVersion || version == kVersion, source,
          fmt::format("unknown file version {}", version));
  return static_cast<int>(version);
}

// "b" or "c": a list of rows, of as many numbers as `length` says of each.
template <class Length>
std::vector<std::vector<double>> read_rows(const json& rows, const std::string& where, size_t count,
                                           const Length& length) {
  require(rows.is_array(), where, "must be a list of rows");
  require(rows.size() == count, where,
          fmt::format("has {} rows, {} are needed", rows.size(), count));
  std::vector<std::vector<double>> result;
  for (size_t i = 0; i < count; ++i) {
    result.push_back(number_list(rows[i], fmt::format("{}[{}]", where, i), length(i)));
  }
  return result;
}

// What a solver with built-in guidance has more.
void read_own_guidance(const json& object, const std::string& at, NsSolver& solver) {
  if (!object.contains("guided") && !object.contains("c")) return;
  require(object.contains("guided") && object.contains("c"), at + "guided",
          "goes with \"c\", and one of the two is missing");
  const json& steps = object["guided"];
  require(steps.is_array() && !steps.empty(), at + "guided", "must be a list of steps");
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::string where = fmt::format("{}guided[{}]", at, i);
    const auto step = static_cast<int>(whole_number(steps[i], where, 0, solver.nfe() - 1));
    // What the rows of c must have follows from it.
    require(i == 0 || step > solver.guided.back(), where, "steps must rise");
    solver.guided.push_back(step);
  }
  const SolverShape shape = solver.shape();
  solver.c = read_rows(object["c"], at + "c", solver.a.size(),
                       [&](size_t i) { return shape.differences(i); });
}

// The solver in an object that may hold other keys too; `at` is what its keys are called after.
NsSolver read_solver(const json& object, const std::string& at) {
  const auto nfe =
      static_cast<size_t>(whole_number(object["nfe"], at + "nfe", 1, kMostEvaluations));
  NsSolver solver;
  solver.times = number_list(object["times"], at + "times", nfe + 1);
  solver.a = number_list(object["a"], at + "a", nfe);
  if (object.contains("start_scale")) {
    solver.start_scale = number(object["start_scale"], at + "start_scale");
  }
  solver.b = read_rows(object["b"], at + "b", nfe, [](size_t i) { return i + 1; });
  read_own_guidance(object, at, solver);
  return solver;
}

json read_provenance(const json& object, const std::string& where) {
  json provenance = object.value("provenance", json::object());
  require(provenance.is_object(), where, "provenance must be an object");
  return provenance;
}

std::vector<FiledSolver> read_solvers(const json& list, const std::string& where) {
  require(list.is_array() && !list.empty(), where, "must be a list of solvers");
  std::vector<FiledSolver> solvers;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", where, i);
    check_keys(list[i], {"nfe", "times", "a", "b"}, {"start_scale", "guided", "c", "provenance"},
               place);
    solvers.push_back({read_solver(list[i], place + "."), read_provenance(list[i], place)});
    read_checked(place, [&] { solvers.back().solver.validate(); });
  }
  return solvers;
}

FieldDescription read_field(const json& field, const std::string& where) {
  check_keys(field, {"prediction", "schedule"}, {"guidance", "time", "clip"}, where);
  FieldDescription description;
  description.prediction = parse_prediction(text_value(field["prediction"], where + ".prediction"));
  description.schedule = schedule_from_json(field["schedule"]);
  if (field.contains("guidance")) {
    description.guidance = guidance_from_json(field["guidance"], where + ".guidance");
  }
  if (field.contains("clip")) {
    description.clip = clip_from_json(field["clip"], where + ".clip");
  }
  if (field.contains("time")) {
    network_input_from_json(field["time"], where + ".time");
    description.time = field["time"];
  }
  return description;
}

json field_json(const FieldDescription& field) {
  json description = {{"prediction", to_string(field.prediction)},
                      {"schedule", field.schedule->describe()},
                      {"guidance", describe(field.guidance)}};
  if (!field.time.is_null()) description["time"] = field.time;
  if (field.clip) description["clip"] = describe(*field.clip);
  return description;
}

std::string rows_text(const std::vector<std::vector<double>>& rows) {
  std::vector<std::string> texts;
  for (const auto& row : rows) texts.push_back("        " + numbers(row));
  return fmt::format("[\n{}\n      ]", fmt::join(texts, ",\n"));
}

std::string own_guidance_text(const NsSolver& solver) {
  if (!solver.guides_itself()) return "";
  return fmt::format(",\n      \"guided\": [{}],\n      \"c\": {}", fmt::join(solver.guided, ", "),
                     rows_text(solver.c));
}

std::string solver_text(const FiledSolver& filed) {
  const NsSolver& solver = filed.solver;
  const bool has_provenance = !filed.provenance.empty();
  return fmt::format(
      "    {{\n      \"nfe\": {},\n      \"start_scale\": {},\n      \"times\": {},\n"
      "      \"a\": {},\n      \"b\": {}{}{}{}\n    }}",
      solver.nfe(), exact(solver.start_scale), numbers(solver.times), numbers(solver.a),
      rows_text(solver.b), own_guidance_text(solver),
      has_provenance ? ",\n      \"provenance\": " : "",
      has_provenance ? json_text(filed.provenance) : "");
}

const FiledSolver& find(const SolverFile& file, int nfe) {
  if (nfe == 0 && file.solvers.size() == 1) return file.solvers.front();
  const std::string there = fmt::format("{}", fmt::join(file.nfes(), ", "));
  if (nfe == 0) {
    throw usage_error("{} holds solvers of {} evaluations; choose one of them", file.name, there);
  }
  for (const auto& filed : file.solvers) {
    if (filed.solver.nfe() == nfe) return filed;
  }
  throw bad_input("{} has no solver of {} evaluations; it has {}", file.name, nfe, there);
}

// The weight is in the numbers of a solver with built-in guidance, so there is one.
void check_guidance(const NsSolver& solver, const GuidanceWeight& guidance) {
  if (!solver.guides_itself() || (!guidance.range && !guidance.is_zero())) return;
  throw bad_input(
      "the solver of {} evaluations has built-in guidance, which is for one guidance weight other "
      "than 0, "
      "and the field has {}",
      solver.nfe(), to_string(guidance));
}

}  // namespace

std::vector<int> SolverFile::nfes() const {
  std::vector<int> list;
  for (const auto& filed : solvers) list.push_back(filed.solver.nfe());
  return list;
}

bool SolverFile::has(int nfe) const {
  const auto list = nfes();
  return std::find(list.begin(), list.end(), nfe) != list.end();
}

const NsSolver& SolverFile::at(int nfe) const { return find(*this, nfe).solver; }

Provenance SolverFile::provenance_of(int nfe) const {
  json all = provenance;
  const json& filed = find(*this, nfe).provenance;
  if (!filed.empty()) all.update(filed);
  return provenance_from(all);
}

SolverFile SolverFile::only(int nfe) const { return {name, field, {find(*this, nfe)}, provenance}; }

void SolverFile::put(FiledSolver solver) {
  const int nfe = solver.solver.nfe();
  const auto place = std::find_if(solvers.begin(), solvers.end(), [nfe](const FiledSolver& other) {
    return other.solver.nfe() >= nfe;
  });
  if (place != solvers.end() && place->solver.nfe() == nfe) {
    *place = std::move(solver);
  } else {
    solvers.insert(place, std::move(solver));
  }
}

void SolverFile::validate() const {
  if (solvers.empty()) throw bad_input("{} has no solver", name);
  for (size_t i = 0; i < solvers.size(); ++i) {
    solvers[i].solver.validate();
    check_guidance(solvers[i].solver, field.guidance);
    if (i == 0) continue;
    const int before = solvers[i - 1].solver.nfe(), nfe = solvers[i].solver.nfe();
    if (nfe == before) throw bad_input("two solvers have {} evaluations; keep one of them", nfe);
    if (nfe < before) {
      throw bad_input("solvers must be in rising order of nfe, found {} after {}", nfe, before);
    }
  }
}

std::string to_json_text(const SolverFile& file) {
  std::vector<std::string> solvers;
  for (const auto& filed : file.solvers) solvers.push_back(solver_text(filed));
  return fmt::format(
      "{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"name\": {},\n  \"field\": {},\n"
      "  \"solvers\": [\n{}\n  ],\n  \"provenance\": {}\n}}\n",
      kFormat, kVersion, json_text(json(file.name)), json_text(field_json(file.field)),
      fmt::join(solvers, ",\n"), file.provenance.empty() ? "{}" : json_text(file.provenance));
}

SolverFile parse_solver_file(const std::string& text, const std::string& source) {
  const json document = parse_json(text, source, "a solver file is one JSON object");
  const bool single = read_version(document, source) == kFirstVersion;
  if (single) {
    check_keys(document, {"format", "version", "name", "nfe", "times", "a", "b", "field"},
               {"start_scale", "provenance"}, source);
  } else {
    check_keys(document, {"format", "version", "name", "field", "solvers"}, {"provenance"}, source);
  }
  return read_checked(source, [&] {
    SolverFile file;
    file.name = text_value(document["name"], source + ": name");
    file.field = read_field(document["field"], source + ": field");
    if (single) {
      file.solvers = {{read_solver(document, source + ": ")}};
    } else {
      file.solvers = read_solvers(document["solvers"], source + ": solvers");
    }
    file.provenance = read_provenance(document, source);
    file.validate();
    return file;
  });
}

SolverFile read_solver_file(const std::filesystem::path& path) {
  return parse_solver_file(read_text_file(path), path.string());
}

void write_solver_file(const std::filesystem::path& path, const SolverFile& file) {
  file.validate();
  write_file_atomically(path, to_json_text(file));
}

}  // namespace bespoke
