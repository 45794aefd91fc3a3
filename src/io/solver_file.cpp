#include "bespoke/io/solver_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bespoke/core/error.h"
#include "bespoke/core/file.h"
#include "bespoke/core/text.h"

namespace bespoke {

namespace {

using nlohmann::json;

constexpr char kFormat[] = "bespoke-solver";
constexpr int kVersion = 1;
constexpr int64_t kMostEvaluations = 10000;

std::string numbers(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(exact(value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

// Throws with the key and the file named.
void require(bool good, const std::string& source, const std::string& problem) {
  if (!good) throw bad_input("{}: {}", source, problem);
}

json parse_json(const std::string& text, const std::string& source) {
  try {
    return json::parse(text);
  } catch (const json::exception& error) {
    throw bad_input("{}: not a JSON file ({}); a solver file is written by 'bespoke solver -o'",
                    source, error.what());
  }
}

void check_keys(const json& object, const std::vector<std::string>& known,
                const std::vector<std::string>& optional, const std::string& where) {
  for (const auto& key : known) {
    const bool needed = std::find(optional.begin(), optional.end(), key) == optional.end();
    require(!needed || object.contains(key), where, fmt::format("key \"{}\" is missing", key));
  }
  for (const auto& item : object.items()) {
    const bool found = std::find(known.begin(), known.end(), item.key()) != known.end();
    require(found, where, unknown_name("key", item.key(), known));
  }
}

double number(const json& value, const std::string& where) {
  require(value.is_number(), where, fmt::format("must be a number, found {}", value.dump()));
  return value.get<double>();
}

std::string string_value(const json& value, const std::string& where) {
  require(value.is_string(), where, fmt::format("must be a text, found {}", value.dump()));
  return value.get<std::string>();
}

std::vector<double> number_list(const json& value, const std::string& where, size_t length) {
  require(value.is_array(), where, "must be a list of numbers");
  require(value.size() == length, where,
          fmt::format("has {} entries, {} are needed", value.size(), length));
  std::vector<double> list;
  for (size_t i = 0; i < value.size(); ++i) {
    list.push_back(number(value[i], fmt::format("{}[{}]", where, i)));
  }
  return list;
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

size_t read_nfe(const json& document, const std::string& source) {
  const json& value = document["nfe"];
  require(value.is_number_integer(), source,
          fmt::format("nfe must be a whole number, found {}", value.dump()));
  const auto nfe = value.get<int64_t>();
  require(nfe >= 1 && nfe <= kMostEvaluations, source,
          fmt::format("nfe is {}, it must be from 1 to {}", nfe, kMostEvaluations));
  return static_cast<size_t>(nfe);
}

NsSolver read_solver(const json& document, const std::string& source) {
  const size_t nfe = read_nfe(document, source);
  NsSolver solver;
  solver.times = number_list(document["times"], source + ": times", nfe + 1);
  solver.a = number_list(document["a"], source + ": a", nfe);
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
  require(field.is_object(), source, "field must be an object");
  check_keys(field, {"prediction", "schedule", "guidance"}, {"guidance"}, source + ": field");
  FieldDescription description;
  description.prediction =
      parse_prediction(string_value(field["prediction"], source + ": field.prediction"));
  description.schedule = schedule_from_json(field["schedule"]);
  if (field.contains("guidance")) {
    description.guidance = number(field["guidance"], source + ": field.guidance");
  }
  return description;
}

}  // namespace

std::string to_json_text(const SolverFile& file) {
  const json field = {{"prediction", to_string(file.field.prediction)},
                      {"schedule", file.field.schedule->describe()},
                      {"guidance", file.field.guidance}};
  std::vector<std::string> rows;
  for (const auto& row : file.solver.b) rows.push_back("    " + numbers(row));
  return fmt::format(
      "{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"name\": {},\n  \"nfe\": {},\n"
      "  \"times\": {},\n  \"a\": {},\n  \"b\": [\n{}\n  ],\n  \"field\": {},\n"
      "  \"provenance\": {}\n}}\n",
      kFormat, kVersion, json(file.name).dump(), file.solver.nfe(), numbers(file.solver.times),
      numbers(file.solver.a), fmt::join(rows, ",\n"), field.dump(), file.provenance.dump());
}

SolverFile parse_solver_file(const std::string& text, const std::string& source) {
  const json document = parse_json(text, source);
  check_header(document, source);
  check_keys(document,
             {"format", "version", "name", "nfe", "times", "a", "b", "field", "provenance"},
             {"provenance"}, source);
  try {
    SolverFile file;
    file.name = string_value(document["name"], source + ": name");
    file.solver = read_solver(document, source);
    file.solver.validate();
    file.field = read_field(document["field"], source);
    file.provenance = document.value("provenance", json::object());
    return file;
  } catch (const Error& error) {
    const std::string message = error.what();
    const bool named = message.rfind(source, 0) == 0;
    throw Error(ErrorKind::bad_input, named ? message : source + ": " + message);
  } catch (const json::exception& error) {
    throw bad_input("{}: {}", source, error.what());
  }
}

SolverFile read_solver_file(const std::filesystem::path& path) {
  return parse_solver_file(read_file(path), path.string());
}

void write_solver_file(const std::filesystem::path& path, const SolverFile& file) {
  file.solver.validate();
  write_file_atomically(path, to_json_text(file));
}

}  // namespace bespoke
