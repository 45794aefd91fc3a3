// What Samples say of features.

#include <algorithm>
#include <cmath>
#include <utility>

#include "bespoke/base/batches.h"
#include "bespoke/base/error.h"
#include "bespoke/base/packing.h"
#include "bespoke/run/samples.h"

namespace bespoke {

using namespace detail;

namespace {

// What a function of features returned, once it is known to be that.
Matrix checked_features(const Arrays& arrays, const SampleFeatures& features, const Array& x) {
  Matrix rows = features(x);
  const auto count = static_cast<size_t>(arrays.count(x));
  if (rows.rows != count || rows.columns == 0) {
    throw bad_input("the features of {} samples are {} x {} numbers; expected a row for each",
                    count, rows.rows, rows.columns);
  }
  const auto is_finite = [](double value) { return std::isfinite(value); };
  if (!std::all_of(rows.values.begin(), rows.values.end(), is_finite)) {
    throw Error(ErrorKind::diverged,
                "NaN or infinity among the features of samples; do they expect another range of "
                "values?");
  }
  return rows;
}

void require_columns(const Matrix& features, size_t before) {
  if (features.columns == before) return;
  throw bad_input("the features are {} numbers of a sample after {} of those before",
                  features.columns, before);
}

void append_rows(Matrix& matrix, const Matrix& rows) {
  if (matrix.rows > 0) require_columns(rows, matrix.columns);
  matrix.columns = rows.columns;
  matrix.rows += rows.rows;
  matrix.values.insert(matrix.values.end(), rows.values.begin(), rows.values.end());
}

}  // namespace

// The rows that every member makes of its part of the samples, in the order of all.
Matrix Samples::gathered(const std::vector<int64_t>& samples,
                         const std::function<Matrix()>& work) const {
  if (team().size() == 1) return work();
  const auto all = exchange_work(team(), [&] {
    const Matrix mine = work();
    Packer packer;
    packer.add(static_cast<int64_t>(mine.columns)).add(mine.values);
    return packer.bytes();
  });
  std::vector<Matrix> members;
  for (const std::string& bytes : all) {
    Unpacker unpacker(bytes);
    Matrix member;
    member.columns = static_cast<size_t>(unpacker.integer());
    member.values = unpacker.numbers();
    members.push_back(std::move(member));
  }
  Matrix together;
  for (const int64_t sample : samples) {
    Matrix& member = members[static_cast<size_t>(sample % team().size())];
    const auto begin =
        member.values.begin() + static_cast<std::ptrdiff_t>(member.rows++ * member.columns);
    Matrix row(1, member.columns);
    std::copy_n(begin, row.columns, row.values.begin());
    append_rows(together, row);
  }
  return together;
}

Matrix Samples::features_of_targets(const SampleFeatures& features,
                                    const std::vector<int64_t>& samples) const {
  return gathered(samples, [&] {
    const std::vector<int64_t> mine = own(samples);
    Matrix rows;
    for_each_batch(
        static_cast<int64_t>(mine.size()), options_.batch, nullptr,
        [&](int64_t begin, int64_t end, const auto&) {
          const Array x = arrays_.take(targets_, {mine.begin() + begin, mine.begin() + end});
          append_rows(rows, checked_features(arrays_, features, x));
        });
    return rows;
  });
}

Matrix Samples::features_of_ends(const SampleFeatures& features, const Runs& runs) const {
  return gathered(runs.samples, [&] {
    Matrix rows;
    for (const SolverRun& part : runs.parts) {
      append_rows(rows, checked_features(arrays_, features, measured(part.end())));
    }
    return rows;
  });
}

// Takes differences to one side: features are smooth, and each costs a call of their network.
Matrix Samples::feature_changes(const SampleFeatures& features, const Matrix& ends,
                                const Runs& runs, const Columns& columns,
                                const Matrix& directions) const {
  return gathered(runs.samples, [&] {
    Matrix rows;
    size_t first = 0;
    const std::vector<int64_t> mine = own(runs.samples);
    for (size_t p = 0; p < runs.parts.size(); ++p) {
      const Array y = measured(runs.parts[p].end());
      Matrix part_rows(static_cast<size_t>(arrays_.count(y)), directions.rows * ends.columns);
      // The rows of `ends` are those of all members.
      std::vector<size_t> places;
      for (size_t s = 0; s < part_rows.rows; ++s) {
        places.push_back(static_cast<size_t>(
            std::find(runs.samples.begin(), runs.samples.end(), mine[first + s]) -
            runs.samples.begin()));
      }
      for (size_t k = 0; k < directions.rows; ++k) {
        const auto [moved, inverse] = moved_along(y, columns.parts[p], directions, k);
        const Matrix changed = checked_features(arrays_, features, moved);
        require_columns(changed, ends.columns);
        for (size_t s = 0; s < part_rows.rows; ++s) {
          for (size_t j = 0; j < ends.columns; ++j) {
            part_rows(s, k * ends.columns + j) = (changed(s, j) - ends(places[s], j)) * inverse[s];
          }
        }
      }
      first += part_rows.rows;
      append_rows(rows, part_rows);
    }
    return rows;
  });
}

// Samples moved a little along a direction, each by so much of it that they all move alike, and one
// over how far each was moved.
std::pair<Array, std::vector<double>> Samples::moved_along(const Array& y, const Array& columns,
                                                           const Matrix& directions,
                                                           size_t k) const {
  constexpr double kMove = 5e-3, kLeast = 1e-30;  // of the sample's root mean square
  const int64_t count = arrays_.count(y);
  std::vector<double> weights;
  std::vector<Array> terms;
  for (size_t c = 0; c < directions.columns; ++c) {
    if (directions(k, c) == 0) continue;
    const auto row = static_cast<int64_t>(c) * count;
    weights.push_back(directions(k, c));
    terms.push_back(arrays_.cast(arrays_.rows(columns, row, row + count), y));
  }
  if (terms.empty()) return {y, std::vector<double>(static_cast<size_t>(count), 0)};
  const Array direction = arrays_.combine(weights, terms, y);
  const std::vector<double> of_y = arrays_.root_mean_squares(y);
  const std::vector<double> lengths = arrays_.root_mean_squares(direction);
  std::vector<double> sizes, inverse;
  for (size_t s = 0; s < lengths.size(); ++s) {
    sizes.push_back(kMove * of_y[s] / std::max(lengths[s], kLeast));
    inverse.push_back(1 / std::max(sizes.back(), kLeast));
  }
  const std::vector<double> ones(sizes.size(), 1);
  return {arrays_.combine_per_sample({ones, sizes}, {y, direction}), inverse};
}

}  // namespace bespoke
