// Which rows evaluate a tree, and where the influence of rows goes. No Python here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "target.hpp"
#include "tree.hpp"

namespace truewood {

// The evaluation rows and the in-bag rows of one tree.
struct TreeRows {
    enum class Kind {
        kAll,   // every row evaluates the tree
        kSeed,  // rows outside the bag drawn from `seed`
        kBag,   // rows outside the bag in `listed`
        kList,  // rows in `listed`
    };
    Kind kind = Kind::kAll;
    std::uint32_t seed = 0;
    std::size_t n_draws = 0;
    const std::int64_t* listed = nullptr;
    std::size_t n_listed = 0;
    // Weights of all rows in both roles, for kList and if influence is computed; otherwise the bag determines them.
    // Without in-bag rows there is no `inbag_weight`.
    const double* evaluation_weight = nullptr;
    const double* inbag_weight = nullptr;

    bool has_bag() const { return kind == Kind::kSeed || kind == Kind::kBag; }
};

// The trees of a call, and the rows of each.
struct TreesAndRows {
    const std::vector<TreeArrays>& trees;
    bool has_categories;
    std::vector<TreeRows> rows;
    std::vector<std::int32_t> column;  // target column of each tree
    std::size_t n_rows, n_features;
    Target target;
};

// Receives the influence of n_rows rows, starting with row `first`.
struct InfluenceOutput {
    double* eval_influence = nullptr;   // (row, feature)
    double* inbag_influence = nullptr;  // (row, feature); see has_inbag()
    float* bags = nullptr;              // row weights in the bags of the first n_bags trees: (bag, row)
    std::size_t n_bags = 0;
    std::int64_t first = 0;
    std::size_t n_rows = 0;
    const double* tree_weight = nullptr;  // optional; all trees count once without it
    // For the residual test, what takes the place of the target: (row, column, feature). `by_tree` receives the sum of
    // the influence on each tree: (tree, feature).
    const double* residual = nullptr;
    double* by_tree = nullptr;

    // Whether rows may be in bag; otherwise all rows are evaluation rows of all trees.
    bool has_inbag() const { return inbag_influence != nullptr; }
    double weigh_tree(std::size_t tree) const { return tree_weight ? tree_weight[tree] : 1.0; }
};

}  // namespace truewood
