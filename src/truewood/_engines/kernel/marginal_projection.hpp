// Marginal projection: predictions of a tree in which splits on a group of columns send a row both ways, weighted by
// the training weights of the children. No Python here.
//
// The numpy engine does the same operations in the same order, so that both agree bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sobol_projection.hpp"
#include "threads.hpp"
#include "tree.hpp"

namespace truewood {

// The values of one tree, by place.
struct MarginalTree {
    std::vector<double> value;        // (place, column)
    std::vector<double> right_share;  // training weight of the right child, as a share of both children

    void read(const TreeArrays& source, const Structure& structure, std::size_t n_columns) {
        const std::size_t n = source.n_nodes;
        std::vector<double> weight(n);
        value.resize(n * n_columns);
        right_share.assign(n, 0.0);
        for (std::size_t k = 0; k < n; ++k) {
            const auto p = static_cast<std::size_t>(structure.place[k]);
            weight[p] = source.weight.number(k);
            Field column = source.value;
            for (std::size_t c = 0; c < n_columns; ++c, column.data += source.next_column) {
                value[p * n_columns + c] = column.number(k);
            }
        }
        for (std::size_t p = 0; p < n; ++p) {
            if (structure.left[p] < 0) continue;
            const auto l = static_cast<std::size_t>(structure.left[p]);
            const double both = weight[l] + weight[l + 1];
            right_share[p] = both > 0 ? weight[l + 1] / both : 0.0;
        }
    }
};

template <bool HasMissing, bool HasCategories, class Matrix>
class MarginalProjection {
public:
    MarginalProjection(const PackedTree<typename Matrix::Value>& tree, const MarginalTree& values, const Matrix& matrix,
                       const ProjectionCall& call, std::size_t n_groups, InterruptPoller& poller, Projected& out)
        : tree_(tree),
          values_(values),
          matrix_(matrix),
          call_(call),
          n_columns_(call.target.n_columns),
          poller_(poller),
          out_(out),
          is_on_path_(n_groups, 0),
          projected_(n_groups * n_columns_) {}

    void run() {
        for (std::size_t k = 0; k < call_.rows.n_evaluation; ++k) project(k, matrix_.row(call_.rows.evaluation[k]));
    }

private:
    using Row = typename Matrix::Row;
    const PackedTree<typename Matrix::Value>& tree_;
    const MarginalTree& values_;
    const Matrix& matrix_;
    const ProjectionCall& call_;
    std::size_t n_columns_;
    InterruptPoller& poller_;
    Projected& out_;
    std::vector<char> is_on_path_;
    std::vector<double> projected_;  // (group, column)
    std::vector<double> levels_;     // means of right children, on the way down
    std::vector<std::int32_t> path_, groups_;

    std::int32_t group(std::int32_t node) const { return call_.group_of[tree_.feature(node)]; }
    std::int32_t next(std::int32_t node, const Row& row) const {
        return tree_.template next<HasMissing, HasCategories>(node, row[tree_.feature(node)]);
    }

    // From the leaf up, each split on a group mixes what the other child would predict into the prediction.
    void project(std::size_t k, const Row& row) {
        path_.clear();
        groups_.clear();
        std::int32_t below = 0;
        for (; !tree_.is_leaf(below); below = next(below, row)) path_.push_back(below);
        const double* prediction = values_.value.data() + static_cast<std::size_t>(below) * n_columns_;
        poller_.count(static_cast<std::int64_t>(path_.size()));
        for (std::size_t depth = path_.size(); depth-- > 0;) {
            const std::int32_t node = path_[depth], own = group(node), left = tree_.structure().left[node];
            if (own >= 0) {
                double* into = projected_.data() + static_cast<std::size_t>(own) * n_columns_;
                if (!is_on_path_[own]) {
                    is_on_path_[own] = 1;
                    groups_.push_back(own);
                    for (std::size_t c = 0; c < n_columns_; ++c) into[c] = prediction[c];
                }
                const std::size_t level = levels_.size();
                levels_.resize(level + n_columns_);
                average(below == left ? left + 1 : left, row, own, level);
                const double share = values_.right_share[node];
                for (std::size_t c = 0; c < n_columns_; ++c) {
                    const double other = levels_[level + c];
                    const double at_left = below == left ? into[c] : other, at_right = below == left ? other : into[c];
                    into[c] = at_left + share * (at_right - at_left);
                }
                levels_.resize(level);
            }
            below = node;
        }
        for (const std::int32_t own : groups_) {
            is_on_path_[own] = 0;
            out_.place.push_back(k);
            out_.group.push_back(own);
            const double* mean = projected_.data() + static_cast<std::size_t>(own) * n_columns_;
            out_.mean.insert(out_.mean.end(), mean, mean + n_columns_);
        }
    }

    // Writes the prediction of the tree below a node to levels_[level], with splits on the group going both ways.
    void average(std::int32_t node, const Row& row, std::int32_t own, std::size_t level) {
        std::int64_t n_steps = 1;
        for (; !tree_.is_leaf(node) && group(node) != own; node = next(node, row)) ++n_steps;
        poller_.count(n_steps);
        if (tree_.is_leaf(node)) {
            const double* value = values_.value.data() + static_cast<std::size_t>(node) * n_columns_;
            for (std::size_t c = 0; c < n_columns_; ++c) levels_[level + c] = value[c];
            return;
        }
        const std::int32_t left = tree_.structure().left[node];
        const std::size_t right_level = levels_.size();
        levels_.resize(right_level + n_columns_);
        average(left, row, own, level);
        average(left + 1, row, own, right_level);
        const double share = values_.right_share[node];
        for (std::size_t c = 0; c < n_columns_; ++c) {
            const double at_left = levels_[level + c];
            levels_[level + c] = at_left + share * (levels_[right_level + c] - at_left);
        }
        levels_.resize(right_level);
    }
};

}  // namespace truewood
