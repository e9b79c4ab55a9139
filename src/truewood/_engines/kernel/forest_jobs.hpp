// The jobs of a forest pass: scores of trees with or without influence, sums at nodes, influence by given terms.
// No Python here.
//
// A job declares whether the pass sums rows at leaves (kSumsRows) and whether it adds influence (kAddsInfluence, with
// an InfluenceOutput `influence`). finish_tree() is called for each tree after its rows have been summed; with
// influence, it leaves the row terms of the tree in the scratch memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "formulas.hpp"
#include "node_sums.hpp"
#include "row_matrix.hpp"
#include "row_terms.hpp"
#include "target.hpp"
#include "threads.hpp"
#include "tree_rows.hpp"

namespace truewood {

// Receives scores: (tree, feature, output), (tree, feature) for the magnitude, and (tree,) for the others.
struct ScoreOutput {
    double *scores, *mdi, *counted_mdi, *magnitude;
    double *split_weight, *skipped_weight, *evaluation_weight;
    double* evaluation_impurity;  // not written for additive trees

    // Scores a tree whose nodes hold the sums of its evaluation rows.
    void put(const Nodes& nodes, std::size_t t, std::size_t n_features, SplitFormulas& formulas) const {
        const std::size_t size = n_features * formulas.target().n_outputs;
        TreeScores out{scores + t * size, mdi + t * size, counted_mdi + t * size, magnitude + t * n_features};
        formulas.score(nodes, n_features, out);
        split_weight[t] = out.split_weight;
        skipped_weight[t] = out.skipped_weight;
        evaluation_weight[t] = nodes.evaluation_weight(0);
        if (!formulas.criterion().is_additive) evaluation_impurity[t] = find_impurity(nodes, formulas.target());
    }
};

// Scores trees.
struct ScoreTrees {
    static constexpr bool kSumsRows = true, kAddsInfluence = false;
    SplitCriterion criterion;
    ScoreOutput scores;

    struct Scratch {
        Scratch(const ScoreTrees& job, const TreesAndRows& inputs) : formulas(inputs.target, job.criterion, false) {}
        SplitFormulas formulas;
    };

    void finish_tree(const TreesAndRows& inputs, std::size_t t, Nodes& nodes, Scratch& scratch) const {
        aggregate_to_root(*nodes.tree, nodes.n_sums, nodes.sums.data());
        scores.put(nodes, t, inputs.n_features, scratch.formulas);
    }
};

// Scores trees, and adds the influence of rows on the scores.
struct ScoreTreesWithInfluence {
    static constexpr bool kSumsRows = true, kAddsInfluence = true;
    SplitCriterion criterion;
    ScoreOutput scores;
    InfluenceOutput influence;

    struct Scratch {
        Scratch(const ScoreTreesWithInfluence& job, const TreesAndRows& inputs)
            : formulas(inputs.target, job.criterion, true) {}
        SplitFormulas formulas;
        RowTerms terms;
    };

    void finish_tree(const TreesAndRows& inputs, std::size_t t, Nodes& nodes, Scratch& scratch) const {
        aggregate_to_root(*nodes.tree, nodes.n_sums, nodes.sums.data());
        scores.put(nodes, t, inputs.n_features, scratch.formulas);
        nodes.keep_means();
        scratch.terms.make(nodes, inputs.target, criterion);
    }
};

// Adds the influence of evaluation rows with residuals in place of the target.
struct AddResiduals {
    static constexpr bool kSumsRows = true, kAddsInfluence = true;
    SplitCriterion criterion;
    InfluenceOutput influence;

    struct Scratch {
        Scratch(const AddResiduals&, const TreesAndRows&) {}
        RowTerms terms;
    };

    void finish_tree(const TreesAndRows& inputs, std::size_t, Nodes& nodes, Scratch& scratch) const {
        aggregate_to_root(*nodes.tree, nodes.n_sums, nodes.sums.data());
        nodes.keep_means();
        scratch.terms.make(nodes, inputs.target, criterion);
    }
};

// Sums rows at all nodes, in the order of the trees' arrays.
struct SumNodes {
    static constexpr bool kSumsRows = true, kAddsInfluence = false;
    double* sums;

    struct Scratch {
        Scratch(const SumNodes&, const TreesAndRows&) {}
    };

    void finish_tree(const TreesAndRows& inputs, std::size_t t, Nodes& nodes, Scratch&) const {
        aggregate_to_root(*nodes.tree, nodes.n_sums, nodes.sums.data());
        double* into = sums + static_cast<std::size_t>(inputs.trees[t].first) * nodes.n_sums;
        for (const std::int32_t place : nodes.tree->place) {
            const double* from = nodes.sums.data() + static_cast<std::size_t>(place) * nodes.n_sums;
            into = std::copy(from, from + nodes.n_sums, into);
        }
    }
};

// Adds the influence of rows by given terms, in the order of the trees' arrays.
struct AddInfluence {
    static constexpr bool kSumsRows = false, kAddsInfluence = true;
    NodeTerms terms;
    InfluenceOutput influence;

    struct Scratch {
        Scratch(const AddInfluence&, const TreesAndRows&) {}
        RowTerms terms;
    };

    void finish_tree(const TreesAndRows& inputs, std::size_t t, Nodes& nodes, Scratch& scratch) const {
        scratch.terms.take(*nodes.tree, inputs.target, terms, static_cast<std::size_t>(inputs.trees[t].first));
    }
};

// Runs a job; forest_pass.cpp has an instance for each.
template <class Job>
void run_forest_pass(const Job& job, const TreesAndRows& inputs, const RowMatrix& rows, ThreadTeam& team);

}  // namespace truewood
