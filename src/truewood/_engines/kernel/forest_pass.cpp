// Sends rows down all trees of a forest, for one of the jobs in forest_jobs.hpp. No Python here.
//
// Threads usually share the trees. If all trees are small and every row evaluates them, threads share the rows instead:
// a block of rows goes through all trees, because the block and many small trees fit into the cache together. Either
// way, the order of additions does not depend on the number of threads.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "bags.hpp"
#include "forest_jobs.hpp"
#include "formulas.hpp"
#include "influence_pass.hpp"
#include "leaf_table.hpp"
#include "node_sums.hpp"
#include "row_matrix.hpp"
#include "target.hpp"
#include "threads.hpp"
#include "tree.hpp"
#include "tree_rows.hpp"

namespace truewood {

namespace {

template <class Job>
class ForestPass {
public:
    ForestPass(const Job& job, const TreesAndRows& inputs, const RowMatrix& rows, ThreadTeam& team)
        : job_(job), inputs_(inputs), rows_(rows), team_(team), loader_(rows.make_block_loader()) {
        for (std::size_t k = 0; k < team.n_threads(); ++k) workers_.emplace_back(job, inputs, rows);
        are_small_ = std::all_of(inputs.rows.begin(), inputs.rows.end(),
                                 [](const TreeRows& own) { return own.kind == TreeRows::Kind::kAll; }) &&
                     std::all_of(inputs.trees.begin(), inputs.trees.end(),
                                 [](const TreeArrays& tree) { return tree.n_nodes <= kFewNodes; });
        if constexpr (Job::kAddsInfluence) {
            std::size_t most_nodes = 0;
            for (const TreeArrays& tree : inputs.trees) most_nodes = std::max(most_nodes, tree.n_nodes);
            if (are_small_ && LookUpPass::pays_off(inputs, job.influence, most_nodes)) {
                look_up_pass_.emplace(inputs, job.influence, team.n_threads());
            } else {
                influence_pass_.emplace(inputs, job.influence, team.n_threads());
            }
        }
    }

    void run() {
        for (std::size_t start = 0; start < inputs_.trees.size();) {
            const std::size_t end = find_batch_end(start);
            batch_.resize(std::max(batch_.size(), end - start));
            if (are_small_) score_by_rows(start, end);
            else score_by_trees(start, end);
            if constexpr (Job::kAddsInfluence) {
                if (look_up_pass_) look_up_pass_->add(start, team_);
                else influence_pass_->add(start, end - start, batch_, team_);
            }
            start = end;
        }
    }

private:
    static_assert(kChunk % kTile == 0, "tiles do not extend over two chunks");
    // Memory for the trees of a batch; a single tree may exceed it.
    static constexpr std::size_t kBatchBytes = std::size_t{1} << 28;

    struct Worker {
        Worker(const Job& job, const TreesAndRows& inputs, const RowMatrix& rows)
            : finder(rows.make_leaf_finder(inputs.has_categories)), scratch(job, inputs) {}
        std::unique_ptr<LeafFinder> finder;
        Nodes nodes;
        typename Job::Scratch scratch;
        std::vector<Counts> counts;
        std::vector<std::int64_t> evaluation, inbag;
        std::vector<std::int32_t> leaves;
        std::vector<double> chunk;
        Block block;
        TileSums sums;
        std::vector<std::uint16_t> tile_leaves;  // (tree, row), kTile rows per tree
        bool has_all = false;                    // whether `leaves` holds the leaves of all rows
    };

    // A tree of a batch. Only score_by_rows() uses the finder and the nodes.
    struct BatchTree : InfluenceTree {
        std::unique_ptr<SmallTreeFinder> finder;
        Nodes nodes;
    };

    const Job& job_;
    const TreesAndRows& inputs_;
    const RowMatrix& rows_;
    ThreadTeam& team_;
    std::unique_ptr<BlockLoader> loader_;
    // Jobs that add influence have one of these two.
    std::optional<InfluencePass> influence_pass_;
    std::optional<LookUpPass> look_up_pass_;
    std::vector<Worker> workers_;
    std::vector<BatchTree> batch_;
    bool are_small_;

    std::size_t find_batch_end(std::size_t start) const {
        constexpr bool kKeepsTrees = Job::kAddsInfluence;
        std::size_t row_bytes = 0;
        if constexpr (kKeepsTrees) {
            const std::size_t bytes = look_up_pass_ ? sizeof(std::uint16_t) : sizeof(std::int32_t) + sizeof(Counts);
            row_bytes = job_.influence.n_rows * bytes;
        }
        // The tree itself, and its sums: each thread holds a copy, and several copies may wait to be added.
        const std::size_t n_copies = 1 + (1 + OrderedSum::kMostWaiting) * team_.n_threads();
        const std::size_t of_tree = 64 + 8 * inputs_.target.n_columns + 8 * n_copies * inputs_.target.n_sums();
        const std::size_t per_node = (are_small_ ? of_tree : 0) +
                                     (look_up_pass_ ? LookUpPass::count_bytes(inputs_) : 0) +
                                     (kKeepsTrees ? 8 * (1 + 2 * (inputs_.target.n_columns + 2)) : 0);
        std::size_t n_bytes = 0, end = start;
        // Small batches of large trees reuse memory, which is cheaper than allocating more.
        const std::size_t most =
            kKeepsTrees && !are_small_ ? std::max<std::size_t>(8, 2 * team_.n_threads()) : inputs_.trees.size();
        while (end < inputs_.trees.size() && end - start < most) {
            n_bytes += row_bytes + inputs_.trees[end].n_nodes * per_node;
            if (end > start && n_bytes > kBatchBytes) break;
            ++end;
        }
        return end;
    }

    void score_by_trees(std::size_t start, std::size_t end) {
        team_.run(end - start, [&](std::size_t k, std::size_t item, InterruptPoller& poller) {
            Worker& worker = workers_[k];
            const std::size_t t = start + item;
            worker.finder->pack(inputs_.trees[t]);
            worker.nodes.read(inputs_.trees[t], worker.finder->structure(), inputs_.target);
            list_rows(t, worker);
            find_and_sum(t, worker, poller);
            job_.finish_tree(inputs_, t, worker.nodes, worker.scratch);
            if constexpr (Job::kAddsInfluence) {
                make_preorder(worker.nodes, worker.scratch, batch_[item]);
                keep_leaves(t, worker, batch_[item], poller);
            }
        });
    }

    void make_preorder(const Nodes& nodes, const typename Job::Scratch& scratch, BatchTree& tree) const {
        tree.preorder.make(*nodes.tree, scratch.terms, job_.influence.has_inbag() ? 2 : 1);
    }

    // Finds the leaves of the evaluation rows and sums the rows there. If influence needs the leaves of in-bag rows as
    // well, the leaves of all rows are found at once.
    void find_and_sum(std::size_t t, Worker& worker, InterruptPoller& poller) const {
        const std::size_t n = worker.evaluation.size();
        const auto sum = [&](const auto& leaves) {
            if constexpr (Job::kSumsRows) {
                sum_rows(inputs_.target, inputs_.column[t], RowsAtLeaves{worker.evaluation.data(), leaves, n},
                         worker.nodes.size(), poller, worker.chunk, worker.nodes.sums.data());
            }
        };
        worker.has_all = false;
        if constexpr (Job::kAddsInfluence) {
            worker.has_all =
                job_.influence.has_inbag() && job_.influence.n_rows == inputs_.n_rows && !worker.counts.empty();
        }
        worker.leaves.resize(worker.has_all ? inputs_.n_rows : n);
        if (worker.has_all) {
            worker.finder->find(Range{0}, inputs_.n_rows, poller, worker.leaves.data());
            sum(LeavesOfAll{worker.leaves.data(), worker.evaluation.data()});
        } else {
            worker.finder->find(worker.evaluation.data(), n, poller, worker.leaves.data());
            sum(worker.leaves.data());
        }
    }

    // Fills `evaluation`, and also `counts` if the tree has a bag.
    void list_rows(std::size_t t, Worker& worker) const {
        const TreeRows& rows = inputs_.rows[t];
        worker.counts.clear();
        switch (rows.kind) {
            case TreeRows::Kind::kAll:
                worker.evaluation.resize(inputs_.n_rows);
                for (std::size_t i = 0; i < inputs_.n_rows; ++i) worker.evaluation[i] = static_cast<std::int64_t>(i);
                return;
            case TreeRows::Kind::kList:
                worker.evaluation.assign(rows.listed, rows.listed + rows.n_listed);
                return;
            case TreeRows::Kind::kSeed:
                worker.counts.assign(inputs_.n_rows, 0);
                draw_bag(rows.seed, rows.n_draws, inputs_.n_rows,
                         [&](std::size_t row) { count_drawn(row, worker.counts); });
                break;
            case TreeRows::Kind::kBag:
                worker.counts.assign(inputs_.n_rows, 0);
                for (std::size_t i = 0; i < rows.n_listed; ++i) {
                    count_drawn(static_cast<std::size_t>(rows.listed[i]), worker.counts);
                }
        }
        worker.evaluation.resize(inputs_.n_rows);
        worker.evaluation.resize(list_oob_rows(worker.counts, worker.evaluation.data()));
    }

    // Stores the leaves of the rows whose influence is computed, numbered in preorder; finds those of in-bag rows.
    void keep_leaves(std::size_t t, Worker& worker, BatchTree& kept, InterruptPoller& poller) const {
        const InfluenceOutput& out = job_.influence;
        const TreeRows& rows = inputs_.rows[t];
        const auto end = out.first + static_cast<std::int64_t>(out.n_rows);
        const std::int32_t* number = kept.preorder.leaf.data();
        kept.counts.clear();
        if (worker.has_all) {
            kept.leaves.resize(out.n_rows);
            for (std::size_t i = 0; i < out.n_rows; ++i) kept.leaves[i] = number[worker.leaves[i]];
            kept.counts.swap(worker.counts);
            keep_bag(t, kept);
            return;
        }
        kept.leaves.assign(out.n_rows, -1);
        for (std::size_t i = 0; i < worker.evaluation.size(); ++i) {
            const std::int64_t row = worker.evaluation[i];
            if (row < out.first || row >= end) continue;
            kept.leaves[static_cast<std::size_t>(row - out.first)] = number[worker.leaves[i]];
        }
        if (!out.has_inbag()) return;
        worker.inbag.clear();
        for (std::int64_t row = out.first; row < end; ++row) {
            const auto i = static_cast<std::size_t>(row);
            const bool is_in_bag = rows.kind == TreeRows::Kind::kList ? rows.inbag_weight[i] > 0 : worker.counts[i] > 0;
            if (is_in_bag) worker.inbag.push_back(row);
        }
        worker.leaves.resize(worker.inbag.size());
        worker.finder->find(worker.inbag.data(), worker.inbag.size(), poller, worker.leaves.data());
        for (std::size_t i = 0; i < worker.inbag.size(); ++i) {
            kept.leaves[static_cast<std::size_t>(worker.inbag[i] - out.first)] = number[worker.leaves[i]];
        }
        if (rows.kind != TreeRows::Kind::kList) {
            kept.counts.assign(worker.counts.begin() + out.first, worker.counts.begin() + end);
        }
        keep_bag(t, kept);
    }

    // Writes the row weights in the bag.
    void keep_bag(std::size_t t, const BatchTree& kept) const {
        const InfluenceOutput& out = job_.influence;
        if (t >= out.n_bags) return;
        float* bag = out.bags + t * out.n_rows;
        for (std::size_t i = 0; i < out.n_rows; ++i) {
            const auto row = static_cast<std::size_t>(out.first) + i;
            bag[i] = static_cast<float>(kept.counts.empty() ? inputs_.rows[t].inbag_weight[row] : kept.counts[i]);
        }
    }

    // Sends blocks of rows through all trees of the batch, which every row evaluates.
    void score_by_rows(std::size_t start, std::size_t end) {
        const std::size_t n_trees = end - start, width = inputs_.target.n_sums();
        team_.run(n_trees, [&](std::size_t, std::size_t k, InterruptPoller&) {
            BatchTree& tree = batch_[k];
            if (!tree.finder) tree.finder = rows_.make_small_tree_finder(inputs_.has_categories);
            tree.finder->pack(inputs_.trees[start + k]);
            tree.nodes.read(inputs_.trees[start + k], tree.finder->structure(), inputs_.target);
            if constexpr (Job::kAddsInfluence) {
                if (!look_up_pass_) tree.leaves.resize(job_.influence.n_rows);
            }
        });
        TileColumns columns;
        for (std::size_t k = 0; k < n_trees; ++k) batch_[k].finder->add_splits(columns);
        team_.run(columns.size(), [&](std::size_t, std::size_t column, InterruptPoller&) { columns.sort(column); });
        team_.run(n_trees,
                  [&](std::size_t, std::size_t k, InterruptPoller&) { batch_[k].finder->pack_splits(columns); });
        const std::vector<std::size_t> order = order_by_column(start, n_trees);
        std::vector<std::size_t> offset(n_trees + 1, 0);  // where the sums of each tree start in a chunk
        std::size_t most_leaves = 0;
        for (std::size_t k = 0; k < n_trees; ++k) {
            const std::size_t n_leaves = batch_[k].finder->leaf_place().size();
            offset[k + 1] = offset[k] + n_leaves * width;
            most_leaves = std::max(most_leaves, n_leaves);
        }
        if (look_up_pass_) look_up_pass_->start(n_trees, most_leaves);
        OrderedSum total(offset[n_trees], team_.n_threads());
        team_.run((inputs_.n_rows + kChunk - 1) / kChunk,
                  [&](std::size_t w, std::size_t item, InterruptPoller& poller) {
                      Worker& worker = workers_[w];
                      const std::size_t first = item * kChunk, last = std::min(first + kChunk, inputs_.n_rows);
                      worker.chunk.assign(offset[n_trees], 0.0);
                      for (std::size_t from = first; from < last; from += kTile) {
                          worker.block.rows = Range{static_cast<std::int64_t>(from)};
                          worker.block.n = std::min(kTile, last - from);
                          loader_->load(columns, worker.block);
                          send_tile(start, order, offset, worker, poller);
                      }
                      if constexpr (Job::kSumsRows) total.add(item, worker.chunk, poller);
                  });
        team_.run(n_trees, [&](std::size_t w, std::size_t k, InterruptPoller&) {
            Nodes& nodes = batch_[k].nodes;
            const std::vector<std::int32_t>& leaf_place = batch_[k].finder->leaf_place();
            const double* sums = total.total().data() + offset[k];
            for (const std::int32_t place : leaf_place) {
                std::copy_n(sums, width, nodes.sums.data() + static_cast<std::size_t>(place) * width);
                sums += width;
            }
            job_.finish_tree(inputs_, start + k, nodes, workers_[w].scratch);
            if constexpr (Job::kAddsInfluence) {
                const RowTerms& terms = workers_[w].scratch.terms;
                if (look_up_pass_) look_up_pass_->make_table(w, k, *nodes.tree, leaf_place, terms);
                else make_preorder(nodes, workers_[w].scratch, batch_[k]);
            }
        });
    }

    // Trees of the batch by target column.
    std::vector<std::size_t> order_by_column(std::size_t start, std::size_t n_trees) const {
        std::vector<std::size_t> order(n_trees);
        std::iota(order.begin(), order.end(), std::size_t{0});
        const std::int32_t* column = inputs_.column.data() + start;
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t k, std::size_t l) { return column[k] < column[l]; });
        return order;
    }

    // Sends the worker's block of rows through all trees of the batch.
    void send_tile(std::size_t start, const std::vector<std::size_t>& order, const std::vector<std::size_t>& offset,
                   Worker& worker, InterruptPoller& poller) {
        const auto from = static_cast<std::size_t>(worker.block.rows.first);
        worker.tile_leaves.resize(TreeSums::kMost * kTile);
        TreeSums trees{worker.tile_leaves.data(), {}};
        for (std::size_t i = 0, n; i < order.size(); i += n) {
            const std::int32_t column = inputs_.column[start + order[i]];
            if (i == 0 || column != inputs_.column[start + order[i - 1]]) {
                worker.sums.start(inputs_.target, column, worker.block.rows, worker.block.n);
            }
            for (n = 0; n < TreeSums::kMost && i + n < order.size(); ++n) {
                const std::size_t k = order[i + n];
                if (inputs_.column[start + k] != column) break;
                std::uint16_t* leaves = worker.tile_leaves.data() + n * kTile;
                batch_[k].finder->find(worker.block, poller, leaves);
                trees.sums[n] = worker.chunk.data() + offset[k];
                if constexpr (Job::kAddsInfluence) {
                    if (look_up_pass_) look_up_pass_->keep_leaves(k, from, leaves);
                    else keep_range(from, worker.block.n, leaves, batch_[k].leaves);
                }
            }
            if constexpr (Job::kSumsRows) worker.sums.add(trees, n, poller);
        }
    }

    // Stores the leaves of those rows of a block whose influence is computed.
    void keep_range(std::size_t from, std::size_t n, const std::uint16_t* found,
                    std::vector<std::int32_t>& leaves) const {
        const auto first = static_cast<std::size_t>(job_.influence.first);
        for (std::size_t i = 0; i < n; ++i) {
            if (from + i >= first && from + i < first + leaves.size()) leaves[from + i - first] = found[i];
        }
    }
};

}  // namespace

template <class Job>
void run_forest_pass(const Job& job, const TreesAndRows& inputs, const RowMatrix& rows, ThreadTeam& team) {
    ForestPass<Job>(job, inputs, rows, team).run();
}

template void run_forest_pass(const ScoreTrees&, const TreesAndRows&, const RowMatrix&, ThreadTeam&);
template void run_forest_pass(const ScoreTreesWithInfluence&, const TreesAndRows&, const RowMatrix&, ThreadTeam&);
template void run_forest_pass(const AddResiduals&, const TreesAndRows&, const RowMatrix&, ThreadTeam&);
template void run_forest_pass(const SumNodes&, const TreesAndRows&, const RowMatrix&, ThreadTeam&);
template void run_forest_pass(const AddInfluence&, const TreesAndRows&, const RowMatrix&, ThreadTeam&);

}  // namespace truewood
