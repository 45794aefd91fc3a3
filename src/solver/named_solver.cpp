#include "bespoke/solver/named_solver.h"

#include <cstring>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/text.h"
#include "bespoke/solver/field_differences.h"

namespace bespoke {

using namespace detail;

namespace {

using nlohmann::json;

constexpr char kFileSuffix[] = ".json";
constexpr char kTableauPrefix[] = "tableau:";
constexpr char kMultistepPrefix[] = "multistep:";
constexpr char kSigma0Prefix[] = "sigma0=";
constexpr char kLowerOrderFinal[] = "+lower-order-final";

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.rfind(prefix, 0) == 0;
}

bool is_custom(const std::string& text) {
  return starts_with(text, kTableauPrefix) || starts_with(text, kMultistepPrefix);
}

bool ends_with(const std::string& text, const std::string& suffix) {
  return text.size() > suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

bool is_file_name(const std::string& text) {
  return !is_custom(text) && ends_with(text, kFileSuffix);
}

// Where the grid begins in NAME/GRID. The path of a user's own file may have slashes too.
size_t slash_before_grid(const std::string& head) {
  if (!is_custom(head)) return head.find('/');
  const size_t end = head.find(std::string(kFileSuffix) + "/");
  return end == std::string::npos ? end : end + sizeof(kFileSuffix) - 1;
}

template <class Read>
auto read_rule(const std::string& path, Read read) {
  return read_checked(path, [&] {
    const json document =
        parse_json(read_text_file(path), path, "it holds the numbers of a method");
    return read(document);
  });
}

using Numbers = std::vector<double>;

ButcherTableau read_tableau(const std::string& path) {
  return read_rule(path, [](const json& document) {
    ButcherTableau tableau{document.at("a").get<std::vector<Numbers>>(),
                           document.at("b").get<Numbers>(), document.at("c").get<Numbers>()};
    tableau.validate();
    return tableau;
  });
}

MultistepRule read_multistep(const std::string& path) {
  return read_rule(path, [](const json& document) {
    MultistepRule rule{document.at("a").get<Numbers>(), document.at("b").get<Numbers>()};
    rule.validate();
    return rule;
  });
}

SolverFile choose_finished(const std::string& path, int nfe, const FieldDescription& field) {
  const SolverFile file = read_finished(path, field);
  try {
    return file.only(nfe);
  } catch (const Error& error) {
    throw Error(error.kind(), path + ": " + error.what());
  }
}

SchedulePtr coordinates(const std::string& text, const SchedulePtr& schedule) {
  if (text.empty()) return nullptr;
  if (!starts_with(text, kSigma0Prefix)) return make_schedule(text);
  const double sigma_0 = parse_number(text.substr(sizeof(kSigma0Prefix) - 1), "sigma0");
  if (!(sigma_0 > 0)) throw usage_error("sigma0 must be positive, found {}", sigma_0);
  return sigma_0 == 1 ? nullptr : preconditioned_schedule(schedule, sigma_0);
}

// KEY=VALUE or a number, maybe with the schedule after them: no name begins like that.
bool continues_a_name(const std::string& piece) {
  if (is_file_name(piece)) return false;
  const std::string head = piece.substr(0, piece.find('@'));
  const bool option =
      head.find('=') != std::string::npos && head.find_first_of(":/") == std::string::npos;
  return option || reads_as_number(head);
}

}  // namespace

SolverName SolverName::parse(const std::string& text) {
  SolverName name;
  if (is_file_name(text)) {
    name.file = text;
    return name;
  }
  const size_t at = text.find('@');
  if (at != std::string::npos) {
    name.schedule = text.substr(at + 1);
    if (name.schedule.empty()) throw usage_error("'{}' names no schedule after its @", text);
  }
  const std::string head = text.substr(0, at);
  const size_t slash = slash_before_grid(head);
  name.method = head.substr(0, slash);
  if (slash != std::string::npos) {
    name.grid = head.substr(slash + 1);
    if (name.grid.empty()) throw usage_error("'{}' names no grid after its /", text);
  }
  if (ends_with(name.method, kLowerOrderFinal)) {
    name.lower_order_final = true;
    name.method.resize(name.method.size() - std::strlen(kLowerOrderFinal));
  }
  return name;
}

std::string to_string(const SolverName& name) {
  if (name.is_file()) return name.file;
  return name.method + (name.lower_order_final ? kLowerOrderFinal : "") +
         (name.grid.empty() ? "" : "/" + name.grid) +
         (name.schedule.empty() ? "" : "@" + name.schedule);
}

std::vector<std::string> split_solver_names(const std::string& list) {
  std::vector<std::string> names;
  for (const auto& piece : split(list, ',')) {
    if (!names.empty() && continues_a_name(piece)) {
      names.back() += "," + piece;
    } else {
      names.push_back(piece);
    }
  }
  return names;
}

CatalogueEntry entry_of(const SolverName& name) {
  const std::string& method = name.method;
  if (starts_with(method, kTableauPrefix)) {
    return runge_kutta_entry(method, "user's tableau", 0,
                             read_tableau(method.substr(sizeof(kTableauPrefix) - 1)));
  }
  if (starts_with(method, kMultistepPrefix)) {
    return multistep_entry(method, "user's rule", 0,
                           read_multistep(method.substr(sizeof(kMultistepPrefix) - 1)));
  }
  return find_solver(method);
}

SolverFile read_finished(const std::string& path, const FieldDescription& field) {
  SolverFile file = read_solver_file(path);
  const FieldDifferences differences = field_differences(file, field);
  if (!differences.impossible.empty()) {
    throw bad_input("{} {}; distil or build one for it", path, differences.impossible.front());
  }
  return file;
}

SolverFile resolve_solver(const SolverName& name, int nfe, const FieldDescription& field) {
  if (name.is_file()) return choose_finished(name.file, nfe, field);
  const CatalogueEntry entry = entry_of(name);
  const SolverRequest request = {nfe, field.schedule, name.grid, name.lower_order_final};
  const SchedulePtr via = coordinates(name.schedule, field.schedule);
  SolverFile file;
  file.put({via ? make_solver_via(entry, request, via) : make_solver(entry, request)});
  file.name = to_string(name);
  file.field = field;
  file.provenance = {
      {"made_by", kMadeByCatalogue},
      {"solver", name.method},
      {"grid", name.grid.empty() ? entry.grid_for(via ? *via : *field.schedule) : name.grid}};
  if (!name.schedule.empty()) file.provenance["coordinates"] = name.schedule;
  if (name.lower_order_final) file.provenance["lower_order_final"] = true;
  return file;
}

}  // namespace bespoke
