// Joint effects of pairs of features: predictions in which splits on a feature send a row both ways. No Python here.
//
// For a leaf of value v, let a_q be 1 if a row agrees with all splits on feature q above the leaf and 0 otherwise, and
// w_q the product of the shares of training weight along these splits. If splits on the features S send a row both
// ways, the prediction is the sum over leaves of v prod_{q in S} w_q prod_{q not in S} a_q. Hence the joint effect of j
// and k, f - P_j f - P_k f + P_jk f, is the sum over leaves of v (a_j - w_j) (a_k - w_k) prod_{other q} a_q, and only
// leaves that disagree with at most two features of the row matter. The numpy engine does the same operations in the
// same order, so that both agree bit for bit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
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

// Memory of a thread that is used again from tree to tree.
struct JointScratch {
    // A row at a node, counted from the first row of the call, with up to two features that disagree with it on the
    // path to the node, by position on the path. In one number, which is fast to copy.
    class Item {
    public:
        Item() = default;
        Item(std::uint64_t row, std::uint64_t first, std::uint64_t second) : all_(row << 32 | second << 16 | first) {}
        std::uint32_t row() const { return static_cast<std::uint32_t>(all_ >> 32); }
        std::uint16_t first() const { return static_cast<std::uint16_t>(all_); }
        std::uint16_t second() const { return static_cast<std::uint16_t>(all_ >> 16); }

    private:
        std::uint64_t all_;
    };
    static constexpr std::uint16_t kNowhere = 0xffff;  // not a position on the path

    // A part of a stack of items.
    struct Part {
        std::size_t begin, n;
    };

    // A stack of lists. A split overwrites a list with that of the right child, and puts that of the left child, which
    // is visited first, above it.
    class Lists {
    public:
        // Both children's lists while a split fills them. Items are written before they are counted, which avoids
        // branches; the right child's items overwrite those that have been read.
        struct Split {
            const Item *from, *end;
            Item *right, *left;
            void put(Item item, bool is_left, bool is_right) {
                *left = item;
                left += is_left;
                *right = item;
                right += is_right;
            }
        };
        // Starts to split a part; each child receives at most `most` items.
        Split open(Part part, std::size_t most) {
            left_ = part.begin + most + 1;
            if (items_.size() < left_ + most + 1) items_.resize(2 * (left_ + most + 1));
            Item* const first = items_.data() + part.begin;
            return {first, first + part.n, first, items_.data() + left_};
        }
        Part right(Part part, const Split& split) const {
            return {part.begin, static_cast<std::size_t>(split.right - items_.data()) - part.begin};
        }
        Part left(const Split& split) const {
            return {left_, static_cast<std::size_t>(split.left - items_.data()) - left_};
        }
        const Item* at(Part part) const { return items_.data() + part.begin; }
        // Makes space for a single list of n items.
        Item* assign(std::size_t n) {
            items_.resize(std::max(items_.size(), n));
            return items_.data();
        }

    private:
        std::vector<Item> items_;
        std::size_t left_ = 0;
    };

    // A node to visit, the number of splits above it, the feature of the last one, and lists of rows.
    struct Pending {
        std::int32_t node, feature;
        std::size_t depth;
        Part agree, one, two;
    };
    // A feature on the path to the current node, with the product of its shares.
    struct OnPath {
        std::int32_t feature;
        double share;
    };
    struct Step {
        std::int32_t feature;
        double before;  // negative if the step puts the feature on the path
    };
    struct Term {
        std::int64_t place;
        double factor;
    };

    Lists agree, one, two;  // rows that disagree with no, one and two features
    std::vector<Pending> pending;
    std::vector<std::int32_t> place_of;  // position of each feature on the path, -1 if it is not there
    std::vector<OnPath> path;
    std::vector<Step> steps;  // one per split above the current node
    std::vector<Term> pairs, mains;
};

// Sends all rows of a list through the tree together, node by node.
template <bool HasMissing, bool HasCategories, class Matrix>
class JointWalk {
public:
    JointWalk(const PackedTree<typename Matrix::Value>& packed, const Matrix& matrix, const JointTree& tree,
              const JointEffects& out, JointScratch& scratch)
        : packed_(packed), matrix_(matrix), tree_(tree), out_(out), scratch_(scratch) {}

    // Adds the effects of n rows, which are fewer than 2^32 apart.
    void run(const std::int64_t* rows, std::size_t n, InterruptPoller& poller) {
        first_ = rows[0];
        scratch_.place_of.assign(out_.n_features, -1);
        scratch_.path.clear();
        scratch_.steps.clear();
        Item* const all = scratch_.agree.assign(n);
        for (std::size_t i = 0; i < n; ++i) {
            all[i] = Item(static_cast<std::uint64_t>(rows[i] - first_), kNowhere, kNowhere);
        }
        scratch_.pending.assign(1, {0, -1, 0, {0, n}, {0, 0}, {0, 0}});
        while (!scratch_.pending.empty()) {
            const JointScratch::Pending at = scratch_.pending.back();
            scratch_.pending.pop_back();
            poller.count(static_cast<std::int64_t>(at.agree.n + at.one.n + at.two.n) + 1);
            enter(at);
            if (packed_.is_leaf(at.node)) add_leaf(at);
            else split(at);
        }
    }

private:
    using Item = JointScratch::Item;
    using Term = JointScratch::Term;
    static constexpr std::uint16_t kNowhere = JointScratch::kNowhere;

    const PackedTree<typename Matrix::Value>& packed_;
    const Matrix& matrix_;
    const JointTree& tree_;
    const JointEffects& out_;
    JointScratch& scratch_;
    std::int64_t first_ = 0;
    std::size_t n_pairs_ = 0;

    // Leaves the nodes that are not above a node, and puts the split above it on the path.
    void enter(const JointScratch::Pending& at) {
        if (at.depth == 0) return;
        std::vector<JointScratch::OnPath>& path = scratch_.path;
        while (scratch_.steps.size() >= at.depth) {
            const JointScratch::Step step = scratch_.steps.back();
            scratch_.steps.pop_back();
            if (step.feature < 0) continue;
            std::int32_t& place = scratch_.place_of[static_cast<std::size_t>(step.feature)];
            if (step.before < 0) {
                path.pop_back();
                place = -1;
            } else {
                path[static_cast<std::size_t>(place)].share = step.before;
            }
        }
        const std::int32_t feature = at.feature;
        const double share = tree_.share[static_cast<std::size_t>(at.node)];
        double before = -1.0;
        if (feature >= 0) {
            std::int32_t& place = scratch_.place_of[static_cast<std::size_t>(feature)];
            if (place < 0) {
                if (path.size() == kNowhere - 1) throw BrokenTree("paths must split on fewer than 65,534 features.");
                place = static_cast<std::int32_t>(path.size());
                path.push_back({feature, share});
            } else {
                before = path[static_cast<std::size_t>(place)].share;
                path[static_cast<std::size_t>(place)].share = before * share;
            }
        }
        scratch_.steps.push_back({feature, before});
    }

    // Sends rows to the children: to the one that they choose, and to the other one as long as at most two features
    // disagree with them there.
    void split(const JointScratch::Pending& at) {
        const std::int32_t column = packed_.feature(at.node), feature = out_.feature_of[column];
        const std::int32_t child = packed_.structure().left[static_cast<std::size_t>(at.node)];
        const auto test = packed_.template test<HasMissing, HasCategories>(at.node);
        const auto goes_left = [matrix = matrix_, first = first_, test, column](Item item) {
            return test(matrix.row(first + item.row())[column]);
        };
        // Position of the feature on the paths below; items without it hold another number.
        std::uint16_t own = kNowhere - 1;
        if (feature >= 0) {
            const std::int32_t place = scratch_.place_of[static_cast<std::size_t>(feature)];
            own = static_cast<std::uint16_t>(place < 0 ? scratch_.path.size() : static_cast<std::size_t>(place));
        }
        auto two = scratch_.two.open(at.two, at.two.n + at.one.n);
        for (; two.from != two.end; ++two.from) {
            const Item item = *two.from;
            const bool is_left = goes_left(item), is_own = (item.first() == own) | (item.second() == own);
            two.put(item, is_left | is_own, !is_left | is_own);
        }
        auto one = scratch_.one.open(at.one, at.one.n + at.agree.n);
        if (feature >= 0 && out_.n_pairs > 0) {
            const std::int32_t* numbers = out_.pair_of + static_cast<std::size_t>(feature) * out_.n_features;
            for (; one.from != one.end; ++one.from) {
                const Item item = *one.from;
                const bool is_left = goes_left(item), is_own = item.first() == own;
                one.put(item, is_left | is_own, !is_left | is_own);
                const bool is_asked = numbers[scratch_.path[item.first()].feature] >= 0;  // never with itself
                two.put(Item(item.row(), item.first(), own), !is_left & is_asked, is_left & is_asked);
            }
        } else {
            for (; one.from != one.end; ++one.from) {
                const Item item = *one.from;
                const bool is_left = goes_left(item), is_own = item.first() == own;
                one.put(item, is_left | is_own, !is_left | is_own);
            }
        }
        auto agree = scratch_.agree.open(at.agree, at.agree.n);
        for (; agree.from != agree.end; ++agree.from) {
            const Item item = *agree.from;
            const bool is_left = goes_left(item), may_disagree = feature >= 0;
            agree.put(item, is_left, !is_left);
            one.put(Item(item.row(), own, kNowhere), !is_left & may_disagree, is_left & may_disagree);
        }
        push({child + 1, feature, at.depth + 1, scratch_.agree.right(at.agree, agree), scratch_.one.right(at.one, one),
              scratch_.two.right(at.two, two)});
        push(
            {child, feature, at.depth + 1, scratch_.agree.left(agree), scratch_.one.left(one), scratch_.two.left(two)});
    }

    void push(const JointScratch::Pending& node) {
        if (node.agree.n + node.one.n + node.two.n > 0) scratch_.pending.push_back(node);
    }

    std::int32_t pair(std::int32_t j, std::int32_t k) const {
        return out_.pair_of[static_cast<std::size_t>(j) * out_.n_features + static_cast<std::size_t>(k)];
    }
    std::size_t number_row(Item item) const { return static_cast<std::size_t>(first_ + item.row()); }

    void add_leaf(const JointScratch::Pending& at) {
        const std::vector<JointScratch::OnPath>& path = scratch_.path;
        const double* value = tree_.value.data() + static_cast<std::size_t>(at.node) * tree_.n_values;
        const Item* two = scratch_.two.at(at.two);
        for (std::size_t i = 0; i < at.two.n; ++i) {
            const JointScratch::OnPath &j = path[two[i].first()], &k = path[two[i].second()];
            const auto number = static_cast<std::size_t>(pair(j.feature, k.feature));
            add(out_.joint, number_row(two[i]) * out_.n_pairs + number, j.share * k.share, value);
        }
        const Item* one = scratch_.one.at(at.one);
        if (scratch_.pairs.size() < path.size()) scratch_.pairs.resize(path.size());
        for (std::size_t i = 0; i < at.one.n; ++i) {
            const std::uint16_t own = one[i].first();
            if (i == 0 || own != one[i - 1].first()) list_pairs_of(own);
            const std::size_t row = number_row(one[i]);
            add(out_.main, row * out_.n_features + static_cast<std::size_t>(path[own].feature), -path[own].share,
                value);
            add_terms(out_.joint, row * out_.n_pairs, scratch_.pairs.data(), n_pairs_, value);
        }
        const Item* agree = scratch_.agree.at(at.agree);
        if (at.agree.n > 0) list_terms();
        for (std::size_t i = 0; i < at.agree.n; ++i) {
            const std::size_t row = number_row(agree[i]);
            add(out_.prediction, row, 1.0, value);
            add_terms(out_.main, row * out_.n_features, scratch_.mains.data(), scratch_.mains.size(), value);
            add_terms(out_.joint, row * out_.n_pairs, scratch_.pairs.data(), n_pairs_, value);
        }
    }

    // Lists what a leaf adds to joint effects for rows that disagree with one feature. Terms are written before they
    // are counted, which avoids branches.
    void list_pairs_of(std::uint16_t own) {
        const auto [feature, share] = scratch_.path[own];
        Term* term = scratch_.pairs.data();
        if (out_.n_pairs > 0) {
            const std::int32_t* numbers = out_.pair_of + static_cast<std::size_t>(feature) * out_.n_features;
            for (const JointScratch::OnPath& other : scratch_.path) {
                const std::int32_t number = numbers[other.feature];  // -1 for the feature itself
                *term = {number, -(share * (1.0 - other.share))};
                term += number >= 0;
            }
        }
        n_pairs_ = static_cast<std::size_t>(term - scratch_.pairs.data());
    }

    // Lists what a leaf adds for rows that agree with all splits above it.
    void list_terms() {
        const std::size_t n = scratch_.path.size();
        scratch_.mains.resize(n);
        if (scratch_.pairs.size() < n * n) scratch_.pairs.resize(n * n);
        Term* term = scratch_.pairs.data();
        for (std::size_t b = 0; b < n; ++b) {
            const auto [k, share] = scratch_.path[b];
            scratch_.mains[b] = {k, 1.0 - share};
            if (out_.n_pairs == 0) continue;
            const std::int32_t* numbers = out_.pair_of + static_cast<std::size_t>(k) * out_.n_features;
            for (std::size_t a = 0; a < b; ++a) {
                const auto [j, other] = scratch_.path[a];
                *term = {numbers[j], (1.0 - other) * (1.0 - share)};
                term += numbers[j] >= 0;
            }
        }
        n_pairs_ = static_cast<std::size_t>(term - scratch_.pairs.data());
    }

    void add_terms(double* out, std::size_t first, const Term* terms, std::size_t n, const double* value) {
        if (tree_.n_values > 1) {
            for (std::size_t i = 0; i < n; ++i)
                add(out, first + static_cast<std::size_t>(terms[i].place), terms[i].factor, value);
            return;
        }
        const double only = value[0];
        const std::size_t n_columns = out_.n_columns;
        double* const into = out + first * n_columns + tree_.column;
        for (std::size_t i = 0; i < n; ++i)
            into[static_cast<std::size_t>(terms[i].place) * n_columns] += terms[i].factor * only;
    }

    void add(double* out, std::size_t place, double factor, const double* value) {
        double* into = out + place * out_.n_columns + tree_.column;
        into[0] += factor * value[0];
        for (std::size_t c = 1; c < tree_.n_values; ++c) into[c] += factor * value[c];
    }
};

}  // namespace truewood
