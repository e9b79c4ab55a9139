// What single rows contribute to the scores of a tree whose leaves they have reached. No Python here.
//
// A row contributes to a feature its weight times what it adds at the nodes on its path, summed from the root down. So
// rows are taken leaf by leaf, while the tree is walked once with the sums of the path at hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "formulas.hpp"
#include "matrix.hpp"
#include "target.hpp"
#include "tree.hpp"
#include "wide.hpp"

namespace truewood {

// A tree by its branches: leaves are numbered from left to right, and each node has those from first_leaf to last_leaf.
struct Branches {
    std::vector<std::int32_t> left, feature, first_leaf, last_leaf;

    void make(const Structure& tree) {
        left = tree.left;
        feature = tree.feature;
        first_leaf.resize(left.size());
        last_leaf.resize(left.size());
        std::vector<std::int32_t> waiting{0};
        std::int32_t n_leaves = 0;
        while (!waiting.empty()) {
            const std::int32_t place = waiting.back();
            waiting.pop_back();
            if (place < 0) {
                last_leaf[~place] = n_leaves;
                continue;
            }
            first_leaf[place] = n_leaves;
            if (left[place] < 0) {
                last_leaf[place] = ++n_leaves;
                continue;
            }
            waiting.push_back(~place);
            waiting.push_back(left[place] + 1);
            waiting.push_back(left[place]);
        }
    }
    std::size_t n_leaves() const { return static_cast<std::size_t>(last_leaf[0]); }
};

// A row, and whether it grew the tree or scores it.
class Role {
public:
    Role() = default;
    Role(std::size_t row, bool grew) : both_(static_cast<std::uint32_t>(2 * row + grew)) {}
    std::int64_t row() const { return both_ >> 1; }
    bool grew() const { return both_ & 1u; }

private:
    std::uint32_t both_;
};

// Where contributions go: a row of n_features for each row, from row `first` on.
struct Sums {
    double* phi;
    double* psi;
    std::int64_t first;
    double* of(Role row, std::size_t n_features) const {
        return (row.grew() ? psi : phi) + static_cast<std::size_t>(row.row()) * n_features;
    }
};

// What a row adds to, and how much it counts.
struct Part {
    double* out;
    double weight;
};

// out += weight * sums
TRUEWOOD_WIDE
static void add_weighted(double weight, const double* sums, std::size_t n, double* out) {
    for (std::size_t j = 0; j < n; ++j) out[j] += weight * sums[j];
}

// out += weight * (by_number * number + by_square * number^2 + constant); these three follow each other.
TRUEWOOD_WIDE
static void add_polynomial(double weight, double number, const double* sums, std::size_t n, double* out) {
    const double *by_square = sums + n, *constant = by_square + n, square = number * number;
    for (std::size_t j = 0; j < n; ++j) {
        out[j] += weight * ((sums[j] * number + by_square[j] * square) + constant[j]);
    }
}

// Adds what rows contribute, which have been sorted by their leaves.
class PathSums {
public:
    PathSums(const Target& target, std::size_t n_features) : target_(target), n_features_(n_features) {}

    // `rows` by leaf: leaf k has those from start[k] to start[k + 1]. weigh(row) says how much a row counts; `column`
    // is that of the target that the tree speaks of.
    template <class Weigh>
    void add(const Branches& tree, const RowTerms& terms, const std::vector<Role>& rows,
             const std::vector<std::int32_t>& start, const Sums& sums_of, std::int32_t column, const Weigh& weigh) {
        n_terms_ = 2 * terms.width();
        sums_.assign(n_terms_ * n_features_, 0.0);
        n_on_path_.assign(n_features_, 0);
        path_.clear();
        n_saved_ = 0;
        waiting_.assign(1, {0, -1});
        while (!waiting_.empty()) {
            const Step step = waiting_.back();
            waiting_.pop_back();
            if (step.place < 0) {
                leave(step.feature);
                continue;
            }
            const std::int32_t first = start[tree.first_leaf[step.place]], last = start[tree.last_leaf[step.place]];
            if (first == last) continue;
            if (step.feature >= 0 && terms.is_counted(step.place)) {
                enter(step.feature, terms.at(step.place));
                waiting_.push_back({-1, step.feature});
            }
            const std::int32_t left = tree.left[step.place];
            if (left >= 0) {
                waiting_.push_back({left + 1, tree.feature[step.place]});
                waiting_.push_back({left, tree.feature[step.place]});
                continue;
            }
            for (std::int32_t k = first; k < last; ++k) {
                if (static_cast<std::size_t>(k) + kAhead < rows.size())
                    prefetch(sums_of.of(rows[k + kAhead], n_features_));
                const Part part{sums_of.of(rows[k], n_features_), weigh(rows[k])};
                const double* sums = sums_.data() + (rows[k].grew() ? terms.width() * n_features_ : 0);
                const auto row = static_cast<std::size_t>(sums_of.first + rows[k].row());
                if (target_.has_classes()) add_classes(part, row, sums);
                else add_numbers(part, row, column, sums);
            }
        }
    }

private:
    // From this number of columns on, only those on the path are added.
    static constexpr std::size_t kWide = 64;
    static constexpr std::size_t kAhead = 12;

    struct Step {
        std::int32_t place;    // -1: leave a node
        std::int32_t feature;  // of the split above
    };
    const Target& target_;
    std::size_t n_features_, n_terms_ = 0, n_saved_ = 0;
    std::vector<double> sums_;   // (term, feature)
    std::vector<double> saved_;  // sums as they were above the nodes that were entered
    std::vector<Step> waiting_;
    std::vector<std::int32_t> n_on_path_, path_;  // how often each feature is on the path, and which are

    void prefetch(const double* out) const {
        for (std::size_t j = 0; j < n_features_ && j < kWide; j += 8) prefetch_line(out + j);
    }

    void enter(std::int32_t feature, const double* terms) {
        if (n_saved_ + n_terms_ > saved_.size()) saved_.resize(2 * saved_.size() + n_terms_);
        double *saved = saved_.data() + n_saved_, *sum = sums_.data() + feature;
        for (std::size_t k = 0; k < n_terms_; ++k, sum += n_features_) {
            saved[k] = *sum;
            *sum += terms[k];
        }
        n_saved_ += n_terms_;
        if (n_features_ >= kWide && n_on_path_[feature]++ == 0) path_.push_back(feature);
    }

    void leave(std::int32_t feature) {
        n_saved_ -= n_terms_;
        const double* saved = saved_.data() + n_saved_;
        double* sum = sums_.data() + feature;
        for (std::size_t k = 0; k < n_terms_; ++k, sum += n_features_) *sum = saved[k];
        if (n_features_ >= kWide && --n_on_path_[feature] == 0) path_.pop_back();
    }

    // out[j] += weight * of(j), for all columns or those on the path.
    template <class Of>
    void add_columns(const Part& part, const Of& of) {
        if (n_features_ < kWide) {
            for (std::size_t j = 0; j < n_features_; ++j) part.out[j] += part.weight * of(j);
        } else {
            for (const std::int32_t j : path_) part.out[j] += part.weight * of(static_cast<std::size_t>(j));
        }
    }

    void add_classes(const Part& part, std::size_t row, const double* sums) {
        const std::size_t n = n_features_;
        const std::int32_t* code = target_.codes + row * target_.n_outputs;
        const double* own = sums + static_cast<std::size_t>(code[0]) * n;
        if (target_.n_outputs == 1) {
            if (n < kWide) return add_weighted(part.weight, own, n, part.out);
            return add_columns(part, [own](std::size_t j) { return own[j]; });
        }
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
        if (n_columns == 1 && n < kWide) return add_polynomial(part.weight, y[0], sums, n, part.out);
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
