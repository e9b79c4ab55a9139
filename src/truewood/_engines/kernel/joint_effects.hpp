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

    // A stack of lists. A split replaces the list on top by that of the right child, and adds that of the left child.
    class Lists {
    public:
        // Both children's lists while a split fills them. Items are written before they are counted, which avoids
        // branches; the right child's items overwrite those that have been read.
        struct Split {
            const Item* from;
            Item *right, *left;
            void put(Item item, bool is_left, bool is_right) {
                *left = item;
                left += is_left;
                *right = item;
                right += is_right;
            }
        };
        // Starts to split the last n items; each child receives at most `most`.
        Split open(std::size_t n, std::size_t most) {
            begin_ = size_ - n;
            most_ = most;
            if (items_.size() < begin_ + 2 * most + 2) items_.resize(2 * (begin_ + 2 * most + 2));
            Item* const first = items_.data() + begin_;
            return {first, first, first + most + 1};
        }
        void close(const Split& split) {
            Item *const right = items_.data() + begin_, *const left = right + most_ + 1;
            n_right_ = static_cast<std::size_t>(split.right - right);
            n_left_ = static_cast<std::size_t>(split.left - left);
            std::copy(left, left + n_left_, split.right);
            size_ = begin_ + n_right_ + n_left_;
        }
        std::size_t n_left() const { return n_left_; }
        std::size_t n_right() const { return n_right_; }

        // Removes the last n items, and returns the first of these.
        const Item* take(std::size_t n) {
            size_ -= n;
            return items_.data() + size_;
        }
        // Makes space for a single list of n items.
        Item* assign(std::size_t n) {
            items_.resize(std::max(items_.size(), n));
            size_ = n;
            return items_.data();
        }

    private:
        std::vector<Item> items_;
        std::size_t size_ = 0, begin_ = 0, most_ = 0, n_left_ = 0, n_right_ = 0;
    };

    // A node to visit, the number of splits above it, and the lengths of its lists, which are the last ones.
    struct Pending {
        std::int32_t node;
        std::size_t depth, n_agree, n_one, n_two;
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
        std::size_t place;
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
        scratch_.one.assign(0);
        scratch_.two.assign(0);
        scratch_.pending.assign(1, {0, 0, n, 0, 0});
        while (!scratch_.pending.empty()) {
            const JointScratch::Pending at = scratch_.pending.back();
            scratch_.pending.pop_back();
            poller.count(static_cast<std::int64_t>(at.n_agree + at.n_one + at.n_two) + 1);
            enter(at);
            if (packed_.is_leaf(at.node)) add_leaf(at);
            else split(at);
        }
    }

private:
    using Item = JointScratch::Item;
    static constexpr std::uint16_t kNowhere = JointScratch::kNowhere;

    const PackedTree<typename Matrix::Value>& packed_;
    const Matrix& matrix_;
    const JointTree& tree_;
    const JointEffects& out_;
    JointScratch& scratch_;
    std::int64_t first_ = 0;

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
        const std::int32_t above = packed_.structure().parent[static_cast<std::size_t>(at.node)];
        const std::int32_t feature = out_.feature_of[packed_.feature(above)];
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
        auto two = scratch_.two.open(at.n_two, at.n_two + at.n_one);
        for (const Item *next = two.from, *end = next + at.n_two; next != end; ++next) {
            const Item item = *next;
            const bool is_left = goes_left(item), is_own = (item.first() == own) | (item.second() == own);
            two.put(item, is_left | is_own, !is_left | is_own);
        }
        auto one = scratch_.one.open(at.n_one, at.n_one + at.n_agree);
        if (feature >= 0 && out_.n_pairs > 0) {
            const std::int32_t* numbers = out_.pair_of + static_cast<std::size_t>(feature) * out_.n_features;
            for (const Item *next = one.from, *end = next + at.n_one; next != end; ++next) {
                const Item item = *next;
                const bool is_left = goes_left(item), is_own = item.first() == own;
                one.put(item, is_left | is_own, !is_left | is_own);
                const bool is_asked = numbers[scratch_.path[item.first()].feature] >= 0;  // never with itself
                two.put(Item(item.row(), item.first(), own), !is_left & is_asked, is_left & is_asked);
            }
        } else {
            for (const Item *next = one.from, *end = next + at.n_one; next != end; ++next) {
                const Item item = *next;
                const bool is_left = goes_left(item), is_own = item.first() == own;
                one.put(item, is_left | is_own, !is_left | is_own);
            }
        }
        auto agree = scratch_.agree.open(at.n_agree, at.n_agree);
        for (const Item *next = agree.from, *end = next + at.n_agree; next != end; ++next) {
            const Item item = *next;
            const bool is_left = goes_left(item), may_disagree = feature >= 0;
            agree.put(item, is_left, !is_left);
            one.put(Item(item.row(), own, kNowhere), !is_left & may_disagree, is_left & may_disagree);
        }
        scratch_.two.close(two);
        scratch_.one.close(one);
        scratch_.agree.close(agree);
        push({child + 1, at.depth + 1, scratch_.agree.n_right(), scratch_.one.n_right(), scratch_.two.n_right()});
        push({child, at.depth + 1, scratch_.agree.n_left(), scratch_.one.n_left(), scratch_.two.n_left()});
    }

    void push(const JointScratch::Pending& node) {
        if (node.n_agree + node.n_one + node.n_two > 0) scratch_.pending.push_back(node);
    }

    std::int32_t pair(std::int32_t j, std::int32_t k) const {
        return out_.pair_of[static_cast<std::size_t>(j) * out_.n_features + static_cast<std::size_t>(k)];
    }
    std::size_t number_row(Item item) const { return static_cast<std::size_t>(first_ + item.row()); }

    void add_leaf(const JointScratch::Pending& at) {
        const double* value = tree_.value.data() + static_cast<std::size_t>(at.node) * tree_.n_values;
        const std::vector<JointScratch::OnPath>& path = scratch_.path;
        const Item* two = scratch_.two.take(at.n_two);
        for (std::size_t i = 0; i < at.n_two; ++i) {
            const JointScratch::OnPath &j = path[two[i].first()], &k = path[two[i].second()];
            const auto number = static_cast<std::size_t>(pair(j.feature, k.feature));
            add(out_.joint, number_row(two[i]) * out_.n_pairs + number, j.share * k.share, value);
        }
        const Item* one = scratch_.one.take(at.n_one);
        for (std::size_t i = 0; i < at.n_one; ++i) {
            const std::size_t row = number_row(one[i]);
            const JointScratch::OnPath own = path[one[i].first()];
            const auto feature = static_cast<std::size_t>(own.feature);
            add(out_.main, row * out_.n_features + feature, -own.share, value);
            if (out_.n_pairs == 0) continue;
            const std::int32_t* numbers = out_.pair_of + feature * out_.n_features;
            for (const JointScratch::OnPath& other : path) {
                const std::int32_t number = numbers[other.feature];  // -1 for the feature itself
                if (number < 0) continue;
                const std::size_t place = row * out_.n_pairs + static_cast<std::size_t>(number);
                add(out_.joint, place, -(own.share * (1.0 - other.share)), value);
            }
        }
        const Item* agree = scratch_.agree.take(at.n_agree);
        if (at.n_agree > 0) list_terms();
        for (std::size_t i = 0; i < at.n_agree; ++i) {
            const std::size_t row = number_row(agree[i]);
            add(out_.prediction, row, 1.0, value);
            for (const auto& term : scratch_.mains) {
                add(out_.main, row * out_.n_features + term.place, term.factor, value);
            }
            for (const auto& term : scratch_.pairs) {
                add(out_.joint, row * out_.n_pairs + term.place, term.factor, value);
            }
        }
    }

    // Lists what a leaf adds for rows that agree with all splits above it.
    void list_terms() {
        scratch_.mains.clear();
        scratch_.pairs.clear();
        for (std::size_t b = 0; b < scratch_.path.size(); ++b) {
            const auto [k, share] = scratch_.path[b];
            scratch_.mains.push_back({static_cast<std::size_t>(k), 1.0 - share});
            if (out_.n_pairs == 0) continue;
            for (std::size_t a = 0; a < b; ++a) {
                const auto [j, other] = scratch_.path[a];
                const std::int32_t number = pair(j, k);
                if (number < 0) continue;
                scratch_.pairs.push_back({static_cast<std::size_t>(number), (1.0 - other) * (1.0 - share)});
            }
        }
    }

    void add(double* out, std::size_t place, double factor, const double* value) {
        double* into = out + place * out_.n_columns + tree_.column;
        into[0] += factor * value[0];
        for (std::size_t c = 1; c < tree_.n_values; ++c) into[c] += factor * value[c];
    }
};

}  // namespace truewood
