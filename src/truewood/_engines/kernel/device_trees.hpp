// For an engine that walks on a device: trees in its layout, and scores from the sums it returns. No Python here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "forest_jobs.hpp"
#include "formulas.hpp"
#include "node_sums.hpp"
#include "row_terms.hpp"
#include "target.hpp"
#include "threads.hpp"
#include "tree.hpp"

namespace truewood {

// The same layout as Node in cuda_kernels.cuh.
struct DeviceNode {
    double threshold;
    std::uint32_t feature;
    std::int32_t left;
};
static_assert(sizeof(DeviceNode) == 16);
constexpr std::uint32_t kDeviceMissingLeft = 0x80000000u, kDeviceBySet = 0x40000000u;

// Positions of the roots in the concatenated arrays of all trees.
inline std::vector<std::size_t> list_starts(const std::vector<TreeArrays>& trees) {
    std::vector<std::size_t> starts(trees.size() + 1, 0);
    for (std::size_t t = 0; t < trees.size(); ++t) starts[t + 1] = starts[t] + trees[t].n_nodes;
    return starts;
}

// Lays out trees one after another. `place` receives the new position of each node, in the order of the trees' arrays.
inline void lay_out(const std::vector<TreeArrays>& trees, std::size_t n_features, ThreadTeam& team, DeviceNode* nodes,
                    std::int32_t* place) {
    const auto starts = list_starts(trees);
    std::vector<PackedTree<double>> packed(team.n_threads());
    team.run(trees.size(), [&](std::size_t worker, std::size_t t, InterruptPoller&) {
        PackedTree<double>& tree = packed[worker];
        tree.pack(trees[t], n_features);
        const Structure& structure = tree.structure();
        const auto start = static_cast<std::int32_t>(starts[t]);
        for (std::size_t k = 0; k < trees[t].n_nodes; ++k) {
            const std::int32_t at = structure.place[k];
            place[starts[t] + k] = start + at;
            DeviceNode& node = nodes[starts[t] + static_cast<std::size_t>(at)];
            if (structure.left[at] < 0) {
                node = {0.0, 0, ~(start + static_cast<std::int32_t>(k))};
                continue;
            }
            node = {
                tree.threshold(at),
                static_cast<std::uint32_t>(tree.feature(at)) | (tree.sends_missing_left(at) ? kDeviceMissingLeft : 0u),
                start + structure.left[at]};
            if (trees[t].has_categories() && trees[t].node_set[k] >= 0) {
                const std::int64_t set = trees[t].node_set[k];
                std::memcpy(&node.threshold, &set, sizeof set);
                node.feature |= kDeviceBySet;
            }
        }
    });
}

// Sums at the leaves of trees, in the order of the trees' arrays.
struct LeafSums {
    const std::vector<TreeArrays>& trees;
    const double* sums;  // (node, sum)
    std::size_t n_features;
    Target target;
};

// Receives the terms of rows in n_roles roles, 0 to 2, by place: (node, term).
struct TermOutput {
    double* terms;
    std::size_t n_roles;
};

// Scores trees by the sums at their leaves, and writes row terms.
inline void score_sums(const LeafSums& leaf_sums, const SplitCriterion& criterion, const ScoreOutput& scores,
                       const TermOutput& out, ThreadTeam& team) {
    struct Worker {
        Worker(const Target& target, const SplitCriterion& criterion, bool with_terms)
            : formulas(target, criterion, with_terms) {}
        PackedTree<double> tree;
        Nodes nodes;
        SplitFormulas formulas;
        RowTerms terms;
    };
    const std::vector<TreeArrays>& trees = leaf_sums.trees;
    const Target& target = leaf_sums.target;
    const auto starts = list_starts(trees);
    std::vector<Worker> workers(team.n_threads(), Worker(target, criterion, out.n_roles > 0));
    team.run(trees.size(), [&](std::size_t k, std::size_t t, InterruptPoller& poller) {
        Worker& worker = workers[k];
        Nodes& nodes = worker.nodes;
        worker.tree.pack(trees[t], leaf_sums.n_features);
        nodes.read(trees[t], worker.tree.structure(), target);
        poller.count(static_cast<std::int64_t>(nodes.size()));
        const double* from = leaf_sums.sums + starts[t] * nodes.n_sums;
        for (const std::int32_t place : nodes.tree->place) {
            std::copy(
                from, from + nodes.n_sums,
                nodes.sums.begin() + static_cast<std::ptrdiff_t>(place) * static_cast<std::ptrdiff_t>(nodes.n_sums));
            from += nodes.n_sums;
        }
        aggregate_to_root(*nodes.tree, nodes.n_sums, nodes.sums.data());
        scores.put(nodes, t, leaf_sums.n_features, worker.formulas);
        if (out.n_roles == 0) return;
        nodes.keep_means();
        worker.terms.make(nodes, target, criterion);
        const std::size_t width = out.n_roles * worker.terms.width();
        for (std::size_t p = 0; p < nodes.size(); ++p) {
            const double* own = worker.terms.at(static_cast<std::int32_t>(p));
            std::copy(own, own + width, out.terms + (starts[t] + p) * width);
        }
    });
}

}  // namespace truewood
