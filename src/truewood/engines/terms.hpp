// Adds up what rows contribute to the scores on their way down; see trees/row_terms.py. No Python here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel.hpp"

namespace truewood {

// What a row adds at each node on its path, times its weight. For classes `linear` is all of it.
struct Terms {
    const double* linear;  // n_columns a node
    std::size_t n_columns;
    const double* square;
    const double* constant;
};

// The terms of one tree in the order of a PackedTree.
class PackedTerms {
public:
    template <class Tree>
    Terms pack(const Terms& terms, const Tree& tree, std::size_t n_nodes) {
        linear_.resize(n_nodes * terms.n_columns);
        square_.resize(terms.square ? n_nodes : 0);
        constant_.resize(square_.size());
        for (std::size_t place = 0; place < n_nodes; ++place) {
            const auto m = static_cast<std::size_t>(tree.original(static_cast<std::int32_t>(place)));
            for (std::size_t c = 0; c < terms.n_columns; ++c) {
                linear_[place * terms.n_columns + c] = terms.linear[m * terms.n_columns + c];
            }
            if (!terms.square) continue;
            square_[place] = terms.square[m];
            constant_[place] = terms.constant[m];
        }
        return {linear_.data(), terms.n_columns, square_.data(), constant_.data()};
    }

private:
    std::vector<double> linear_, square_, constant_;
};

// Rows known by their classes, and what such a row adds at a node.
struct Codes {
    const std::int32_t* codes;
    const std::int64_t* first_column;
    std::size_t n_outputs;
    using Row = const std::int32_t*;
    Row row(std::int64_t i, std::int32_t) const { return codes + static_cast<std::size_t>(i) * n_outputs; }
    double add(const Terms& terms, std::size_t node, Row code) const {
        const double* linear = terms.linear + node * terms.n_columns;
        double sum = linear[first_column[0] + code[0]];
        for (std::size_t o = 1; o < n_outputs; ++o) sum += linear[first_column[o] + code[o]];
        return sum;
    }
};

// The same with one output.
struct OneCode {
    const std::int32_t* codes;
    using Row = std::size_t;
    Row row(std::int64_t i, std::int32_t) const { return static_cast<std::size_t>(codes[i]); }
    double add(const Terms& terms, std::size_t node, Row code) const {
        return terms.linear[node * terms.n_columns + code];
    }
};

// Rows known by their numbers.
struct Numbers {
    const double* numbers;
    std::size_t stride;
    using Row = const double*;
    Row row(std::int64_t i, std::int32_t) const { return numbers + static_cast<std::size_t>(i) * stride; }
    double add(const Terms& terms, std::size_t node, Row y) const {
        const double* linear = terms.linear + node * terms.n_columns;
        double sum = linear[0] * y[0], square = y[0] * y[0];
        for (std::size_t o = 1; o < terms.n_columns; ++o) {
            sum += linear[o] * y[o];
            square += y[o] * y[o];
        }
        return (sum + terms.square[node] * square) + terms.constant[node];
    }
};

// The same where a tree speaks of one column.
struct OneNumber {
    const double* numbers;
    std::size_t stride;
    using Row = double;
    Row row(std::int64_t i, std::int32_t column) const {
        return numbers[static_cast<std::size_t>(i) * stride + column];
    }
    double add(const Terms& terms, std::size_t node, Row y) const {
        return (terms.linear[node] * y + terms.square[node] * (y * y)) + terms.constant[node];
    }
};

// Adds to out, a row of n_features for each row of the matrix, what the listed rows contribute to each feature;
// `row_weight` goes along with the list. Rows walk down as in find_leaves, and add at each step.
template <bool HasCategories, class Matrix, class Target, class Pause>
void add_terms(const Trees& trees, const Matrix& matrix, const Rows& rows, const double* row_weight,
               const Target& target, const std::int32_t* column, const Terms& terms, std::size_t n_features,
               Pacer<Pause> pacer, double* out) {
    constexpr std::size_t kLanes = 4;
    constexpr int kSteps = 6;
    constexpr std::int64_t kAhead = 8;
    constexpr std::size_t kMostAhead = 64;
    PackedTree<typename Matrix::Value> tree;
    PackedTerms packed;
    std::vector<double> nowhere(n_features);
    for (std::size_t t = 0; t < trees.n_trees; ++t) {
        std::int64_t next = rows.offset[t];
        const std::int64_t end = rows.offset[t + 1];
        if (next == end) continue;
        tree.pack(trees, t);
        const Terms here = packed.pack(terms, tree, static_cast<std::size_t>(trees.offset[t + 1] - trees.offset[t]));
        typename Matrix::Row values[kLanes];
        typename Target::Row row[kLanes];
        std::int32_t place[kLanes];
        double weight[kLanes];
        double* row_out[kLanes];
        bool is_idle[kLanes];
        for (std::size_t k = 0; k < kLanes; ++k) {
            values[k] = matrix.row(rows.index[next]);
            row[k] = target.row(rows.index[next], 0);
            place[k] = 0;
            weight[k] = 0.0;
            row_out[k] = nowhere.data();
            is_idle[k] = true;
        }
        for (std::size_t n_walking = 1; n_walking > 0;) {
            pacer.count(kLanes * kSteps);
            n_walking = 0;
            for (std::size_t k = 0; k < kLanes; ++k) {
                if (is_idle[k] || tree.is_leaf(place[k])) {
                    is_idle[k] = next == end;
                    if (is_idle[k]) continue;
                    const std::int64_t i = rows.index[next];
                    values[k] = matrix.row(i);
                    row[k] = target.row(i, column ? column[t] : 0);
                    place[k] = 0;
                    weight[k] = row_weight[next];
                    row_out[k] = out + static_cast<std::size_t>(i) * n_features;
                    ++next;
                    if (next + kAhead < end) {
                        matrix.prefetch(rows.index[next + kAhead]);
                        const double* ahead = out + static_cast<std::size_t>(rows.index[next + kAhead]) * n_features;
                        for (std::size_t j = 0; j < n_features && j < kMostAhead; j += 8) prefetch_line(ahead + j);
                    }
                }
                ++n_walking;
            }
            for (int step = 0; step < kSteps; ++step) {
                for (std::size_t k = 0; k < kLanes; ++k) {
                    const std::int32_t feature = tree.feature(place[k]);
                    const std::int32_t below = tree.template next<true, HasCategories>(place[k], values[k][feature]);
                    const double factor = below == place[k] ? 0.0 : weight[k];  // a leaf leads to itself
                    row_out[k][feature] += factor * target.add(here, static_cast<std::size_t>(below), row[k]);
                    place[k] = below;
                }
            }
        }
    }
}

}  // namespace truewood
