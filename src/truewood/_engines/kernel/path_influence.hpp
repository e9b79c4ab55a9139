// Path influence: the influence of listed rows, given their leaves, along the path from each leaf to the root. No
// Python here.
//
// tree_influence.hpp computes the same numbers for many rows. This second implementation exists for speed on short
// lists and large trees, as when few rows are explained: its cost per row is the length of a path, while sorting rows
// by leaf costs a walk through the whole tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "row_terms.hpp"
#include "target.hpp"
#include "threads.hpp"

namespace truewood {

// Sums terms along paths, from the root down.
class PathInfluence {
public:
    PathInfluence(const std::int64_t* parent, const std::int32_t* feature, const Target& target, const NodeTerms& terms,
                  std::size_t n_features)
        : parent_(parent), feature_(feature), target_(target), terms_(terms), n_features_(n_features) {
        n_terms_ = target.has_classes() ? target.n_outputs : target.n_columns + 2;
        sums_.assign(n_terms_ * n_features, 0.0);
    }

    // A root is its own parent; `column` is the target column that the tree predicts.
    void add(std::int64_t leaf, std::int64_t row, double weight, std::int32_t column, double* out) {
        path_.clear();
        for (std::int64_t node = leaf; parent_[node] != node; node = parent_[node]) path_.push_back(node);
        for (std::size_t k = path_.size(); k-- > 0;) add_node(path_[k], row);
        const double* y =
            target_.numbers + (target_.has_classes() ? 0 : row * static_cast<std::int64_t>(target_.stride) + column);
        double* of_row = out + static_cast<std::size_t>(row) * n_features_;
        for (const std::int64_t node : path_) {
            const auto j = static_cast<std::size_t>(feature_[parent_[node]]);
            if (!is_on_path_[j]) continue;  // added already
            is_on_path_[j] = 0;
            of_row[j] += weight * add_terms(j, y);
        }
    }

    std::size_t path_length() const { return path_.size(); }

private:
    const std::int64_t* parent_;
    const std::int32_t* feature_;
    const Target& target_;
    NodeTerms terms_;
    std::size_t n_features_, n_terms_;
    std::vector<double> sums_;  // (term, feature)
    std::vector<std::int64_t> path_;
    std::vector<char> is_on_path_ = std::vector<char>(n_features_, 0);

    void add_node(std::int64_t node, std::int64_t row) {
        const auto j = static_cast<std::size_t>(feature_[parent_[node]]);
        if (!is_on_path_[j]) {
            is_on_path_[j] = 1;
            for (std::size_t k = 0; k < n_terms_; ++k) sums_[k * n_features_ + j] = 0.0;
        }
        const double* linear = terms_.linear + static_cast<std::size_t>(node) * target_.n_columns;
        if (target_.has_classes()) {
            const std::int32_t* code = target_.codes + static_cast<std::size_t>(row) * target_.n_outputs;
            for (std::size_t o = 0; o < n_terms_; ++o)
                sums_[o * n_features_ + j] += linear[target_.columns[o] + code[o]];
            return;
        }
        for (std::size_t c = 0; c < target_.n_columns; ++c) sums_[c * n_features_ + j] += linear[c];
        sums_[target_.n_columns * n_features_ + j] += terms_.square[node];
        sums_[(target_.n_columns + 1) * n_features_ + j] += terms_.constant[node];
    }

    double add_terms(std::size_t j, const double* y) const {
        double sum = 0.0, squares = 0.0;
        if (target_.has_classes()) {
            for (std::size_t o = 0; o < n_terms_; ++o) sum += sums_[o * n_features_ + j];
            return sum;
        }
        for (std::size_t c = 0; c < target_.n_columns; ++c) {
            sum += sums_[c * n_features_ + j] * y[c];
            squares += y[c] * y[c];
        }
        return (sum + sums_[target_.n_columns * n_features_ + j] * squares) +
               sums_[(target_.n_columns + 1) * n_features_ + j];
    }
};

}  // namespace truewood
