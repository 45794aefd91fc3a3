#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace bespoke {

enum class TableFormat { table, md, csv, json };

const std::vector<std::string>& table_format_names();
TableFormat parse_table_format(const std::string& name);

// Rows of named columns, printed for people (table, md) or for programs (csv, json).
class Table {
 public:
  struct Column {
    std::string name;
    bool right_aligned = false;
    int decimals = -1;  // of numbers, for people; programs get them exactly
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell per column: strings, numbers or null (nothing to show).
  void add_row(std::vector<nlohmann::json> cells);

  // `title` says what the figures are of; it is left out of csv and json, whose columns must do.
  std::string render(TableFormat format, const std::string& title = "") const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<nlohmann::json>> rows_;

  std::string cell_text(size_t row, size_t column) const;
  std::string render_table(const std::string& title) const;
  std::string render_markdown(const std::string& title) const;
  std::string render_csv() const;
  std::string render_json() const;
};

}  // namespace bespoke
