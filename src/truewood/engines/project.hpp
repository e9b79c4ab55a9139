// Columns projected out of a tree: what it says of rows when it cannot ask for these columns. No Python here.
//
// Level by level, a row carries a set of nodes: a split on such a column is replaced by both children, another by the
// child that the row goes to. Rows with the same set are a cell, and a row gets the training mean of its last cell that
// holds training rows. The numpy engine does the same additions in the same order, so both give the same bits.
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

// The rows of a tree, and the groups of columns that are projected out of it, one at a time.
struct ProjectionCall {
    const std::int32_t* group_of;  // of each column; negative: it is not asked for
    const std::int64_t* grown;     // rows that grew the tree, ascending
    const double* grown_weight;
    std::size_t n_grown;
    const std::int64_t* unseen;
    std::size_t n_unseen;
    Target target;
};

// What a tree says without a group, of rows that come to a split on it; of others it says what it said before.
struct Projected {
    std::size_t tree = 0;
    std::vector<std::size_t> place;  // in the list of unseen rows
    std::vector<std::int32_t> group;
    std::vector<double> mean;  // n_columns each

    void clear() {
        place.clear();
        group.clear();
        mean.clear();
    }
};

template <bool HasMissing, bool HasCategories, class Matrix>
class Projector {
public:
    Projector(const PackedTree<typename Matrix::Value>& tree, const Matrix& matrix, const ProjectionCall& call,
              Pacer& pacer, Projected& out)
        : tree_(tree), matrix_(matrix), call_(call), pacer_(pacer), out_(out), mean_(call.target.n_columns) {}

    void run() {
        Members all{List(call_.n_grown), List(call_.n_unseen)};
        for (std::size_t k = 0; k < call_.n_grown; ++k) all.grown[k] = k;
        for (std::size_t k = 0; k < call_.n_unseen; ++k) all.unseen[k] = k;
        below_ = all;
        at_ = std::move(all);
        std::vector<std::pair<std::int32_t, Range>> stack{{0, {0, call_.n_grown, 0, call_.n_unseen}}};
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
    // Places in the lists of a call.
    using List = std::vector<std::size_t>;
    struct Members {
        List grown, unseen;
    };
    // Those from one place of each list up to another.
    struct Range {
        std::size_t grown, grown_end, unseen, unseen_end;
        bool has_grown() const { return grown < grown_end; }
        bool has_unseen() const { return unseen < unseen_end; }
        bool has_none() const { return !has_grown() || !has_unseen(); }
    };
    struct Cell {
        Range range;
        std::vector<std::int32_t> nodes;
    };

    const PackedTree<typename Matrix::Value>& tree_;
    const Matrix& matrix_;
    const ProjectionCall& call_;
    Pacer& pacer_;
    Projected& out_;
    Members at_, below_;  // by node of the tree, and by cell below a node; a range keeps the order of the call
    std::vector<double> mean_;
    List moved_;
    std::vector<Cell> cells_, parts_;

    std::int32_t group(std::int32_t node) const { return call_.group_of[tree_.feature(node)]; }

    // Whether a split is on a group that is asked for, and none above it is on the same one.
    bool is_first_on_path(std::int32_t node) const {
        const std::int32_t own = group(node);
        if (own < 0) return false;
        const std::vector<std::int32_t>& parent = tree_.structure().parent;
        for (std::int32_t above = parent[node]; above >= 0; above = parent[above]) {
            if (group(above) == own) return false;
        }
        return true;
    }

    // Gives the rows at a node their values without its group.
    void project(std::int32_t node, const Range& range) {
        const std::int32_t own = group(node), child = tree_.structure().left[node];
        for (std::size_t k = range.grown; k < range.grown_end; ++k) below_.grown[k] = at_.grown[k];
        for (std::size_t k = range.unseen; k < range.unseen_end; ++k) below_.unseen[k] = at_.unseen[k];
        cells_.push_back({range, {child, child + 1}});
        while (!cells_.empty()) {
            const Cell cell = std::move(cells_.back());
            cells_.pop_back();
            average(cell.range);
            // Cells within that of a single training row have its mean, too.
            if (cell.range.grown + 1 == cell.range.grown_end || has_leaves_only(cell)) settle(cell.range, own);
            else go_on(cell, own);
        }
    }

    bool has_leaves_only(const Cell& cell) const {
        for (const std::int32_t node : cell.nodes) {
            if (!tree_.is_leaf(node)) return false;
        }
        return true;
    }

    // Takes a cell, whose mean is at hand, one level down.
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

    // Divides a part of a cell by where its rows go; those that leave all training rows have the mean of the cell.
    void divide(std::size_t k, std::int32_t node, std::int32_t child, std::int32_t own) {
        const auto [left, right] = split(below_, parts_[k].range, node);
        for (const Range& side : {left, right}) {
            if (!side.has_grown()) settle(side, own);
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
        const std::size_t grown = split(members.grown, range.grown, range.grown_end, call_.grown, node),
                          unseen = split(members.unseen, range.unseen, range.unseen_end, call_.unseen, node);
        return {{range.grown, grown, range.unseen, unseen}, {grown, range.grown_end, unseen, range.unseen_end}};
    }

    // Puts those that go left first, in their order, and says where the others begin.
    std::size_t split(List& list, std::size_t first, std::size_t end, const std::int64_t* rows, std::int32_t node) {
        const std::int32_t feature = tree_.feature(node), left = tree_.structure().left[node];
        moved_.clear();
        std::size_t n_left = first;
        for (std::size_t k = first; k < end; ++k) {
            const auto x = matrix_.row(rows[list[k]])[feature];
            if (tree_.template next<HasMissing, HasCategories>(node, x) == left) list[n_left++] = list[k];
            else moved_.push_back(list[k]);
        }
        std::copy(moved_.begin(), moved_.end(), list.begin() + static_cast<std::ptrdiff_t>(n_left));
        pacer_.count(static_cast<std::int64_t>(end - first));
        return n_left;
    }

    // Takes the mean of the training rows of a cell.
    void average(const Range& range) {
        const Target& target = call_.target;
        double weight = 0.0;
        mean_.assign(target.n_columns, 0.0);
        for (std::size_t k = range.grown; k < range.grown_end; ++k) {
            const auto row = static_cast<std::size_t>(call_.grown[below_.grown[k]]);
            const double w = call_.grown_weight[below_.grown[k]];
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

    // Gives the unseen rows of a range the mean at hand.
    void settle(const Range& range, std::int32_t own) {
        for (std::size_t k = range.unseen; k < range.unseen_end; ++k) {
            out_.place.push_back(below_.unseen[k]);
            out_.group.push_back(own);
            out_.mean.insert(out_.mean.end(), mean_.begin(), mean_.end());
        }
    }
};

}  // namespace truewood
