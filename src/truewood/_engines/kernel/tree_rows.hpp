// Which rows evaluate a tree, and where the influence of rows goes. No Python here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "target.hpp"
#include "tree.hpp"

namespace truewood {

// The evaluation rows of one tree, and its in-bag rows.
struct TreeRows {
    enum class Kind { kAll, kSeed, kBag, kList };
    Kind kind = Kind::kAll;  // every row evaluates the tree; or those outside of the bag; or those that are listed
    std::uint32_t seed = 0;  // kSeed
    std::size_t n_draws = 0;
    const std::int64_t* listed = nullptr;  // rows in the bag, as often as they were drawn, or evaluation rows
    std::size_t n_listed = 0;
    // kList: weights of all rows in both roles, where influence is computed. Otherwise they follow from the bag.
    const double* evaluation_weight = nullptr;
    const double* inbag_weight = nullptr;
};

// The trees of a call, and the rows of each.
struct TreesAndRows {
    const std::vector<TreeArrays>& trees;
    bool has_categories;
    std::vector<TreeRows> rows;
    std::vector<std::int32_t> column;  // of the target, by tree
    const double* tree_weight;         // null: every tree counts once
    std::size_t n_rows, n_features;
    Target target;
};

// Where the influence of the rows from `first` on is added.
struct InfluenceOutput {
    double* eval_influence = nullptr;   // n_rows x n_features; null: influence is not needed
    double* inbag_influence = nullptr;  // null where no row was in bag
    float* bags = nullptr;              // weights in the bags of the first n_bags trees, n_rows each
    std::size_t n_bags = 0;
    std::int64_t first = 0;
    std::size_t n_rows = 0;
};

}  // namespace truewood
