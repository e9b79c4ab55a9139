// Row terms: what a single row adds to the scores of a tree at each of its nodes. No Python here.
//
// As in formulas.hpp, every number is computed by the same operations in the same order as in truewood/_measures.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "formulas.hpp"
#include "target.hpp"
#include "tree.hpp"

namespace truewood {

// Terms of a row of weight one at each node. Classes have linear terms only, one per class.
struct NodeTerms {
    const double* linear;  // (node, column)
    const double* square;
    const double* constant;
};

// Weight of the line in predict_evaluation_means(), as a share of the evaluation rows of the tree.
constexpr double kLineWeight = 0.25;

// Terms of a row in one role at a node: factors of y and of its square, and a constant.
struct Terms {
    std::vector<double> linear;
    double square = 0.0, constant = 0.0;
};

// Terms of rows in both roles, at each node below a split that counts. Classes have one term per class.
class RowTerms {
public:
    // Number of terms per role; those of evaluation rows come first.
    std::size_t width() const { return width_; }
    bool is_counted(std::int32_t place) const { return is_counted_[static_cast<std::size_t>(place)]; }
    const double* at(std::int32_t place) const { return terms_.data() + static_cast<std::size_t>(place) * 2 * width_; }

    void make(const Nodes& nodes, const Target& target, const SplitCriterion& criterion) {
        const Structure& tree = *nodes.tree;
        const std::size_t n = nodes.size(), n_columns = target.n_columns;
        width_ = target.has_classes() ? n_columns : n_columns + 2;
        terms_.assign(n * 2 * width_, 0.0);
        is_counted_.assign(n, 0);
        if (criterion.formula != Formula::kMdiOob) find_origins(nodes, criterion);
        evaluation_.linear.resize(n_columns);
        inbag_.linear.resize(n_columns);
        const double factor = 1.0 / (criterion.is_additive ? 1.0 : static_cast<double>(target.n_outputs));
        for (std::size_t p = 1; p < n; ++p) {
            const auto m = static_cast<std::size_t>(tree.parent[p]);
            const auto l = static_cast<std::size_t>(tree.left[m]);
            if (!nodes.is_counted(criterion, l)) continue;
            is_counted_[p] = 1;
            evaluation_.square = evaluation_.constant = inbag_.square = inbag_.constant = 0.0;
            switch (criterion.formula) {
                case Formula::kUfi:
                    if (target.has_classes()) find_ufi_of_classes(nodes, p, m);
                    else find_ufi_of_numbers(nodes, p, m);
                    break;
                case Formula::kUfiCentered:
                    find_ufi_centered(nodes, p, m, l);
                    break;
                case Formula::kMdiOob:
                    find_mdi_oob(nodes, p, m);
                    break;
            }
            double* into = terms_.data() + p * 2 * width_;
            put(target, evaluation_, factor, into);
            put(target, inbag_, factor, into + width_);
        }
    }

    // Copies given terms of evaluation rows; `first` is the position of the tree's root among all nodes.
    void take(const Structure& tree, const Target& target, const NodeTerms& given, std::size_t first) {
        const std::size_t n = tree.n_nodes(), n_columns = target.n_columns;
        width_ = target.has_classes() ? n_columns : n_columns + 2;
        terms_.assign(n * 2 * width_, 0.0);
        is_counted_.assign(n, 1);
        is_counted_[0] = 0;
        for (std::size_t k = 0; k < n; ++k) {
            double* into = terms_.data() + static_cast<std::size_t>(tree.place[k]) * 2 * width_;
            const double* linear = given.linear + (first + k) * n_columns;
            std::copy(linear, linear + n_columns, into);
            if (target.has_classes()) continue;
            into[n_columns] = given.square[first + k];
            into[n_columns + 1] = given.constant[first + k];
        }
    }

private:
    std::size_t width_ = 0;
    std::vector<double> terms_;
    std::vector<char> is_counted_;
    std::vector<double> origin_;  // expected target of evaluation rows at each node
    Terms evaluation_, inbag_;    // of the current node

    static void put(const Target& target, const Terms& terms, double factor, double* into) {
        const std::size_t n_columns = terms.linear.size();
        for (std::size_t c = 0; c < n_columns; ++c) into[c] = terms.linear[c] * factor;
        if (target.has_classes()) {
            for (std::int64_t c = 0; c < target.columns[1]; ++c) into[c] += terms.constant * factor;
        } else {
            into[n_columns] = terms.square * factor;
            into[n_columns + 1] = terms.constant * factor;
        }
    }

    // Mirrors predict_evaluation_means() in _measures/splits.py.
    void find_origins(const Nodes& nodes, const SplitCriterion& criterion) {
        const std::size_t n = nodes.size(), n_columns = nodes.n_columns;
        if (criterion.is_additive) {
            origin_ = nodes.means;
            return;
        }
        const double slope = fit_slope(nodes), line_weight = kLineWeight * nodes.evaluation_weight(0);
        origin_.resize(n * n_columns);
        for (std::size_t p = 0; p < n; ++p) {
            const double n_rows = nodes.evaluation_weight(p) + line_weight;
            for (std::size_t c = 0; c < n_columns; ++c) {
                const double line = nodes.mean(0, c) + slope * (nodes.v(p)[c] - nodes.v(0)[c]);
                origin_[p * n_columns + c] = (nodes.total(p)[c] + line_weight * line) / (n_rows > 0 ? n_rows : 1.0);
            }
        }
    }

    // Slope of the evaluation rows' means over node values, within splits in the order of the tree's arrays.
    static double fit_slope(const Nodes& nodes) {
        const Structure& tree = *nodes.tree;
        double products = 0.0, squares = 0.0;
        for (const std::int32_t place : tree.place) {
            if (tree.left[static_cast<std::size_t>(place)] < 0) continue;
            const auto l = static_cast<std::size_t>(tree.left[static_cast<std::size_t>(place)]), r = l + 1;
            if (!(nodes.evaluation_weight(l) > 0 && nodes.evaluation_weight(r) > 0)) continue;
            const double weight = nodes.omega[l] * (1.0 - nodes.left_share(l));
            const auto step = [&](std::size_t c) { return nodes.v(l)[c] - nodes.v(r)[c]; };
            products += weight * sum_from_first(0, nodes.n_columns, [&](std::size_t c) {
                            return step(c) * (nodes.mean(l, c) - nodes.mean(r, c));
                        });
            squares += weight * sum_from_first(0, nodes.n_columns, [&](std::size_t c) { return step(c) * step(c); });
        }
        return squares > 0 ? std::max(products / squares, 0.0) : 0.0;
    }

    void find_ufi_of_classes(const Nodes& nodes, std::size_t p, std::size_t m) {
        const std::size_t n_columns = nodes.n_columns;
        const double rate = nodes.rate(p), rate_m = nodes.rate(m);
        const double* origin = origin_.data() + m * n_columns;
        std::vector<double>&evaluation = evaluation_.linear, &inbag = inbag_.linear;
        for (std::size_t c = 0; c < n_columns; ++c) {
            evaluation[c] = rate * nodes.v(p)[c] - rate_m * nodes.v(m)[c];
            inbag[c] = (nodes.mean(p, c) - nodes.mean(m, c)) / nodes.weight[0];
        }
        evaluation_.constant = -sum_from_first(0, n_columns, [&](std::size_t c) { return evaluation[c] * origin[c]; });
    }

    void find_ufi_of_numbers(const Nodes& nodes, std::size_t p, std::size_t m) {
        const std::size_t n_columns = nodes.n_columns;
        const double rate = nodes.rate(p), rate_m = nodes.rate(m);
        const double by_square = rate_m - rate;
        const double* origin = origin_.data() + m * n_columns;
        std::vector<double>&evaluation = evaluation_.linear, &inbag = inbag_.linear;
        for (std::size_t c = 0; c < n_columns; ++c) {
            evaluation[c] = 2.0 * (rate * (nodes.v(p)[c] - origin[c]) - rate_m * (nodes.v(m)[c] - origin[c]));
            inbag[c] = 2.0 * (nodes.mean(p, c) - nodes.mean(m, c)) / nodes.weight[0];
        }
        evaluation_.square = by_square;
        evaluation_.constant =
            by_square * sum_from_first(0, n_columns, [&](std::size_t c) { return origin[c] * origin[c]; }) -
            sum_from_first(0, n_columns, [&](std::size_t c) { return evaluation[c] * origin[c]; });
        for (std::size_t c = 0; c < n_columns; ++c) evaluation[c] = evaluation[c] - 2.0 * by_square * origin[c];
        const auto mean_square = [&](std::size_t q) {
            return sum_from_first(0, n_columns, [&](std::size_t o) { return nodes.square(q)[o] / nodes.divisor(q); });
        };
        inbag_.constant = (mean_square(m) - mean_square(p)) / nodes.weight[0];
    }

    void find_ufi_centered(const Nodes& nodes, std::size_t p, std::size_t m, std::size_t l) {
        const std::size_t n_columns = nodes.n_columns;
        const double rate = nodes.rate(p), share = nodes.left_share(l), other = p == l ? 1.0 - share : -share;
        const double *v = nodes.v(m), *origin = origin_.data() + m * n_columns;
        std::vector<double>&evaluation = evaluation_.linear, &inbag = inbag_.linear;
        for (std::size_t c = 0; c < n_columns; ++c) {
            evaluation[c] = rate * (other * (nodes.v(l)[c] - nodes.v(l + 1)[c]));
            inbag[c] = other * (nodes.mean(l, c) - nodes.mean(l + 1, c)) / nodes.weight[0];
        }
        evaluation_.constant = -sum_from_first(0, n_columns, [&](std::size_t c) { return evaluation[c] * origin[c]; });
        inbag_.constant = -sum_from_first(0, n_columns, [&](std::size_t c) { return inbag[c] * v[c]; });
    }

    void find_mdi_oob(const Nodes& nodes, std::size_t p, std::size_t m) {
        const std::size_t n_columns = nodes.n_columns;
        const double n_root = nodes.divisor(0);
        const auto per_weight = [&](std::size_t q, std::size_t c) {
            const double share = (nodes.total(q)[c] - nodes.evaluation_weight(q) * nodes.mean(0, c)) / n_root;
            return share / (nodes.weight[q] > 0 ? nodes.weight[q] : 1.0);
        };
        std::vector<double>&evaluation = evaluation_.linear, &inbag = inbag_.linear;
        for (std::size_t c = 0; c < n_columns; ++c) {
            evaluation[c] = (nodes.v(p)[c] - nodes.v(m)[c]) / n_root;
            inbag[c] = per_weight(p, c) - per_weight(m, c);
        }
        evaluation_.constant =
            -sum_from_first(0, n_columns, [&](std::size_t c) { return evaluation[c] * nodes.mean(0, c); });
    }
};

}  // namespace truewood
