// What the whole way of some trees is asked for, and where its results go. No Python here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "formulas.hpp"
#include "row_terms.hpp"
#include "target.hpp"
#include "tree.hpp"

namespace truewood {

// The rows that score one tree, and those that grew it.
struct TreeRows {
    enum class Kind { kAll, kSeed, kBag, kList };
    Kind kind = Kind::kAll;  // every row scores; or those that are not in the bag; or those that are listed
    std::uint32_t seed = 0;  // kSeed
    std::size_t n_draws = 0;
    const std::int64_t* listed = nullptr;  // rows in the bag, as often as they were drawn, or rows that score
    std::size_t n_listed = 0;
    // Weights of rows in both roles, where contributions are asked for and do not follow from the bag: kList.
    const double* unseen_weight = nullptr;
    const double* training_weight = nullptr;
};

// Rows from `first` on whose contributions are asked for; null: not asked for.
struct Contributions {
    double* phi = nullptr;  // n_rows x n_features, less those before `first`
    double* psi = nullptr;  // null where no row grew a tree
    float* bags = nullptr;  // weights in the bags of the first n_bags trees, n_rows each
    std::size_t n_bags = 0;
    std::int64_t first = 0;
    std::size_t n_rows = 0;
};

struct Call {
    std::vector<Source> trees;
    std::vector<TreeRows> rows;
    std::vector<std::int32_t> column;  // of the target, a tree
    const double* tree_weight = nullptr;
    std::size_t n_rows = 0, n_features = 0;
    Target target;
    const double* origin = nullptr;  // of the target's columns
    Rule rule;
    // Results, (tree, feature, output), (tree, feature) for the magnitude, and (tree,).
    double *scores = nullptr, *mdi = nullptr, *counted_mdi = nullptr, *magnitude = nullptr;
    double *split_weight = nullptr, *skipped_weight = nullptr, *unseen_weight = nullptr;
    double* unseen_impurity = nullptr;  // not of additive trees
    Contributions contributions;
    // Of trees that every row scores, what may be asked for instead of scores: sums at all nodes in the order of the
    // arrays, or contributions by terms that are known.
    double* node_sums = nullptr;
    const NodeTerms* terms = nullptr;
};

// Scores of a tree whose nodes hold the sums of the unseen rows.
inline void put_scores(const Call& call, std::size_t t, const Nodes& nodes, SplitFormulas& formulas) {
    const std::size_t size = call.n_features * call.target.n_outputs;
    TreeScores out{call.scores + t * size, call.mdi + t * size, call.counted_mdi + t * size,
                   call.magnitude ? call.magnitude + t * call.n_features : nullptr};
    formulas.score(nodes, call.n_features, out);
    call.split_weight[t] = out.split_weight;
    call.skipped_weight[t] = out.skipped_weight;
    call.unseen_weight[t] = nodes.unseen(0);
    if (!call.rule.is_additive) call.unseen_impurity[t] = find_impurity(nodes, call.target);
}

}  // namespace truewood
