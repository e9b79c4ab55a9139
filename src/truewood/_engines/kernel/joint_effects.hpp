// Joint effects of pairs of features: predictions in which splits on a feature send a row both ways. No Python here.
//
// For a leaf of value v, let a_q be 1 if a row agrees with all splits on feature q above the leaf and 0 otherwise, and
// w_q the product of the shares of training weight along these splits. If splits on the features S send a row both
// ways, the prediction is the sum over leaves of v prod_{q in S} w_q prod_{q not in S} a_q. Hence the joint effect of j
// and k, f - P_j f - P_k f + P_jk f, is the sum over leaves of v (a_j - w_j) (a_k - w_k) prod_{other q} a_q, and only
// leaves that disagree with at most two features of the row matter. The numpy engine does the same operations in the
// same order, so that both agree bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "threads.hpp"
#include "tree.hpp"

namespace truewood {

// The pairs of a call, and where to add their effects: arrays of (row, place, column).
struct JointEffects {
    const std::int32_t* feature_of;  // feature of each column; negative if no pair contains it
    const std::int32_t* pair_of;     // number of each pair, (feature, feature); negative if it is not asked for
    std::size_t n_features, n_pairs, n_columns;
    double *prediction, *main, *joint;
};

// One tree, by place: the share of its parent's training weight that a node holds, and the values of leaves.
struct JointTree {
    std::vector<double> share, value;  // `value` has n_values entries per place
    std::size_t n_values = 0;
    std::size_t column = 0;  // of the first value
};

template <bool HasMissing, bool HasCategories, class Matrix>
class JointWalk {
public:
    JointWalk(const PackedTree<typename Matrix::Value>& packed, const Matrix& matrix, const JointTree& tree,
              const JointEffects& out)
        : packed_(packed), matrix_(matrix), tree_(tree), out_(out), place_of_(out.n_features, -1) {}

    // Adds the effects of some rows.
    void run(const std::int64_t* rows, std::size_t n, InterruptPoller& poller) {
        entries_.clear();
        for (std::size_t i = 0; i < n; ++i) entries_.push_back({rows[i], -1, false});
        visit(0, 0, n, poller);
    }

private:
    // A row, and the feature that disagrees with it on the path to the current node. Rows that disagree with two
    // features leave the list and descend alone.
    struct Entry {
        std::int64_t row;
        std::int32_t feature;  // -1 if none
        bool goes_left;
    };
    // A feature on the path to the current node, with the product of its shares.
    struct OnPath {
        std::int32_t feature;
        double share;
    };
    struct Term {
        std::size_t place;
        double factor;
    };

    const PackedTree<typename Matrix::Value>& packed_;
    const Matrix& matrix_;
    const JointTree& tree_;
    const JointEffects& out_;
    std::vector<std::int32_t> place_of_;  // position of each feature on the path, -1 if it is not there
    std::vector<OnPath> path_;
    std::vector<Entry> entries_;  // rows at the nodes on the path, one range after the other
    std::vector<Term> pairs_, mains_;

    // Depth is bounded by the number of nodes; trees of depth 10,000 need about a megabyte of stack.
    void visit(std::int32_t node, std::size_t begin, std::size_t end, InterruptPoller& poller) {
        poller.count(static_cast<std::int64_t>(end - begin) + 1);
        if (packed_.is_leaf(node)) {
            add_leaf(node, begin, end);
            return;
        }
        const std::int32_t column = packed_.feature(node), left = packed_.structure().left[node];
        const std::int32_t feature = out_.feature_of[column];
        for (std::size_t k = begin; k < end; ++k) {
            const auto x = matrix_.row(entries_[k].row)[column];
            entries_[k].goes_left = packed_.template next<HasMissing, HasCategories>(node, x) == left;
        }
        for (const std::int32_t child : {left, left + 1}) {
            const std::size_t first = entries_.size();
            for (std::size_t k = begin; k < end; ++k) {
                Entry entry = entries_[k];
                if (entry.goes_left == (child == left) || disagree(entry, feature, child, poller)) {
                    entries_.push_back(entry);
                }
            }
            if (entries_.size() > first) {
                const double before = descend(feature, tree_.share[child]);
                visit(child, first, entries_.size(), poller);
                ascend(feature, before);
            }
            entries_.resize(first);
        }
    }

    // Notes that a row disagrees with a feature at a child; returns whether it stays in the list.
    bool disagree(Entry& entry, std::int32_t feature, std::int32_t child, InterruptPoller& poller) {
        if (feature < 0) return false;
        if (entry.feature == feature) return true;
        if (entry.feature < 0) {
            entry.feature = feature;
            return true;
        }
        const std::int32_t number = pair(entry.feature, feature);
        if (number < 0) return false;
        const std::int32_t place = place_of_[feature];
        const double share = tree_.share[child], other = place < 0 ? share : path_[place].share * share;
        Descent descent{{entry.feature, path_[place_of_[entry.feature]].share},
                        {feature, other},
                        static_cast<std::size_t>(entry.row) * out_.n_pairs + static_cast<std::size_t>(number),
                        0};
        descend_alone(child, matrix_.row(entry.row), descent);
        poller.count(descent.n_steps);
        return false;
    }

    // A row that disagrees with two features.
    struct Descent {
        OnPath first, second;
        std::size_t place;  // of its joint effect
        std::int64_t n_steps;
    };

    // Adds the leaves below a node for a row that disagrees with two features: splits on these lead both ways.
    template <class Row>
    void descend_alone(std::int32_t node, const Row& row, Descent& descent) {
        while (!packed_.is_leaf(node)) {
            ++descent.n_steps;
            const std::int32_t column = packed_.feature(node), feature = out_.feature_of[column];
            OnPath* const own = feature == descent.first.feature    ? &descent.first
                                : feature == descent.second.feature ? &descent.second
                                                                    : nullptr;
            if (own == nullptr) {
                node = packed_.template next<HasMissing, HasCategories>(node, row[column]);
                continue;
            }
            const std::int32_t left = packed_.structure().left[node];
            const double before = own->share;
            for (const std::int32_t child : {left, left + 1}) {
                own->share = before * tree_.share[child];
                descend_alone(child, row, descent);
            }
            own->share = before;
            return;
        }
        const double* value = tree_.value.data() + static_cast<std::size_t>(node) * tree_.n_values;
        add(out_.joint, descent.place, descent.first.share * descent.second.share, value);
    }

    std::int32_t pair(std::int32_t j, std::int32_t k) const {
        return out_.pair_of[static_cast<std::size_t>(j) * out_.n_features + static_cast<std::size_t>(k)];
    }

    double descend(std::int32_t feature, double share) {
        if (feature < 0) return 0.0;
        std::int32_t& place = place_of_[feature];
        if (place < 0) {
            place = static_cast<std::int32_t>(path_.size());
            path_.push_back({feature, share});
            return -1.0;
        }
        const double before = path_[place].share;
        path_[place].share = before * share;
        return before;
    }

    void ascend(std::int32_t feature, double before) {
        if (feature < 0) return;
        if (before < 0) {
            path_.pop_back();
            place_of_[feature] = -1;
        } else {
            path_[place_of_[feature]].share = before;
        }
    }

    void add_leaf(std::int32_t node, std::size_t begin, std::size_t end) {
        const double* value = tree_.value.data() + static_cast<std::size_t>(node) * tree_.n_values;
        bool is_listed = false;
        for (std::size_t k = begin; k < end; ++k) {
            const Entry& entry = entries_[k];
            const auto row = static_cast<std::size_t>(entry.row);
            if (entry.feature < 0) {
                if (!is_listed) list_terms();
                is_listed = true;
                add(out_.prediction, row, 1.0, value);
                for (const Term& term : mains_) add(out_.main, row * out_.n_features + term.place, term.factor, value);
                for (const Term& term : pairs_) add(out_.joint, row * out_.n_pairs + term.place, term.factor, value);
                continue;
            }
            const double own = path_[place_of_[entry.feature]].share;
            add(out_.main, row * out_.n_features + static_cast<std::size_t>(entry.feature), -own, value);
            const std::int32_t* numbers = out_.pair_of + static_cast<std::size_t>(entry.feature) * out_.n_features;
            for (const OnPath& other : path_) {
                const std::int32_t number = numbers[other.feature];  // -1 for the feature itself
                if (number < 0) continue;
                const std::size_t place = row * out_.n_pairs + static_cast<std::size_t>(number);
                add(out_.joint, place, -(own * (1.0 - other.share)), value);
            }
        }
    }

    // Lists what a leaf adds for rows that agree with all splits above it.
    void list_terms() {
        mains_.clear();
        pairs_.clear();
        for (std::size_t b = 0; b < path_.size(); ++b) {
            const double of_b = 1.0 - path_[b].share;
            mains_.push_back({static_cast<std::size_t>(path_[b].feature), of_b});
            for (std::size_t a = 0; a < b; ++a) {
                const std::int32_t number = pair(path_[a].feature, path_[b].feature);
                if (number >= 0) pairs_.push_back({static_cast<std::size_t>(number), (1.0 - path_[a].share) * of_b});
            }
        }
    }

    void add(double* out, std::size_t place, double factor, const double* value) {
        double* into = out + place * out_.n_columns + tree_.column;
        for (std::size_t c = 0; c < tree_.n_values; ++c) into[c] += factor * value[c];
    }
};

}  // namespace truewood
