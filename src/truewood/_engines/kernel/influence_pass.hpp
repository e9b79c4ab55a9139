// The influence of rows on a batch of trees whose leaves they have reached. No Python here.
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

// What is kept of a tree until the influence of all rows has been added.
struct KeptTree {
    PreorderTree preorder;
    std::vector<std::int32_t> leaves;  // of the rows whose influence is computed, in preorder; -1: no part in the tree
    std::vector<Counts> counts;        // how often these rows are in the bag; empty where the tree has no bag
};

// Adds influence block of rows by block of rows, and within a block tree after tree, so that no number depends on the
// number of threads.
class InfluencePass {
public:
    InfluencePass(const TreesAndRows& inputs, const InfluenceOutput& out, std::size_t n_threads)
        : inputs_(inputs), out_(out) {
        for (std::size_t k = 0; k < n_threads; ++k) workers_.emplace_back(inputs);
    }

    // `trees` begin with tree number `start`.
    template <class Trees>
    void add(std::size_t start, std::size_t n_trees, const Trees& trees, ThreadTeam& team) {
        const std::size_t row_bytes =
            std::max<std::size_t>(1, inputs_.n_features) * sizeof(double) * (out_.inbag_influence ? 2 : 1);
        const std::size_t share = (out_.n_rows + team.n_threads() - 1) / team.n_threads();
        const std::size_t block = std::max<std::size_t>(16, std::min(kSumBytes / row_bytes, share));
        team.run((out_.n_rows + block - 1) / block, [&](std::size_t w, std::size_t item, InterruptPoller& poller) {
            Worker& worker = workers_[w];
            const std::size_t first = item * block, last = std::min(first + block, out_.n_rows);
            const std::size_t at = first * inputs_.n_features;
            const InfluenceSums sums{out_.eval_influence + at,
                                     out_.inbag_influence ? out_.inbag_influence + at : nullptr,
                                     static_cast<std::size_t>(out_.first) + first};
            for (std::size_t k = 0; k < n_trees; ++k) {
                const KeptTree& tree = trees[k];
                const std::size_t t = start + k;
                poller.count(static_cast<std::int64_t>(last - first) * 8);
                sort_by_leaf(t, tree, first, last, worker);
                worker.path_sums.add(tree.preorder, worker.sorted, worker.start, sums, inputs_.column[t],
                                     [&](Role row) { return weigh(t, tree, first + row.row(), row.is_in_bag()); });
            }
        });
    }

private:
    // Influence sums of a block of rows should stay in the cache.
    static constexpr std::size_t kSumBytes = std::size_t{1} << 24;
    static_assert(kSumBytes / sizeof(double) <= Role::kMostRows, "rows of a block are numbered by 31 bits");

    struct Worker {
        explicit Worker(const TreesAndRows& inputs) : path_sums(inputs.target, inputs.n_features) {}
        std::vector<Role> sorted;
        std::vector<std::int32_t> start;
        PathSums path_sums;
    };

    const TreesAndRows& inputs_;
    const InfluenceOutput& out_;
    std::vector<Worker> workers_;

    // Fills `sorted` and `start` of a worker with the rows that have a part in the tree.
    void sort_by_leaf(std::size_t t, const KeptTree& tree, std::size_t first, std::size_t last, Worker& worker) const {
        std::vector<std::int32_t>& start = worker.start;
        start.assign(static_cast<std::size_t>(tree.preorder.n_leaves) + 2, 0);
        for (std::size_t i = first; i < last; ++i) {
            if (tree.leaves[i] >= 0) ++start[static_cast<std::size_t>(tree.leaves[i]) + 2];
        }
        for (std::size_t k = 2; k < start.size(); ++k) start[k] += start[k - 1];
        worker.sorted.resize(static_cast<std::size_t>(start.back()));
        for (std::size_t i = first; i < last; ++i) {
            if (tree.leaves[i] < 0) continue;
            std::int32_t& next = start[static_cast<std::size_t>(tree.leaves[i]) + 1];
            worker.sorted[static_cast<std::size_t>(next++)] = Role(i - first, is_in_bag(inputs_.rows[t], tree, i));
        }
        start.pop_back();
    }

    bool is_in_bag(const TreeRows& rows, const KeptTree& tree, std::size_t i) const {
        if (rows.kind != TreeRows::Kind::kList) return !tree.counts.empty() && tree.counts[i] > 0;
        return rows.inbag_weight && rows.inbag_weight[static_cast<std::size_t>(out_.first) + i] > 0;
    }

    // How much row i, of those whose influence is computed, counts in one of its roles.
    double weigh(std::size_t t, const KeptTree& tree, std::size_t i, bool is_in_bag) const {
        const TreeRows& rows = inputs_.rows[t];
        const std::int64_t row = out_.first + static_cast<std::int64_t>(i);
        double weight;
        if (rows.kind == TreeRows::Kind::kList) weight = (is_in_bag ? rows.inbag_weight : rows.evaluation_weight)[row];
        else weight = is_in_bag ? static_cast<double>(tree.counts[i]) : inputs_.target.weight(row);
        return inputs_.tree_weight ? weight * inputs_.tree_weight[t] : weight;
    }
};

}  // namespace truewood
