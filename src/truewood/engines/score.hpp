// The whole way of some trees: unseen rows, leaves, sums, scores, and what single rows contribute. No Python here.
//
// Trees are handed out one by one, or, where they are small and every row scores them, blocks of rows that go through
// all trees. Contributions are added block of rows by block of rows, in the order of the trees. So no number depends on
// the number of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bags.hpp"
#include "contribute.hpp"
#include "formulas.hpp"
#include "row_terms.hpp"
#include "score_call.hpp"
#include "target.hpp"
#include "threads.hpp"
#include "tree.hpp"
#include "walk.hpp"

namespace truewood {

class Scoring {
public:
    Scoring(const Call& call, const Walker& walker, Crew& crew) : call_(call), crew_(crew) {
        for (std::size_t k = 0; k < crew.n_threads(); ++k) workers_.emplace_back(walker, call);
        are_small_ = std::all_of(call.rows.begin(), call.rows.end(),
                                 [](const TreeRows& rows) { return rows.kind == TreeRows::Kind::kAll; }) &&
                     std::all_of(call.trees.begin(), call.trees.end(),
                                 [](const Source& tree) { return tree.n_nodes <= kFewNodes; });
        prototype_ = &walker;
    }

    void run() {
        for (std::size_t start = 0; start < call_.trees.size();) {
            const std::size_t end = find_batch_end(start);
            batch_.resize(std::max(batch_.size(), end - start));
            if (are_small_) score_by_rows(start, end);
            else score_by_trees(start, end);
            if (call_.contributions.phi) contribute(start, end);
            start = end;
        }
    }

private:
    // What the trees of a batch hold together at most; a single tree may be larger.
    static constexpr std::size_t kBatchBytes = std::size_t{1} << 28;
    // What should stay in the cache: rows that go through all trees, and sums of rows that contributions are added to.
    static constexpr std::size_t kBlockBytes = std::size_t{1} << 15;
    static constexpr std::size_t kSumBytes = std::size_t{1} << 24;
    static_assert(kSumBytes / sizeof(double) <= Role::kMostRows, "rows of a block are numbered by 31 bits");

    struct Worker {
        Worker(const Walker& prototype, const Call& call)
            : walker(prototype.copy()), formulas(call.target, call.rule), path_sums(call.target, call.n_features) {}
        std::unique_ptr<Walker> walker;
        Nodes nodes;
        SplitFormulas formulas;
        RowTerms terms;
        std::vector<Counts> counts;
        std::vector<std::int64_t> unseen, training;
        std::vector<std::int32_t> leaves;
        std::vector<double> chunk;
        Block block;
        std::vector<Role> sorted;
        std::vector<std::int32_t> start;
        bool has_all = false;  // whether `leaves` are those of all rows
        PathSums path_sums;
    };

    // What is kept of a tree until all rows have contributed.
    struct Scored {
        Branches branches;
        std::vector<std::int32_t>
            leaves;  // of the rows that contributions are asked of, by branches; -1: no part in it
        std::vector<Counts> counts;
        // Where blocks of rows go through all trees.
        std::unique_ptr<Walker> walker;
        Nodes nodes;
    };

    const Call& call_;
    Crew& crew_;
    const Walker* prototype_;
    std::vector<Worker> workers_;
    std::vector<Scored> batch_;
    bool are_small_;

    std::size_t find_batch_end(std::size_t start) const {
        const bool keeps = call_.contributions.phi != nullptr;
        const std::size_t per_row = keeps ? sizeof(std::int32_t) + sizeof(Counts) : 0;
        // The tree itself, and its sums, of which a thread may hold one and leave some waiting to be added up.
        const std::size_t n_copies = 1 + (1 + OrderedSum::kMostWaiting) * crew_.n_threads();
        const std::size_t of_tree = 64 + 8 * call_.target.n_columns + 8 * n_copies * call_.target.n_sums();
        const std::size_t per_node =
            (are_small_ ? of_tree : 0) + (keeps ? 8 * (1 + 2 * (call_.target.n_columns + 2)) : 0);
        std::size_t n_bytes = 0, end = start;
        // Room for large trees that is used again from batch to batch costs less than new room.
        const std::size_t most =
            keeps && !are_small_ ? std::max<std::size_t>(8, 2 * crew_.n_threads()) : call_.trees.size();
        while (end < call_.trees.size() && end - start < most) {
            n_bytes += call_.contributions.n_rows * per_row + call_.trees[end].n_nodes * per_node;
            if (end > start && n_bytes > kBatchBytes) break;
            ++end;
        }
        return end;
    }

    void score_by_trees(std::size_t start, std::size_t end) {
        crew_.run(end - start, [&](std::size_t k, std::size_t item, Pacer& pacer) {
            Worker& worker = workers_[k];
            const std::size_t t = start + item;
            Walker& walker = *worker.walker;
            walker.pack(call_.trees[t]);
            worker.nodes.read(call_.trees[t], walker.structure(), call_.target, call_.origin);
            list_rows(t, worker);
            find_and_sum(t, worker, pacer);
            finish_tree(t, worker.nodes, worker, batch_[item]);
            if (call_.contributions.phi) keep_leaves(t, worker, batch_[item], pacer);
        });
    }

    // Leaves and sums of the unseen rows. Where all rows have a part in the tree, the leaves of all are found at once.
    void find_and_sum(std::size_t t, Worker& worker, Pacer& pacer) const {
        const std::size_t n = worker.unseen.size();
        const auto sum = [&](const auto& leaves) {
            if (call_.terms) return;
            sum_rows(call_.target, call_.column[t], leaves, worker.unseen.data(), n, worker.nodes.size(), pacer,
                     worker.chunk, worker.nodes.sums.data());
        };
        worker.has_all = call_.contributions.n_rows == call_.n_rows && !worker.counts.empty();
        worker.leaves.resize(worker.has_all ? call_.n_rows : n);
        if (worker.has_all) {
            worker.walker->find(Range{0}, call_.n_rows, pacer, worker.leaves.data());
            sum(LeavesOfAll{worker.leaves.data(), worker.unseen.data()});
        } else {
            worker.walker->find(worker.unseen.data(), n, pacer, worker.leaves.data());
            sum(worker.leaves.data());
        }
    }

    // Fills `unseen`, and `counts` of a bag.
    void list_rows(std::size_t t, Worker& worker) const {
        const TreeRows& rows = call_.rows[t];
        worker.counts.clear();
        switch (rows.kind) {
            case TreeRows::Kind::kAll:
                worker.unseen.resize(call_.n_rows);
                for (std::size_t i = 0; i < call_.n_rows; ++i) worker.unseen[i] = static_cast<std::int64_t>(i);
                return;
            case TreeRows::Kind::kList:
                worker.unseen.assign(rows.listed, rows.listed + rows.n_listed);
                return;
            case TreeRows::Kind::kSeed:
                worker.counts.assign(call_.n_rows, 0);
                draw_bag(rows.seed, rows.n_draws, call_.n_rows,
                         [&](std::size_t row) { count_drawn(row, worker.counts); });
                break;
            case TreeRows::Kind::kBag:
                worker.counts.assign(call_.n_rows, 0);
                for (std::size_t i = 0; i < rows.n_listed; ++i) {
                    count_drawn(static_cast<std::size_t>(rows.listed[i]), worker.counts);
                }
        }
        worker.unseen.resize(call_.n_rows);
        worker.unseen.resize(list_unseen(worker.counts, worker.unseen.data()));
    }

    // From sums at leaves to scores, and to what rows add to these.
    void finish_tree(std::size_t t, Nodes& nodes, Worker& worker, Scored& kept) const {
        if (call_.terms) {
            const auto first = static_cast<std::size_t>(call_.trees[t].first);
            worker.terms.take(*nodes.tree, call_.target, *call_.terms, first);
            kept.branches.make(*nodes.tree, worker.terms, call_.contributions.psi ? 2 : 1);
            return;
        }
        add_up(*nodes.tree, nodes.n_sums, nodes.sums.data());
        if (call_.node_sums) {
            double* into = call_.node_sums + static_cast<std::size_t>(call_.trees[t].first) * nodes.n_sums;
            for (const std::int32_t place : nodes.tree->place) {
                const double* from = nodes.sums.data() + static_cast<std::size_t>(place) * nodes.n_sums;
                into = std::copy(from, from + nodes.n_sums, into);
            }
            return;
        }
        put_scores(call_, t, nodes, worker.formulas);
        if (!call_.contributions.phi) return;
        nodes.keep_means();
        worker.terms.make(nodes, call_.target, call_.rule);
        kept.branches.make(*nodes.tree, worker.terms, call_.contributions.psi ? 2 : 1);
    }

    // Keeps the leaves of the rows that contributions are asked of; finds those of rows that grew the tree.
    void keep_leaves(std::size_t t, Worker& worker, Scored& kept, Pacer& pacer) const {
        const Contributions& asked = call_.contributions;
        const TreeRows& rows = call_.rows[t];
        const auto end = asked.first + static_cast<std::int64_t>(asked.n_rows);
        const std::int32_t* number = kept.branches.leaf.data();
        kept.counts.clear();
        if (worker.has_all) {
            kept.leaves.resize(asked.n_rows);
            for (std::size_t i = 0; i < asked.n_rows; ++i) kept.leaves[i] = number[worker.leaves[i]];
            kept.counts.swap(worker.counts);
            keep_bag(t, kept);
            return;
        }
        kept.leaves.assign(asked.n_rows, -1);
        for (std::size_t i = 0; i < worker.unseen.size(); ++i) {
            const std::int64_t row = worker.unseen[i];
            if (row < asked.first || row >= end) continue;
            kept.leaves[static_cast<std::size_t>(row - asked.first)] = number[worker.leaves[i]];
        }
        if (!asked.psi) return;
        worker.training.clear();
        for (std::int64_t row = asked.first; row < end; ++row) {
            const auto i = static_cast<std::size_t>(row);
            const bool grew = rows.kind == TreeRows::Kind::kList ? rows.training_weight[i] > 0 : worker.counts[i] > 0;
            if (grew) worker.training.push_back(row);
        }
        worker.leaves.resize(worker.training.size());
        worker.walker->find(worker.training.data(), worker.training.size(), pacer, worker.leaves.data());
        for (std::size_t i = 0; i < worker.training.size(); ++i) {
            kept.leaves[static_cast<std::size_t>(worker.training[i] - asked.first)] = number[worker.leaves[i]];
        }
        if (rows.kind != TreeRows::Kind::kList) {
            kept.counts.assign(worker.counts.begin() + asked.first, worker.counts.begin() + end);
        }
        keep_bag(t, kept);
    }

    // Keeps the weights of rows in the bag.
    void keep_bag(std::size_t t, const Scored& kept) const {
        const Contributions& asked = call_.contributions;
        if (t >= asked.n_bags) return;
        float* bag = asked.bags + t * asked.n_rows;
        for (std::size_t i = 0; i < asked.n_rows; ++i) {
            const auto row = static_cast<std::size_t>(asked.first) + i;
            bag[i] = static_cast<float>(kept.counts.empty() ? call_.rows[t].training_weight[row] : kept.counts[i]);
        }
    }

    // Every row scores every tree: blocks of rows go through all trees of the batch.
    void score_by_rows(std::size_t start, std::size_t end) {
        const Contributions& asked = call_.contributions;
        const std::size_t n_trees = end - start, width = call_.target.n_sums();
        std::vector<std::size_t> offset(n_trees + 1, 0);  // of each tree's sums in a chunk
        for (std::size_t k = 0; k < n_trees; ++k) offset[k + 1] = offset[k] + call_.trees[start + k].n_nodes * width;
        crew_.run(n_trees, [&](std::size_t, std::size_t k, Pacer&) {
            Scored& tree = batch_[k];
            if (!tree.walker) tree.walker = prototype_->copy();
            tree.walker->pack(call_.trees[start + k]);
            tree.nodes.read(call_.trees[start + k], tree.walker->structure(), call_.target, call_.origin);
            if (asked.phi) tree.leaves.resize(asked.n_rows);
        });
        TileColumns columns;
        for (std::size_t k = 0; k < n_trees; ++k) batch_[k].walker->add_splits(columns);
        crew_.run(columns.size(), [&](std::size_t, std::size_t column, Pacer&) { columns.sort(column); });
        crew_.run(n_trees, [&](std::size_t, std::size_t k, Pacer&) { batch_[k].walker->pack_bits(columns); });
        OrderedSum total(offset[n_trees], crew_.n_threads());
        const std::size_t block = find_block(columns);
        crew_.run((call_.n_rows + kChunk - 1) / kChunk, [&](std::size_t w, std::size_t item, Pacer& pacer) {
            Worker& worker = workers_[w];
            const std::size_t first = item * kChunk, last = std::min(first + kChunk, call_.n_rows);
            worker.chunk.assign(offset[n_trees], 0.0);
            worker.leaves.resize(kTreesAtOnce * kChunk);
            for (std::size_t from = first; from < last; from += block) {
                worker.block.rows = Range{static_cast<std::int64_t>(from)};
                worker.block.n = std::min(block, last - from);
                prototype_->load(columns, worker.block);
                for (std::size_t k = 0; k < n_trees; k += kTreesAtOnce) {
                    const std::size_t n_here = std::min(kTreesAtOnce, n_trees - k);
                    TreeSums trees[kTreesAtOnce];
                    for (std::size_t i = 0; i < n_here; ++i) {
                        std::int32_t* leaves = worker.leaves.data() + i * kChunk;
                        batch_[k + i].walker->find(columns, worker.block, pacer, leaves);
                        if (asked.phi) keep_range(from, worker.block.n, leaves, batch_[k + i].leaves);
                        trees[i] = {call_.column[start + k + i], leaves, worker.chunk.data() + offset[k + i]};
                    }
                    if (!call_.terms) add_rows(call_.target, trees, n_here, worker.block.rows, worker.block.n, pacer);
                }
            }
            if (!call_.terms) total.add(item, worker.chunk, pacer);
        });
        crew_.run(n_trees, [&](std::size_t w, std::size_t k, Pacer&) {
            std::copy(total.total().begin() + static_cast<std::ptrdiff_t>(offset[k]),
                      total.total().begin() + static_cast<std::ptrdiff_t>(offset[k + 1]), batch_[k].nodes.sums.begin());
            finish_tree(start + k, batch_[k].nodes, workers_[w], batch_[k]);
            for (std::int32_t& leaf : batch_[k].leaves) leaf = batch_[k].branches.leaf[leaf];
        });
    }

    // Rows that go through all trees at a time: whole tiles, as many as stay in the cache.
    std::size_t find_block(const TileColumns& columns) const {
        const std::size_t row_bytes =
            std::max<std::size_t>(1, columns.size() ? columns.size() * sizeof(float) : prototype_->row_size());
        return std::max<std::size_t>(2, kBlockBytes / row_bytes / kTile) * kTile;
    }

    void keep_range(std::size_t from, std::size_t n, const std::int32_t* found,
                    std::vector<std::int32_t>& leaves) const {
        const auto first = static_cast<std::size_t>(call_.contributions.first);
        for (std::size_t i = 0; i < n; ++i) {
            if (from + i >= first && from + i < first + leaves.size()) leaves[from + i - first] = found[i];
        }
    }

    // Blocks of rows, whose sums stay in the cache, and of these one tree after the other.
    void contribute(std::size_t start, std::size_t end) {
        const Contributions& asked = call_.contributions;
        const std::size_t row_bytes = std::max<std::size_t>(1, call_.n_features) * sizeof(double) * (asked.psi ? 2 : 1);
        const std::size_t share = (asked.n_rows + crew_.n_threads() - 1) / crew_.n_threads();
        const std::size_t block = std::max<std::size_t>(16, std::min(kSumBytes / row_bytes, share));
        crew_.run((asked.n_rows + block - 1) / block, [&](std::size_t w, std::size_t item, Pacer& pacer) {
            Worker& worker = workers_[w];
            const std::size_t first = item * block, last = std::min(first + block, asked.n_rows);
            const std::size_t at = first * call_.n_features;
            const Sums sums{asked.phi + at, asked.psi ? asked.psi + at : nullptr,
                            static_cast<std::size_t>(asked.first) + first};
            for (std::size_t t = start; t < end; ++t) {
                const Scored& tree = batch_[t - start];
                pacer.count(static_cast<std::int64_t>(last - first) * 8);
                sort_by_leaf(t, tree, first, last, worker);
                worker.path_sums.add(tree.branches, worker.sorted, worker.start, sums, call_.column[t],
                                     [&](Role row) { return weigh(t, tree, first + row.row(), row.grew()); });
            }
        });
    }

    // Fills `sorted` and `start` of a worker with the rows that have a part in the tree.
    void sort_by_leaf(std::size_t t, const Scored& tree, std::size_t first, std::size_t last, Worker& worker) const {
        std::vector<std::int32_t>& start = worker.start;
        start.assign(static_cast<std::size_t>(tree.branches.n_leaves) + 2, 0);
        for (std::size_t i = first; i < last; ++i) {
            if (tree.leaves[i] >= 0) ++start[static_cast<std::size_t>(tree.leaves[i]) + 2];
        }
        for (std::size_t k = 2; k < start.size(); ++k) start[k] += start[k - 1];
        worker.sorted.resize(static_cast<std::size_t>(start.back()));
        for (std::size_t i = first; i < last; ++i) {
            if (tree.leaves[i] < 0) continue;
            std::int32_t& next = start[static_cast<std::size_t>(tree.leaves[i]) + 1];
            worker.sorted[static_cast<std::size_t>(next++)] = Role(i - first, grew(call_.rows[t], tree, i));
        }
        start.pop_back();
    }

    bool grew(const TreeRows& rows, const Scored& tree, std::size_t i) const {
        if (rows.kind != TreeRows::Kind::kList) return !tree.counts.empty() && tree.counts[i] > 0;
        return rows.training_weight &&
               rows.training_weight[static_cast<std::size_t>(call_.contributions.first) + i] > 0;
    }

    // How much row i of those that contributions are asked of counts in one of its roles.
    double weigh(std::size_t t, const Scored& tree, std::size_t i, bool has_grown) const {
        const TreeRows& rows = call_.rows[t];
        const std::int64_t row = call_.contributions.first + static_cast<std::int64_t>(i);
        double weight;
        if (rows.kind == TreeRows::Kind::kList) weight = (has_grown ? rows.training_weight : rows.unseen_weight)[row];
        else weight = has_grown ? static_cast<double>(tree.counts[i]) : call_.target.weight(row);
        return call_.tree_weight ? weight * call_.tree_weight[t] : weight;
    }
};

}  // namespace truewood
