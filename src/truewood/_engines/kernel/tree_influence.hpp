// The influence of single rows on the scores of a tree, given their leaves. No Python here.
//
// The influence of a row on a feature is its weight times its terms at the nodes on its path, summed from the root
// down. Rows are sorted by leaf, so that a single walk through the tree, which carries the sums of the path, serves all
// rows. path_influence.hpp is the counterpart for few rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "matrix.hpp"
#include "row_terms.hpp"
#include "simd_dispatch.hpp"
#include "target.hpp"
#include "tree.hpp"

namespace truewood {

// A tree in preorder, with the terms of its nodes. Leaves are numbered in the same order.
struct PreorderTree {
    struct Node {
        std::int32_t feature;  // feature of the split above; -1 if that split does not count
        std::int32_t depth;    // number of counted nodes above
        std::int32_t end;      // the first node after the subtree
        std::int32_t n_leaves;
        bool is_leaf;
    };
    std::vector<Node> nodes;
    std::vector<double> terms;       // (node, term), of one or both roles
    std::vector<std::int32_t> leaf;  // number of each leaf, by place
    std::size_t width = 0;           // terms per role
    std::size_t n_terms = 0;         // terms per node
    std::int32_t n_leaves = 0, most_deep = 0;

    // `n_roles` is 1 if no row is in bag.
    void make(const Structure& tree, const RowTerms& given, std::size_t n_roles) {
        width = given.width();
        n_terms = n_roles * width;
        nodes.clear();
        nodes.reserve(tree.n_nodes());
        terms.resize(tree.n_nodes() * n_terms);
        leaf.assign(tree.n_nodes(), -1);
        n_leaves = most_deep = 0;
        std::vector<Waiting> waiting{{0, -1, 0}};
        while (!waiting.empty()) {
            const Waiting at = waiting.back();
            waiting.pop_back();
            if (at.place < 0) {
                nodes[~at.place].end = static_cast<std::int32_t>(nodes.size());
                nodes[~at.place].n_leaves = n_leaves - nodes[~at.place].n_leaves;
                continue;
            }
            const auto p = static_cast<std::size_t>(at.place);
            const auto number = static_cast<std::int32_t>(nodes.size());
            const bool is_counted = given.is_counted(at.place), is_leaf = tree.left[p] < 0;
            nodes.push_back({is_counted ? at.feature : -1, at.depth, number + 1, is_leaf ? 1 : n_leaves, is_leaf});
            std::copy(given.at(at.place), given.at(at.place) + n_terms,
                      terms.begin() + static_cast<std::ptrdiff_t>(number * n_terms));
            if (is_leaf) {
                leaf[p] = n_leaves++;
                most_deep = std::max(most_deep, at.depth);
                continue;
            }
            const std::int32_t depth = at.depth + is_counted;
            waiting.push_back({~number, 0, 0});
            waiting.push_back({tree.left[p] + 1, tree.feature[p], depth});
            waiting.push_back({tree.left[p], tree.feature[p], depth});
        }
    }

private:
    struct Waiting {
        std::int32_t place;  // ~k: node k is done
        std::int32_t feature, depth;
    };
};

// A row of a block at its leaf, with what adding its influence needs, so that nothing is looked up by row again.
struct RowAtLeaf {
    std::uint32_t row_and_role;  // 2 * row, plus 1 for an in-bag row
    std::int32_t code;           // class of the first output; 0 for numbers
    double weight;

    static constexpr std::size_t kMostRows = std::size_t{1} << 31;
    std::size_t row() const { return row_and_role >> 1; }
    std::size_t role() const { return row_and_role & 1u; }
};

// Receives the influence of a block of rows, (row, feature), by role; the block starts with row `first` of the target.
struct InfluenceSums {
    double* influence[2];  // of evaluation rows, of in-bag rows
    std::size_t first;
    double* of(const RowAtLeaf& row, std::size_t n_features) const {
        return influence[row.role()] + row.row() * n_features;
    }
};

// Receives the influence of a row, and the weight of the row.
struct Part {
    double* out;
    double weight;
};

// out += weight * sums
TRUEWOOD_SIMD_DISPATCH
static void add_weighted(double weight, const double* sums, std::size_t n, double* out) {
    for (std::size_t j = 0; j < n; ++j) out[j] += weight * sums[j];
}

// out += weight * (by_number * number + by_square * number^2 + constant); `sums` holds the three, concatenated.
TRUEWOOD_SIMD_DISPATCH
static void add_polynomial(double weight, double number, const double* sums, std::size_t n, double* out) {
    const double *by_square = sums + n, *constant = by_square + n, square = number * number;
    for (std::size_t j = 0; j < n; ++j) {
        out[j] += weight * ((sums[j] * number + by_square[j] * square) + constant[j]);
    }
}

// by_tree += weight * sums * residual, and out += the same times the weight of the tree
TRUEWOOD_SIMD_DISPATCH
static void add_products(double weight, double tree_weight, const double* sums, const double* residual, std::size_t n,
                         double* out, double* by_tree) {
    for (std::size_t j = 0; j < n; ++j) {
        const double added = weight * (sums[j] * residual[j]);
        by_tree[j] += added;
        out[j] += tree_weight * added;
    }
}

// Adds the influence of rows that have been sorted by leaf.
class PathSums {
public:
    PathSums(const Target& target, std::size_t n_features) : target_(target), n_features_(n_features) {}

    // `rows` is sorted by leaf: leaf k has the rows start[k] .. start[k + 1]. `column` is the target column that the
    // tree predicts.
    void add(const PreorderTree& tree, const std::vector<RowAtLeaf>& rows, const std::vector<std::int32_t>& start,
             const InfluenceSums& sums_of, std::int32_t column) {
        const std::size_t of_role = tree.width * n_features_;
        add_leaves(tree, start, [&](std::int32_t first, std::int32_t last) {
            for (std::int32_t i = first; i < last; ++i) {
                if (static_cast<std::size_t>(i) + kAhead < rows.size()) {
                    prefetch(sums_of.of(rows[i + kAhead], n_features_));
                }
                const RowAtLeaf& row = rows[i];
                const Part part{sums_of.of(row, n_features_), row.weight};
                const double* sums = sums_.data() + row.role() * of_role;
                if (target_.has_classes()) add_classes(part, row, sums_of.first, sums);
                else add_numbers(part, sums_of.first + row.row(), column, sums);
            }
        });
    }

    // The same with residuals in place of the target, (row, column of the target, feature), for evaluation rows.
    // by_tree[j] receives the sum over the rows, without the weight of the tree.
    void add_residuals(const PreorderTree& tree, const std::vector<RowAtLeaf>& rows,
                       const std::vector<std::int32_t>& start, const InfluenceSums& sums_of, std::int32_t column,
                       const double* residual, double tree_weight, double* by_tree) {
        const std::size_t n = n_features_, n_columns = target_.n_columns, stride = target_.n_target_columns();
        add_leaves(tree, start, [&](std::int32_t first, std::int32_t last) {
            for (std::int32_t i = first; i < last; ++i) {
                const std::size_t row = sums_of.first + rows[i].row();
                const double* own = residual + (row * stride + static_cast<std::size_t>(column)) * n;
                double* out = sums_of.of(rows[i], n);
                const double weight = rows[i].weight;
                if (n_columns == 1 && n < kManyFeatures) {
                    add_products(weight, tree_weight, sums_.data(), own, n, out, by_tree);
                    continue;
                }
                each_column([&](std::size_t j) {
                    double sum = sums_[j] * own[j];
                    for (std::size_t c = 1; c < n_columns; ++c) sum += sums_[c * n + j] * own[c * n + j];
                    by_tree[j] += weight * sum;
                    out[j] += tree_weight * (weight * sum);
                });
            }
        });
    }

private:
    // With at least this many features, only those on the path are added.
    static constexpr std::size_t kManyFeatures = 64;
    static constexpr std::size_t kAhead = 12;

    const Target& target_;
    std::size_t n_features_, n_terms_ = 0;
    std::vector<double> sums_;                    // (term, feature)
    std::vector<std::int32_t> entered_;           // features of the counted nodes on the path
    std::vector<double> saved_;                   // sums above these nodes
    std::vector<std::int32_t> n_on_path_, path_;  // how often each feature is on the path, and which features are

    // Calls add_rows(first, last) for the rows of each leaf, with the sums of the leaf's path in `sums_`.
    template <class AddRows>
    void add_leaves(const PreorderTree& tree, const std::vector<std::int32_t>& start, const AddRows& add_rows) {
        n_terms_ = tree.n_terms;
        sums_.assign(n_terms_ * n_features_, 0.0);
        n_on_path_.assign(n_features_, 0);
        path_.clear();
        entered_.resize(static_cast<std::size_t>(tree.most_deep) + 1);
        saved_.resize(entered_.size() * n_terms_);
        std::int32_t n_entered = 0, leaf = 0;
        const auto n_nodes = static_cast<std::int32_t>(tree.nodes.size());
        for (std::int32_t k = 0; k < n_nodes;) {
            const PreorderTree::Node& node = tree.nodes[k];
            const std::int32_t first = start[leaf], last = start[leaf + node.n_leaves];
            if (first == last) {
                leaf += node.n_leaves;
                k = node.end;
                continue;
            }
            while (n_entered > node.depth) leave(--n_entered);
            if (node.feature >= 0) enter(n_entered++, node.feature, tree.terms.data() + k * n_terms_);
            ++k;
            if (!node.is_leaf) continue;
            ++leaf;
            add_rows(first, last);
        }
    }

    void prefetch(const double* out) const {
        const std::size_t n = std::min(n_features_, kManyFeatures);
        for (std::size_t j = 0; j < n; j += 8) prefetch_line(out + j);
        prefetch_line(out + n - 1);  // rows do not start at cache lines
    }

    void enter(std::int32_t depth, std::int32_t feature, const double* terms) {
        double *saved = saved_.data() + static_cast<std::size_t>(depth) * n_terms_, *sum = sums_.data() + feature;
        entered_[depth] = feature;
        for (std::size_t k = 0; k < n_terms_; ++k, sum += n_features_) {
            saved[k] = *sum;
            *sum += terms[k];
        }
        if (n_features_ >= kManyFeatures && n_on_path_[feature]++ == 0) path_.push_back(feature);
    }

    void leave(std::int32_t depth) {
        const double* saved = saved_.data() + static_cast<std::size_t>(depth) * n_terms_;
        const std::int32_t feature = entered_[depth];
        double* sum = sums_.data() + feature;
        for (std::size_t k = 0; k < n_terms_; ++k, sum += n_features_) *sum = saved[k];
        if (n_features_ >= kManyFeatures && --n_on_path_[feature] == 0) path_.pop_back();
    }

    // Calls visit(j) for all features or for those on the path.
    template <class Visit>
    void each_column(const Visit& visit) {
        if (n_features_ < kManyFeatures) {
            for (std::size_t j = 0; j < n_features_; ++j) visit(j);
        } else {
            for (const std::int32_t j : path_) visit(static_cast<std::size_t>(j));
        }
    }

    // out[j] += weight * of(j)
    template <class Of>
    void add_columns(const Part& part, const Of& of) {
        each_column([&](std::size_t j) { part.out[j] += part.weight * of(j); });
    }

    // `first` is the number of the first row of the block.
    void add_classes(const Part& part, const RowAtLeaf& row, std::size_t first, const double* sums) {
        const std::size_t n = n_features_;
        const double* own = sums + static_cast<std::size_t>(row.code) * n;
        if (target_.n_outputs == 1) {
            if (n < kManyFeatures) return add_weighted(part.weight, own, n, part.out);
            return add_columns(part, [own](std::size_t j) { return own[j]; });
        }
        const std::int32_t* code = target_.codes + (first + row.row()) * target_.n_outputs;
        add_columns(part, [&](std::size_t j) {
            double sum = own[j];
            for (std::size_t o = 1; o < target_.n_outputs; ++o) {
                sum += sums[static_cast<std::size_t>(target_.columns[o] + code[o]) * n + j];
            }
            return sum;
        });
    }

    void add_numbers(const Part& part, std::size_t row, std::int32_t column, const double* sums) {
        const std::size_t n = n_features_, n_columns = target_.n_columns;
        const double* y = target_.numbers + row * target_.stride + column;
        if (n_columns == 1 && n < kManyFeatures) return add_polynomial(part.weight, y[0], sums, n, part.out);
        const double *by_square = sums + n_columns * n, *constant = by_square + n;
        double square = y[0] * y[0];
        for (std::size_t c = 1; c < n_columns; ++c) square += y[c] * y[c];
        add_columns(part, [&](std::size_t j) {
            double sum = sums[j] * y[0];
            for (std::size_t c = 1; c < n_columns; ++c) sum += sums[c * n + j] * y[c];
            return (sum + by_square[j] * square) + constant[j];
        });
    }
};

}  // namespace truewood
