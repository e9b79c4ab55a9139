// Scores of the splits of one tree. No Python here.
//
// truewood/_measures documents the formulas. Every number is computed by the same operations in the same order as
// there, so that the engines agree bit for bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "target.hpp"
#include "tree.hpp"

namespace truewood {

enum class Formula { kUfi, kUfiCentered, kMdiOob };

// How splits are scored.
struct SplitCriterion {
    Formula formula = Formula::kUfi;
    bool skips = true;         // whether a split counts only if evaluation rows reach both children
    double scale = 1.0;        // score of a perfect split in units of the impurity it removes
    bool is_additive = false;  // whether node values add up to a raw score
};

// term(first) + ... + term(end - 1), as numpy adds: the sum starts with the first term instead of zero.
template <class Term>
double sum_from_first(std::size_t first, std::size_t end, const Term& term) {
    double sum = term(first);
    for (std::size_t c = first + 1; c < end; ++c) sum += term(c);
    return sum;
}

// The nodes of one tree, by place: training weights and values, and sums of the evaluation rows.
struct Nodes {
    const Structure* tree = nullptr;
    std::size_t n_columns = 0, n_sums = 0;
    const double* origin = nullptr;  // subtracted from the values of each column of numbers
    std::vector<double> weight, omega, value, sums, means, rates;

    std::size_t size() const { return weight.size(); }
    const double* v(std::size_t p) const { return value.data() + p * n_columns; }
    double evaluation_weight(std::size_t p) const { return sums[p * n_sums]; }
    double divisor(std::size_t p) const { return evaluation_weight(p) > 0 ? evaluation_weight(p) : 1.0; }
    const double* total(std::size_t p) const { return sums.data() + p * n_sums + 1; }
    const double* square(std::size_t p) const { return total(p) + n_columns; }  // numbers only
    double mean(std::size_t p, std::size_t c) const { return means[p * n_columns + c]; }
    double find_mean(std::size_t p, std::size_t c) const { return total(p)[c] / divisor(p); }
    double rate(std::size_t p) const { return rates[p]; }
    // Stores means and rates of the evaluation rows, which row terms use many times.
    void keep_means() {
        means.resize(size() * n_columns);
        rates.resize(size());
        for (std::size_t p = 0; p < size(); ++p) {
            rates[p] = omega[p] / divisor(p);
            for (std::size_t c = 0; c < n_columns; ++c) means[p * n_columns + c] = find_mean(p, c);
        }
    }

    // Whether the split above the children l and l + 1 counts.
    bool is_counted(const SplitCriterion& criterion, std::size_t l) const {
        return !criterion.skips || (evaluation_weight(l) > 0 && evaluation_weight(l + 1) > 0);
    }

    // Training weight of the left child, as a share of both children.
    double left_share(std::size_t l) const {
        const double both = omega[l] + omega[l + 1];
        return both > 0 ? omega[l] / both : 0.0;
    }

    // Reads weights, and values minus the target's origin; sums are set to zero.
    void read(const TreeArrays& source, const Structure& structure, const Target& target) {
        const std::size_t n = source.n_nodes;
        tree = &structure;
        origin = target.origin;
        n_columns = target.n_columns;
        n_sums = target.n_sums();
        weight.resize(n);
        omega.resize(n);
        value.resize(n * n_columns);
        sums.assign(n * n_sums, 0.0);
        double all = 0.0;  // finite only if all numbers are
        for (std::size_t k = 0; k < n; ++k) {
            const auto p = static_cast<std::size_t>(structure.place[k]);
            const double w = source.weight.number(k);
            if (!(w >= 0)) throw BrokenTree("node weights must not be negative.");
            weight[p] = w;
            all += w;
            Field column = source.value;
            for (std::size_t c = 0; c < n_columns; ++c, column.data += source.next_column) {
                const double given = column.number(k);
                value[p * n_columns + c] = target.has_classes() || !origin ? given : given - origin[c];
                all += given;
            }
        }
        if (!std::isfinite(all) || !(weight[0] > 0)) throw BrokenTree("node weights and values must be finite.");
        for (std::size_t p = 0; p < n; ++p) omega[p] = weight[p] / weight[0];
    }
};

// Impurity of the evaluation rows at the root around their own mean: Gini or variance, averaged over outputs.
inline double find_impurity(const Nodes& nodes, const Target& target) {
    double impurity = 0.0;
    for (std::size_t o = 0; o < target.n_outputs; ++o) {
        const auto first = static_cast<std::size_t>(target.columns[o]),
                   end = static_cast<std::size_t>(target.columns[o + 1]);
        const double sum =
            sum_from_first(first, end, [&](std::size_t c) { return nodes.find_mean(0, c) * nodes.find_mean(0, c); });
        impurity += (target.has_classes() ? nodes.evaluation_weight(0) : nodes.square(0)[o]) / nodes.divisor(0) - sum;
    }
    return impurity / static_cast<double>(target.n_outputs);
}

// Receives the scores of a tree: (feature, output) each, initially zero.
struct TreeScores {
    double* score;
    double* mdi;
    double* counted_mdi;
    double* magnitude;  // (feature,): size of the summands, which bounds rounding errors
    double split_weight = 0.0, skipped_weight = 0.0;
};

class SplitFormulas {
public:
    // The magnitude costs time, and only inference uses it.
    SplitFormulas(const Target& target, const SplitCriterion& criterion, bool with_magnitude)
        : target_(target), criterion_(criterion), with_magnitude_(with_magnitude) {}

    const Target& target() const { return target_; }
    const SplitCriterion& criterion() const { return criterion_; }

    // Sums over the splits in the order of the tree's arrays.
    void score(const Nodes& nodes, std::size_t n_features, TreeScores& out) {
        const std::size_t n_outputs = target_.n_outputs;
        if (n_outputs == 1 && nodes.n_columns == 1) score_splits<1>(nodes, out);
        else if (n_outputs == 1 && nodes.n_columns == 2) score_splits<2>(nodes, out);
        else score_splits<0>(nodes, out);
        for (std::size_t k = 0; k < n_features * n_outputs; ++k) out.counted_mdi[k] *= criterion_.scale;
    }

private:
    const Target& target_;
    const SplitCriterion& criterion_;
    bool with_magnitude_;
    std::vector<double> node_scores_;

    // `Columns` is the number of columns of a single output, so that short loops over columns are unrolled; 0 is any.
    template <std::size_t Columns>
    void score_splits(const Nodes& nodes, TreeScores& out) {
        const Structure& tree = *nodes.tree;
        const std::size_t n_outputs = Columns > 0 ? 1 : target_.n_outputs;
        score_nodes<Columns>(nodes);
        for (const std::int32_t place : tree.place) {
            const auto m = static_cast<std::size_t>(place);
            if (tree.left[m] < 0) continue;
            const auto l = static_cast<std::size_t>(tree.left[m]), r = l + 1;
            const bool is_counted = nodes.is_counted(criterion_, l);
            const std::size_t into = static_cast<std::size_t>(tree.feature[m]) * n_outputs;
            out.split_weight += nodes.omega[m];
            if (!is_counted) out.skipped_weight += nodes.omega[m];
            else if (with_magnitude_) out.magnitude[tree.feature[m]] += find_magnitude(nodes, m, l);
            const double *left = nodes.v(l), *right = nodes.v(r);
            for (std::size_t o = 0; o < n_outputs; ++o) {
                const double gain = weigh(nodes, l) * add_columns<Columns>(o, [&](std::size_t c) {
                                        const double step = left[c] - right[c];
                                        return step * step;
                                    });
                out.mdi[into + o] += gain;
                if (!is_counted) continue;
                out.counted_mdi[into + o] += gain;
                out.score[into + o] += score_split<Columns>(nodes, m, l, r, o);
            }
        }
    }

    // omega_l omega_r / (omega_l + omega_r): the weight of a product of two differences between the children.
    static double weigh(const Nodes& nodes, std::size_t l) { return nodes.omega[l] * (1.0 - nodes.left_share(l)); }

    // Mirrors find_magnitude() in _measures/splits.py.
    double find_magnitude(const Nodes& nodes, std::size_t m, std::size_t l) const {
        const double* largest = target_.largest;
        const auto size = [&](std::size_t p, std::size_t c) {
            const double own = std::abs(nodes.v(p)[c]);
            if (criterion_.is_additive) return own;
            return own + (target_.has_classes() ? largest[c] : std::sqrt(nodes.square(p)[c] / nodes.divisor(p)));
        };
        double magnitude = 0.0;
        for (const std::size_t child : {l, l + 1}) {
            const double share = nodes.omega[child] + nodes.evaluation_weight(child) / nodes.divisor(0);
            const auto multiply = [&](std::size_t c) {
                const double both = size(child, c) + size(m, c);
                return both * (criterion_.is_additive ? largest[c] : both + std::abs(nodes.origin[c]));
            };
            magnitude += share * sum_from_first(0, nodes.n_columns, multiply);
        }
        return magnitude;
    }

    // Adds over the columns of an output.
    template <std::size_t Columns, class Product>
    double add_columns(std::size_t o, const Product& product) const {
        if constexpr (Columns > 0) return sum_from_first(0, Columns, product);
        return sum_from_first(static_cast<std::size_t>(target_.columns[o]),
                              static_cast<std::size_t>(target_.columns[o + 1]), product);
    }

    // For ufi, scores each node; a split compares its children with itself.
    template <std::size_t Columns>
    void score_nodes(const Nodes& nodes) {
        const std::size_t n = nodes.size(), n_outputs = Columns > 0 ? 1 : target_.n_outputs;
        if (criterion_.formula != Formula::kUfi) return;
        node_scores_.resize(n * n_outputs);
        for (std::size_t p = 0; p < n; ++p) {
            const double *v = nodes.v(p), *total = nodes.total(p);
            for (std::size_t o = 0; o < n_outputs; ++o) {
                double node = add_columns<Columns>(o, [&](std::size_t c) { return v[c] * total[c]; });
                if (!target_.has_classes()) node = 2.0 * node - nodes.square(p)[o];
                node_scores_[p * n_outputs + o] = nodes.omega[p] / nodes.divisor(p) * node;
            }
        }
    }

    template <std::size_t Columns>
    double score_split(const Nodes& nodes, std::size_t m, std::size_t l, std::size_t r, std::size_t o) const {
        const std::size_t n_outputs = Columns > 0 ? 1 : target_.n_outputs;
        if (criterion_.formula == Formula::kUfi) {
            return node_scores_[l * n_outputs + o] + node_scores_[r * n_outputs + o] - node_scores_[m * n_outputs + o];
        }
        if (criterion_.formula == Formula::kUfiCentered) {
            const double *left = nodes.v(l), *right = nodes.v(r);
            return weigh(nodes, l) * add_columns<Columns>(o, [&](std::size_t c) {
                       return (left[c] - right[c]) * (nodes.find_mean(l, c) - nodes.find_mean(r, c));
                   });
        }
        double score = 0.0;
        const double *v = nodes.v(m), *root = nodes.total(0);
        for (const std::size_t child : {l, r}) {
            const double *own = nodes.v(child), *total = nodes.total(child);
            const double n = nodes.evaluation_weight(child), n_root = nodes.divisor(0);
            score += add_columns<Columns>(
                o, [&](std::size_t c) { return (own[c] - v[c]) * ((total[c] - n * (root[c] / n_root)) / n_root); });
        }
        return score;
    }
};

}  // namespace truewood
