// The influence of rows on a batch of trees, given the leaves of the rows. No Python here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bags.hpp"
#include "threads.hpp"
#include "tree_influence.hpp"
#include "tree_rows.hpp"

namespace truewood {

// A tree, and the rows whose influence is computed.
struct InfluenceTree {
    PreorderTree preorder;
    std::vector<std::int32_t> leaves;  // leaf of each row, numbered in preorder; -1: the row has no role in the tree
    std::vector<Counts> counts;        // how often each row is in the bag; empty if the tree has no bag
};

// Adds influence one block of rows at a time and, within a block, tree after tree, so that results do not depend on the
// number of threads.
class InfluencePass {
public:
    InfluencePass(const TreesAndRows& inputs, const InfluenceOutput& out, std::size_t n_threads)
        : inputs_(inputs), out_(out) {
        for (std::size_t k = 0; k < n_threads; ++k) workers_.emplace_back(inputs);
    }

    // `trees` starts with tree number `start`.
    template <class Trees>
    void add(std::size_t start, std::size_t n_trees, const Trees& trees, ThreadTeam& team) {
        const std::size_t row_bytes =
            std::max<std::size_t>(1, inputs_.n_features) * sizeof(double) * (out_.has_inbag() ? 2 : 1);
        const std::size_t share = (out_.n_rows + team.n_threads() - 1) / team.n_threads();
        // Sums by tree add up blocks of rows, so that their size must not depend on the number of threads.
        const std::size_t block =
            out_.residual ? kResidualRows : std::max<std::size_t>(16, std::min(kSumBytes / row_bytes, share));
        OrderedSum by_tree(out_.residual ? n_trees * inputs_.n_features : 0, team.n_threads());
        team.run((out_.n_rows + block - 1) / block, [&](std::size_t w, std::size_t item, InterruptPoller& poller) {
            Worker& worker = workers_[w];
            const std::size_t first = item * block, last = std::min(first + block, out_.n_rows);
            const std::size_t at = first * inputs_.n_features;
            const InfluenceSums sums{{out_.eval_influence + at, out_.has_inbag() ? out_.inbag_influence + at : nullptr},
                                     static_cast<std::size_t>(out_.first) + first};
            if (out_.residual) worker.by_tree.assign(n_trees * inputs_.n_features, 0.0);
            for (std::size_t k = 0; k < n_trees; ++k) {
                const InfluenceTree& tree = trees[k];
                const std::size_t t = start + k;
                const double tree_weight = out_.weigh_tree(t);
                poller.count(static_cast<std::int64_t>(last - first) * 8);
                sort_by_leaf(t, tree, first, last, out_.residual ? 1.0 : tree_weight, worker);
                if (out_.residual) {
                    worker.path_sums.add_residuals(tree.preorder, worker.sorted, worker.start, sums, inputs_.column[t],
                                                   out_.residual, tree_weight,
                                                   worker.by_tree.data() + k * inputs_.n_features);
                    continue;
                }
                worker.path_sums.add(tree.preorder, worker.sorted, worker.start, sums, inputs_.column[t]);
            }
            if (out_.residual) by_tree.add(item, worker.by_tree, poller);
        });
        if (out_.residual) {
            std::copy(by_tree.total().begin(), by_tree.total().end(), out_.by_tree + start * inputs_.n_features);
        }
    }

private:
    static constexpr std::size_t kResidualRows = 8192;
    // The influence sums of a block should fit into the cache.
    static constexpr std::size_t kSumBytes = std::size_t{1} << 24;
    static_assert(kSumBytes / sizeof(double) <= RowAtLeaf::kMostRows, "row numbers within a block have 31 bits");

    struct Worker {
        explicit Worker(const TreesAndRows& inputs) : path_sums(inputs.target, inputs.n_features) {}
        std::vector<RowAtLeaf> sorted;
        std::vector<std::int32_t> start;
        std::vector<double> by_tree;
        PathSums path_sums;
    };

    const TreesAndRows& inputs_;
    const InfluenceOutput& out_;
    std::vector<Worker> workers_;

    // Fills `sorted` and `start` of a worker with the rows that have a role in the tree, and weights times `factor`.
    void sort_by_leaf(std::size_t t, const InfluenceTree& tree, std::size_t first, std::size_t last, double factor,
                      Worker& worker) const {
        std::vector<std::int32_t>& start = worker.start;
        start.assign(static_cast<std::size_t>(tree.preorder.n_leaves) + 2, 0);
        for (std::size_t i = first; i < last; ++i) {
            if (tree.leaves[i] >= 0) ++start[static_cast<std::size_t>(tree.leaves[i]) + 2];
        }
        for (std::size_t k = 2; k < start.size(); ++k) start[k] += start[k - 1];
        worker.sorted.resize(static_cast<std::size_t>(start.back()));
        const TreeRows& rows = inputs_.rows[t];
        const Target& target = inputs_.target;
        for (std::size_t i = first; i < last; ++i) {
            if (tree.leaves[i] < 0) continue;
            const std::size_t row = static_cast<std::size_t>(out_.first) + i;
            const double inbag_weight = weigh_in_bag(rows, tree, i);
            const bool is_in_bag = inbag_weight > 0;
            const double weight = is_in_bag ? inbag_weight : weigh_evaluation(rows, row);
            std::int32_t& next = start[static_cast<std::size_t>(tree.leaves[i]) + 1];
            worker.sorted[static_cast<std::size_t>(next++)] = {
                static_cast<std::uint32_t>(2 * (i - first) + is_in_bag),
                target.has_classes() ? target.codes[row * target.n_outputs] : 0, factor * weight};
        }
        start.pop_back();
    }

    double weigh_in_bag(const TreeRows& rows, const InfluenceTree& tree, std::size_t i) const {
        if (rows.kind != TreeRows::Kind::kList) return tree.counts.empty() ? 0.0 : static_cast<double>(tree.counts[i]);
        return rows.inbag_weight ? rows.inbag_weight[static_cast<std::size_t>(out_.first) + i] : 0.0;
    }

    double weigh_evaluation(const TreeRows& rows, std::size_t row) const {
        if (rows.kind == TreeRows::Kind::kList) return rows.evaluation_weight[row];
        return inputs_.target.weight(static_cast<std::int64_t>(row));
    }
};

}  // namespace truewood
