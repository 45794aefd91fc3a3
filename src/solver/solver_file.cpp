#include "bespoke/solver/solver_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/text.h"

namespace bespoke {

using namespace detail;

namespace {

using nlohmann::json;

constexpr char kFormat[] = "bespoke-solver";
constexpr int kVersion = 1;

std::string numbers(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(exact(value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

void check_header(const json& document, const std::string& source) {
  require(document.is_object() && document.contains("format") && document["format"] == kFormat,
          source, fmt::format("not a solver file: \"format\" must be \"{}\"", kFormat));
  require(document.contains("version"), source, "key \"version\" is missing");
  const double version = number(document["version"], source + ": version");
  require(
      version <= kVersion, source,
      fmt::format("written by a newer bespoke (file version {}, this one reads up to {}); update "
                  "bespoke",
                  version, kVersion));
  require(version == kVersion, source, fmt::format("unknown file version {}", version));
}

NsSolver read_solver(const json& document, const std::string& source) {
  const auto nfe =
      static_cast<size_t>(whole_number(document["nfe"], source + ": nfe", 1, kMostEvaluations));
  NsSolver solver;
  solver.times = number_list(document["times"], source + ": times", nfe + 1);
  solver.a = number_list(document["a"], source + ": a", nfe);
  if (document.contains("start_scale")) {
    solver.start_scale = number(document["start_scale"], source + ": start_scale");
  }
  const json& rows = document["b"];
  require(rows.is_array(), source, "b must be a list of rows");
  require(rows.size() == nfe, source,
          fmt::format("b has {} rows, {} are needed", rows.size(), nfe));
  for (size_t i = 0; i < nfe; ++i) {
    solver.b.push_back(number_list(rows[i], fmt::format("{}: b[{}]", source, i), i + 1));
  }
  return solver;
}

FieldDescription read_field(const json& field, const std::string& source) {
  check_keys(field, {"prediction", "schedule"}, {"guidance"}, source + ": field");
  FieldDescription description;
  description.prediction =
      parse_prediction(text_value(field["prediction"], source + ": field.prediction"));
  description.schedule = schedule_from_json(field["schedule"]);
  if (field.contains("guidance")) {
    description.guidance = guidance_from_json(field["guidance"], source + ": field.guidance");
  }
  return description;
}

}  // namespace

std::string to_json_text(const SolverFile& file) {
  const json field = {{"prediction", to_string(file.field.prediction)},
                      {"schedule", file.field.schedule->describe()},
                      {"guidance", describe(file.field.guidance)}};
  std::vector<std::string> rows;
  for (const auto& row : file.solver.b) rows.push_back("    " + numbers(row));
  return fmt::format(
      "{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"name\": {},\n  \"nfe\": {},\n"
      "  \"start_scale\": {},\n  \"times\": {},\n  \"a\": {},\n  \"b\": [\n{}\n  ],\n  \"field\": "
      "{},\n"
      "  \"provenance\": {}\n}}\n",
      kFormat, kVersion, json_text(json(file.name)), file.solver.nfe(),
      exact(file.solver.start_scale), numbers(file.solver.times), numbers(file.solver.a),
      fmt::join(rows, ",\n"), json_text(field), json_text(file.provenance));
}

SolverFile parse_solver_file(const std::string& text, const std::string& source) {
  const json document = parse_json(text, source, "a solver file is one JSON object");
  check_header(document, source);
  check_keys(document, {"format", "version", "name", "nfe", "times", "a", "b", "field"},
             {"start_scale", "provenance"}, source);
  return read_checked(source, [&] {
    SolverFile file;
    file.name = text_value(document["name"], source + ": name");
    file.solver = read_solver(document, source);
    file.solver.validate();
    file.field = read_field(document["field"], source);
    file.provenance = document.value("provenance", json::object());
    return file;
  });
}

SolverFile read_solver_file(const std::filesystem::path& path) {
  return parse_solver_file(read_text_file(path), path.string());
}

void write_solver_file(const std::filesystem::path& path, const SolverFile& file) {
  file.solver.validate();
  write_file_atomically(path, to_json_text(file));
}

}  // namespace bespoke
