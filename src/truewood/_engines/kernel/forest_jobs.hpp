// What a forest pass is run for: scores of trees, sums at nodes, or the influence of rows. No Python here.
//
// A job says whether rows are summed at the leaves, finishes a tree when they have been, and says where influence goes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "formulas.hpp"
#include "row_terms.hpp"
#include "target.hpp"
#include "tree_influence.hpp"
#include "tree_rows.hpp"

namespace truewood {

// Where scores go: (tree, feature, output), (tree, feature) for the magnitude, and (tree,).
struct ScoreOutput {
    double *scores, *mdi, *counted_mdi;
    double* magnitude;  // null: not needed
    double *split_weight, *skipped_weight, *evaluation_weight;
    double* evaluation_impurity;  // not of additive trees

    // Scores of a tree whose nodes hold the sums of its evaluation rows.
    void put(const Target& target, const SplitCriterion& criterion, std::size_t n_features, std::size_t t,
             const Nodes& nodes, SplitFormulas& formulas) const {
        const std::size_t size = n_features * target.n_outputs;
        TreeScores out{scores + t * size, mdi + t * size, counted_mdi + t * size,
                       magnitude ? magnitude + t * n_features : nullptr};
        formulas.score(nodes, n_features, out);
        split_weight[t] = out.split_weight;
        skipped_weight[t] = out.skipped_weight;
        evaluation_weight[t] = nodes.evaluation_weight(0);
        if (!criterion.is_additive) evaluation_impurity[t] = find_impurity(nodes, target);
    }
};

// Scores trees, and adds the influence of rows on the scores where that is needed.
struct ScoreTrees {
    static constexpr bool kSumsRows = true;
    SplitCriterion criterion;
    ScoreOutput scores;
    InfluenceOutput influence;

    struct Scratch {
        Scratch(const ScoreTrees& job, const TreesAndRows& inputs) : formulas(inputs.target, job.criterion) {}
        SplitFormulas formulas;
        RowTerms terms;
    };

    void finish_tree(const TreesAndRows& inputs, std::size_t t, Nodes& nodes, Scratch& scratch,
                     PreorderTree& preorder) const {
        aggregate_to_root(*nodes.tree, nodes.n_sums, nodes.sums.data());
        scores.put(inputs.target, criterion, inputs.n_features, t, nodes, scratch.formulas);
        if (!influence.eval_influence) return;
        nodes.keep_means();
        scratch.terms.make(nodes, inputs.target, criterion);
        preorder.make(*nodes.tree, scratch.terms, influence.inbag_influence ? 2 : 1);
    }
};

// Sums at all nodes, in the order of the trees' arrays.
struct SumNodes {
    static constexpr bool kSumsRows = true;
    double* sums;
    InfluenceOutput influence;  // none

    struct Scratch {
        Scratch(const SumNodes&, const TreesAndRows&) {}
    };

    void finish_tree(const TreesAndRows& inputs, std::size_t t, Nodes& nodes, Scratch&, PreorderTree&) const {
        aggregate_to_root(*nodes.tree, nodes.n_sums, nodes.sums.data());
        double* into = sums + static_cast<std::size_t>(inputs.trees[t].first) * nodes.n_sums;
        for (const std::int32_t place : nodes.tree->place) {
            const double* from = nodes.sums.data() + static_cast<std::size_t>(place) * nodes.n_sums;
            into = std::copy(from, from + nodes.n_sums, into);
        }
    }
};

// Adds the influence of rows by terms that are known, in the order of the trees' arrays.
struct AddInfluence {
    static constexpr bool kSumsRows = false;
    NodeTerms terms;
    InfluenceOutput influence;

    struct Scratch {
        Scratch(const AddInfluence&, const TreesAndRows&) {}
        RowTerms terms;
    };

    void finish_tree(const TreesAndRows& inputs, std::size_t t, Nodes& nodes, Scratch& scratch,
                     PreorderTree& preorder) const {
        scratch.terms.take(*nodes.tree, inputs.target, terms, static_cast<std::size_t>(inputs.trees[t].first));
        preorder.make(*nodes.tree, scratch.terms, 1);
    }
};

}  // namespace truewood
