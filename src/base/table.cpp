#include "bespoke/base/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "bespoke/base/error.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/printable_lines.h"
#include "bespoke/base/text.h"

namespace bespoke {

using namespace detail;

const std::vector<std::string>& table_format_names() {
  static const std::vector<std::string> names = {"table", "md", "csv", "json"};
  return names;
}

TableFormat parse_table_format(const std::string& name) {
  const auto& names = table_format_names();
  const auto place = std::find(names.begin(), names.end(), name);
  if (place == names.end()) throw Error(ErrorKind::usage, unknown_name("format", name, names));
  return static_cast<TableFormat>(place - names.begin());
}

void Table::add_row(std::vector<nlohmann::json> cells) {
  if (cells.size() != columns_.size()) throw std::logic_error("a row must fill every column");
  rows_.push_back(std::move(cells));
}

std::string Table::render(TableFormat format, const std::string& title) const {
  switch (format) {
    case TableFormat::table:
      return render_table(title);
    case TableFormat::md:
      return render_markdown(title);
    case TableFormat::csv:
      return render_csv();
    case TableFormat::json:
      return render_json();
  }
  throw std::logic_error("format out of range");
}

std::string Table::cell_text(size_t row, size_t column) const {
  const auto& cell = rows_[row][column];
  if (cell.is_null()) return "-";
  if (cell.is_string()) return printable(cell.get<std::string>());
  const int decimals = columns_[column].decimals;
  return decimals >= 0 && cell.is_number() ? fmt::format("{:.{}f}", cell.get<double>(), decimals)
                                           : json_text(cell);
}

// Columns padded to their widest cell; UTF-8 continuation bytes take no width.
static size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

static std::string pad(const std::string& text, size_t width, bool right) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  return right ? space + text : text + space;
}

static std::string heading(const std::string& title) {
  return title.empty() ? "" : printable_lines(title) + "\n\n";
}

std::string Table::render_table(const std::string& title) const {
  std::string out = heading(title);
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = width_of(columns_[c].name);
    for (size_t r = 0; r < rows_.size(); ++r) width = std::max(width, width_of(cell_text(r, c)));
    widths.push_back(width);
  }
  const auto line = [&](const auto& text_of) {
    std::string text;
    for (size_t c = 0; c < columns_.size(); ++c) {
      text += pad(text_of(c), widths[c], columns_[c].right_aligned) + "  ";
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  out += line([&](size_t c) { return columns_[c].name; });
  out += line([&](size_t c) { return std::string(widths[c], '-'); });
  for (size_t r = 0; r < rows_.size(); ++r) out += line([&](size_t c) { return cell_text(r, c); });
  return out;
}

std::string Table::render_markdown(const std::string& title) const {
  std::string out = heading(title);
  const auto line = [&](const auto& text_of) {
    std::string text = "|";
    for (size_t c = 0; c < columns_.size(); ++c) text += " " + text_of(c) + " |";
    return text + "\n";
  };
  out += line([&](size_t c) { return columns_[c].name; });
  out += line([&](size_t c) -> std::string { return columns_[c].right_aligned ? "---:" : "---"; });
  for (size_t r = 0; r < rows_.size(); ++r) out += line([&](size_t c) { return cell_text(r, c); });
  return out;
}

static std::string csv_cell(const nlohmann::json& cell) {
  if (cell.is_null()) return "";
  if (!cell.is_string()) return json_text(cell);
  std::string text = cell.get<std::string>();
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string Table::render_csv() const {
  std::string out;
  for (size_t c = 0; c < columns_.size(); ++c) {
    out += (c == 0 ? "" : ",") + csv_cell(columns_[c].name);
  }
  out += "\n";
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) out += (c == 0 ? "" : ",") + csv_cell(row[c]);
    out += "\n";
  }
  return out;
}

std::string Table::render_json() const {
  auto list = nlohmann::ordered_json::array();
  for (const auto& row : rows_) {
    nlohmann::ordered_json object;
    for (size_t c = 0; c < row.size(); ++c) object[columns_[c].name] = row[c];
    list.push_back(object);
  }
  return json_text(list, 2) + "\n";
}

}  // namespace bespoke
