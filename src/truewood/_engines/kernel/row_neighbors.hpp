// The nearest rows with the same label, by Euclidean distance in some scaled columns. No Python here.
//
// The operations and their order are those of numpy_row_neighbors.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "matrix.hpp"
#include "simd_dispatch.hpp"
#include "threads.hpp"

namespace truewood {

constexpr std::size_t kNeighborRows = 4096;

// Some rows of a matrix, the labels of all rows, and the columns that distances depend on.
template <class T>
struct LabeledRows {
    DenseMatrix<T> matrix;
    std::size_t n_rows;
    const double* labels;
    const std::int64_t *tested, *columns;
    std::size_t n_tested, n_columns;

    double value(std::size_t row, std::size_t c) const {
        return static_cast<double>(matrix.row(static_cast<std::int64_t>(row))[static_cast<std::int32_t>(columns[c])]);
    }
    std::size_t n_blocks() const { return (n_rows + kNeighborRows - 1) / kNeighborRows; }
};

// Receives, for each tested row, the numbers of its nearest rows and their number, the standard deviations of the
// columns among rows with its label, and the largest scaled value.
struct NeighborOutput {
    std::int64_t* nearest;  // (tested row, place)
    std::int64_t* n_found;
    double* spread;  // (tested row, column)
    double* largest;
    std::size_t n_nearest;
};

// Number of rows, and for each column their mean, their sum of squares around it, and the largest absolute value.
struct Spread {
    explicit Spread(std::size_t n_columns) : mean(n_columns), squares(n_columns), largest(n_columns) {}
    double n = 0.0;
    std::vector<double> mean, squares, largest;

    // Adds other rows (Chan, Golub & LeVeque 1983).
    void add(const Spread& other) {
        if (other.n == 0.0) return;
        const double total = n + other.n;
        for (std::size_t c = 0; c < mean.size(); ++c) {
            const double step = other.mean[c] - mean[c];
            squares[c] = squares[c] + (other.squares[c] + step * step * (n * other.n / total));
            mean[c] = mean[c] + step * (other.n / total);
            largest[c] = std::max(largest[c], other.largest[c]);
        }
        n = total;
    }
};

// The spread of n rows of values, one after another.
inline Spread measure_spread(const std::vector<double>& values, std::size_t n, std::size_t n_columns) {
    Spread spread(n_columns);
    spread.n = static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t c = 0; c < n_columns; ++c) spread.mean[c] += values[i * n_columns + c];
    }
    for (double& mean : spread.mean) mean /= spread.n;
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t c = 0; c < n_columns; ++c) {
            const double value = values[i * n_columns + c], away = value - spread.mean[c];
            spread.squares[c] += away * away;
            spread.largest[c] = std::max(spread.largest[c], std::abs(value));
        }
    }
    return spread;
}

// Adds the squared distances from one value to the others.
TRUEWOOD_SIMD_DISPATCH
static void add_squares(const double* values, std::size_t n, double from, double* squares) {
    for (std::size_t i = 0; i < n; ++i) {
        const double away = values[i] - from;
        squares[i] += away * away;
    }
}

// The rows of one tested row that are nearest so far, ordered by distance and number.
class Nearest {
public:
    explicit Nearest(std::size_t n_most) : n_most_(n_most) {}

    double limit() const {
        return found_.size() < n_most_ ? std::numeric_limits<double>::infinity() : found_.front().first;
    }
    void add(double square, std::int64_t row) {
        const std::pair<double, std::int64_t> one(square, row);
        if (found_.size() == n_most_) {
            if (!(one < found_.front())) return;
            std::pop_heap(found_.begin(), found_.end());
            found_.pop_back();
        }
        found_.push_back(one);
        std::push_heap(found_.begin(), found_.end());
    }
    void add(const Nearest& other) {
        for (const auto& one : other.found_) add(one.first, one.second);
    }
    std::size_t list(std::int64_t* rows) {
        std::sort_heap(found_.begin(), found_.end());
        for (std::size_t k = 0; k < found_.size(); ++k) rows[k] = found_[k].second;
        return found_.size();
    }

private:
    std::size_t n_most_;
    std::vector<std::pair<double, std::int64_t>> found_;  // a heap whose first item is the farthest
};

template <class T>
class NeighborSearch {
public:
    explicit NeighborSearch(const LabeledRows<T>& rows) : rows_(rows) {
        for (std::size_t k = 0; k < rows.n_tested; ++k) {
            const double label = rows.labels[rows.tested[k]];
            const auto at = std::find(labels_.begin(), labels_.end(), label);
            label_of_.push_back(static_cast<std::size_t>(at - labels_.begin()));
            if (at == labels_.end()) labels_.push_back(label);
        }
    }

    void find(ThreadTeam& team, const NeighborOutput& out) {
        find_spread(team, out);
        std::vector<std::vector<Nearest>> found(team.n_threads(),
                                                std::vector<Nearest>(rows_.n_tested, Nearest(out.n_nearest)));
        std::vector<std::vector<double>> scratch(team.n_threads());
        team.run(rows_.n_blocks(), [&](std::size_t worker, std::size_t block, InterruptPoller& poller) {
            poller.count(static_cast<std::int64_t>(kNeighborRows * rows_.n_tested));
            for (std::size_t l = 0; l < labels_.size(); ++l)
                search(block, l, out.spread, scratch[worker], found[worker]);
        });
        for (std::size_t k = 0; k < rows_.n_tested; ++k) {
            for (std::size_t worker = 1; worker < found.size(); ++worker) found[0][k].add(found[worker][k]);
            out.n_found[k] = static_cast<std::int64_t>(found[0][k].list(out.nearest + k * out.n_nearest));
        }
    }

private:
    LabeledRows<T> rows_;
    std::vector<double> labels_;         // of tested rows
    std::vector<std::size_t> label_of_;  // each tested row

    // Numbers of the rows of a block with a label.
    void list_rows(std::size_t block, std::size_t label, std::vector<std::int64_t>& listed) const {
        const std::size_t first = block * kNeighborRows, last = std::min(rows_.n_rows, first + kNeighborRows);
        listed.resize(last - first);
        std::size_t n = 0;
        for (std::size_t i = first; i < last; ++i) {
            listed[n] = static_cast<std::int64_t>(i);
            n += rows_.labels[i] == labels_[label];
        }
        listed.resize(n);
    }

    void find_spread(ThreadTeam& team, const NeighborOutput& out) {
        const std::size_t n_labels = labels_.size(), n_columns = rows_.n_columns;
        std::vector<Spread> parts(rows_.n_blocks() * n_labels, Spread(n_columns));
        team.run(rows_.n_blocks(), [&](std::size_t, std::size_t block, InterruptPoller& poller) {
            poller.count(static_cast<std::int64_t>(kNeighborRows * (n_labels + n_columns)));
            std::vector<std::int64_t> listed;
            std::vector<double> values;
            for (std::size_t l = 0; l < n_labels; ++l) {
                list_rows(block, l, listed);
                if (listed.empty()) continue;
                values.resize(listed.size() * n_columns);
                for (std::size_t i = 0; i < listed.size(); ++i) {
                    for (std::size_t c = 0; c < n_columns; ++c) {
                        values[i * n_columns + c] = rows_.value(static_cast<std::size_t>(listed[i]), c);
                    }
                }
                parts[block * n_labels + l] = measure_spread(values, listed.size(), n_columns);
            }
        });
        std::vector<Spread> whole(n_labels, Spread(n_columns));
        for (std::size_t k = 0; k < parts.size(); ++k) whole[k % n_labels].add(parts[k]);
        for (std::size_t k = 0; k < rows_.n_tested; ++k) {
            const Spread& own = whole[label_of_[k]];
            out.largest[k] = 0.0;
            for (std::size_t c = 0; c < n_columns; ++c) {
                const double spread = std::sqrt(own.squares[c] / own.n);
                out.spread[k * n_columns + c] = spread;
                out.largest[k] = std::max(out.largest[k], own.largest[c] / spread);
            }
        }
    }

    // Searches the rows of a block for the nearest ones of the tested rows with a label, if all columns vary.
    void search(std::size_t block, std::size_t label, const double* spreads, std::vector<double>& scratch,
                std::vector<Nearest>& found) const {
        const std::size_t n_columns = rows_.n_columns;
        std::size_t first = 0;
        while (label_of_[first] != label) ++first;
        const double* spread = spreads + first * n_columns;
        for (std::size_t c = 0; c < n_columns; ++c) {
            if (!(spread[c] > 0.0)) return;
        }
        std::vector<std::int64_t> listed;
        list_rows(block, label, listed);
        const std::size_t n = listed.size();
        scratch.resize((n_columns + 1) * n);
        for (std::size_t c = 0; c < n_columns; ++c) {
            for (std::size_t i = 0; i < n; ++i) {
                scratch[c * n + i] = rows_.value(static_cast<std::size_t>(listed[i]), c) / spread[c];
            }
        }
        double* squares = scratch.data() + n_columns * n;
        for (std::size_t k = first; k < rows_.n_tested; ++k) {
            if (label_of_[k] != label) continue;
            std::fill_n(squares, n, 0.0);
            for (std::size_t c = 0; c < n_columns; ++c) {
                const double from = rows_.value(static_cast<std::size_t>(rows_.tested[k]), c) / spread[c];
                add_squares(scratch.data() + c * n, n, from, squares);
            }
            double limit = found[k].limit();
            for (std::size_t i = 0; i < n; ++i) {
                if (!(squares[i] <= limit)) continue;
                found[k].add(squares[i], listed[i]);
                limit = found[k].limit();
            }
        }
    }
};

}  // namespace truewood
