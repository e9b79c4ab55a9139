// Sobol projection: predictions of a tree that cannot use a group of columns. No Python here.
//
// Level by level, a row carries a set of nodes: both children replace a split on the group, and the child that the row
// goes to replaces any other split. Rows with the same set form a cell, and the prediction for a row is the training
// mean of its last cell that contains in-bag rows. The numpy engine does the same additions in the same order, so that
// both agree bit for bit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "target.hpp"
#include "threads.hpp"
#include "tree.hpp"

namespace truewood {

// The rows of one tree.
struct TreeProjectionRows {
    const std::int64_t* inbag;  // ascending
    const double* inbag_weight;
    std::size_t n_inbag;
    const std::int64_t* evaluation;
    std::size_t n_evaluation;
};

// The groups of columns that are projected out of a tree, one at a time, and the rows of the tree.
struct ProjectionCall {
    const std::int32_t* group_of;  // group of each column; negative if it is not projected out
    std::size_t n_groups;
    TreeProjectionRows rows;
    Target target;
};

// Predictions of a tree without a group, for rows that reach a split on it. Predictions for other rows do not change.
struct Projected {
    std::size_t tree = 0;
    std::vector<std::size_t> place;  // position in the list of evaluation rows
    std::vector<std::int32_t> group;
    std::vector<double> mean;  // n_columns each

    void clear() {
        place.clear();
        group.clear();
        mean.clear();
    }
};

template <bool HasMissing, bool HasCategories, class Matrix>
class TreeProjection {
public:
    TreeProjection(const PackedTree<typename Matrix::Value>& tree, const Matrix& matrix, const ProjectionCall& call,
                   InterruptPoller& poller, Projected& out)
        : tree_(tree), matrix_(matrix), call_(call), poller_(poller), out_(out), mean_(call.target.n_columns) {}

    void run() {
        const TreeProjectionRows& rows = call_.rows;
        Members all{List(rows.n_inbag), List(rows.n_evaluation)};
        for (std::size_t k = 0; k < rows.n_inbag; ++k) all.inbag[k] = k;
        for (std::size_t k = 0; k < rows.n_evaluation; ++k) all.evaluation[k] = k;
        below_ = all;
        at_ = std::move(all);
        std::vector<std::pair<std::int32_t, Range>> stack{{0, {0, rows.n_inbag, 0, rows.n_evaluation}}};
        while (!stack.empty()) {
            const auto [node, range] = stack.back();
            stack.pop_back();
            if (tree_.is_leaf(node) || range.has_none()) continue;
            if (is_first_on_path(node)) project(node, range);
            const auto [left, right] = split(at_, range, node);
            const std::int32_t child = tree_.structure().left[node];
            stack.push_back({child, left});
            stack.push_back({child + 1, right});
        }
    }

private:
    // Positions in the row lists of a call.
    using List = std::vector<std::size_t>;
    struct Members {
        List inbag, evaluation;
    };
    // A range of positions in each list.
    struct Range {
        std::size_t inbag, inbag_end, evaluation, evaluation_end;
        bool has_inbag() const { return inbag < inbag_end; }
        bool has_evaluation() const { return evaluation < evaluation_end; }
        bool has_none() const { return !has_inbag() || !has_evaluation(); }
    };
    struct Cell {
        Range range;
        std::vector<std::int32_t> nodes;
    };

    const PackedTree<typename Matrix::Value>& tree_;
    const Matrix& matrix_;
    const ProjectionCall& call_;
    InterruptPoller& poller_;
    Projected& out_;
    Members at_, below_;  // grouped by node, and by cell below a node; groups keep the order of the lists
    std::vector<double> mean_;
    List moved_;
    std::vector<Cell> cells_, parts_;

    std::int32_t group(std::int32_t node) const { return call_.group_of[tree_.feature(node)]; }

    // Whether a split is the first on its path that splits on its group, and the group is projected out.
    bool is_first_on_path(std::int32_t node) const {
        const std::int32_t own = group(node);
        if (own < 0) return false;
        const std::vector<std::int32_t>& parent = tree_.structure().parent;
        for (std::int32_t above = parent[node]; above >= 0; above = parent[above]) {
            if (group(above) == own) return false;
        }
        return true;
    }

    // Finds the predictions for the rows at a node without its group.
    void project(std::int32_t node, const Range& range) {
        const std::int32_t own = group(node), child = tree_.structure().left[node];
        for (std::size_t k = range.inbag; k < range.inbag_end; ++k) below_.inbag[k] = at_.inbag[k];
        for (std::size_t k = range.evaluation; k < range.evaluation_end; ++k) below_.evaluation[k] = at_.evaluation[k];
        cells_.push_back({range, {child, child + 1}});
        while (!cells_.empty()) {
            const Cell cell = std::move(cells_.back());
            cells_.pop_back();
            average(cell.range);
            // Cells within the cell of a single in-bag row have the same mean.
            if (cell.range.inbag + 1 == cell.range.inbag_end || has_leaves_only(cell)) settle(cell.range, own);
            else go_on(cell, own);
        }
    }

    bool has_leaves_only(const Cell& cell) const {
        for (const std::int32_t node : cell.nodes) {
            if (!tree_.is_leaf(node)) return false;
        }
        return true;
    }

    // Moves a cell one level down; `mean_` is its mean.
    void go_on(const Cell& cell, std::int32_t own) {
        parts_.clear();
        parts_.push_back({cell.range, {}});
        for (const std::int32_t node : cell.nodes) {
            const bool stays = tree_.is_leaf(node), takes_both = !stays && group(node) == own;
            const std::int32_t child = tree_.structure().left[node];
            const std::size_t n_parts = parts_.size();
            for (std::size_t k = 0; k < n_parts; ++k) {
                if (stays) parts_[k].nodes.push_back(node);
                else if (takes_both) parts_[k].nodes.insert(parts_[k].nodes.end(), {child, child + 1});
                else divide(k, node, child, own);
            }
            drop_empty();
        }
        for (Cell& part : parts_) cells_.push_back(std::move(part));
    }

    // Splits a part of a cell by the direction of its rows; rows separated from all in-bag rows get the cell's mean.
    void divide(std::size_t k, std::int32_t node, std::int32_t child, std::int32_t own) {
        const auto [left, right] = split(below_, parts_[k].range, node);
        for (const Range& side : {left, right}) {
            if (!side.has_inbag()) settle(side, own);
        }
        if (!right.has_none()) {
            parts_.push_back({right, parts_[k].nodes});
            parts_.back().nodes.push_back(child + 1);
        }
        parts_[k].range = left;
        parts_[k].nodes.push_back(child);
    }

    void drop_empty() {
        std::size_t n_kept = 0;
        for (std::size_t k = 0; k < parts_.size(); ++k) {
            if (parts_[k].range.has_none()) continue;
            if (n_kept < k) std::swap(parts_[n_kept], parts_[k]);
            ++n_kept;
        }
        parts_.resize(n_kept);
    }

    std::pair<Range, Range> split(Members& members, const Range& range, std::int32_t node) {
        const std::size_t inbag = split(members.inbag, range.inbag, range.inbag_end, call_.rows.inbag, node),
                          evaluation = split(members.evaluation, range.evaluation, range.evaluation_end,
                                             call_.rows.evaluation, node);
        return {{range.inbag, inbag, range.evaluation, evaluation},
                {inbag, range.inbag_end, evaluation, range.evaluation_end}};
    }

    // Moves rows that go left to the front, in order, and returns where the others start.
    std::size_t split(List& list, std::size_t first, std::size_t end, const std::int64_t* rows, std::int32_t node) {
        const std::int32_t feature = tree_.feature(node);
        const auto test = tree_.template test<HasMissing, HasCategories>(node);
        moved_.resize(std::max(moved_.size(), end - first));
        // Every row is written to both sides and counted on one of them, which avoids branches.
        std::size_t n_left = first, n_moved = 0;
        for (std::size_t k = first; k < end; ++k) {
            const std::size_t own = list[k];
            const std::size_t is_left = test(matrix_.row(rows[own])[feature]);
            moved_[n_moved] = own;
            n_moved += 1 - is_left;
            list[n_left] = own;
            n_left += is_left;
        }
        std::copy_n(moved_.begin(), n_moved, list.begin() + static_cast<std::ptrdiff_t>(n_left));
        poller_.count(static_cast<std::int64_t>(end - first));
        return n_left;
    }

    // Sets `mean_` to the mean of the in-bag rows of a cell.
    void average(const Range& range) {
        const Target& target = call_.target;
        double weight = 0.0;
        mean_.assign(target.n_columns, 0.0);
        for (std::size_t k = range.inbag; k < range.inbag_end; ++k) {
            const auto row = static_cast<std::size_t>(call_.rows.inbag[below_.inbag[k]]);
            const double w = call_.rows.inbag_weight[below_.inbag[k]];
            weight += w;
            if (target.has_classes()) {
                const std::int32_t* code = target.codes + row * target.n_outputs;
                for (std::size_t o = 0; o < target.n_outputs; ++o) mean_[target.columns[o] + code[o]] += w;
            } else {
                const double* y = target.numbers + row * target.stride;
                for (std::size_t c = 0; c < target.n_columns; ++c) mean_[c] += w * y[c];
            }
        }
        for (double& sum : mean_) sum /= weight;
    }

    // Assigns the current mean to the evaluation rows of a range.
    void settle(const Range& range, std::int32_t own) {
        for (std::size_t k = range.evaluation; k < range.evaluation_end; ++k) {
            out_.place.push_back(below_.evaluation[k]);
            out_.group.push_back(own);
            out_.mean.insert(out_.mean.end(), mean_.begin(), mean_.end());
        }
    }
};

}  // namespace truewood
