// One tree: as arrays in memory, and packed for walking. No Python here.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

namespace truewood {

// A tree is inconsistent and cannot be walked or scored.
struct BrokenTree : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

// A field of all nodes at any stride: integers of 1, 4 or 8 bytes, or doubles.
struct Field {
    const char* data = nullptr;
    std::ptrdiff_t stride = 0;
    std::size_t size = 0;

    std::int64_t integer(std::size_t i) const {
        if (size == 8) return load<std::int64_t>(i);
        if (size == 4) return load<std::int32_t>(i);
        return load<std::uint8_t>(i);
    }
    double number(std::size_t i) const { return load<double>(i); }

private:
    template <class T>
    T load(std::size_t i) const {
        T value;
        std::memcpy(&value, data + static_cast<std::ptrdiff_t>(i) * stride, sizeof(T));
        return value;
    }
};

// The arrays of a tree. Python may write to them at any time, so each number is read only once and checked then.
struct TreeArrays {
    std::size_t n_nodes = 0;
    Field feature, threshold, left, right, missing_left;
    std::int64_t first = 0;  // position of the root; positions of children count from the same start
    // Training weights and values; walking does not read them.
    Field weight, value;
    std::ptrdiff_t next_column = 0;  // bytes between the columns of a node's value
    // Splits on categories, if any: set s is bits[set_offset[s]] .. bits[set_offset[s + 1]].
    const std::int32_t* node_set = nullptr;  // -1 for a split on a threshold
    const std::int64_t* set_offset = nullptr;
    const std::uint32_t* bits = nullptr;
    std::size_t n_sets = 0, n_words = 0;

    bool has_categories() const { return node_set != nullptr; }
};

// Two of the 32 bits of a column number are flags.
constexpr std::size_t kMostFeatures = std::size_t{1} << 30;

// The largest float32 not above t: for a float32 x, x <= t and x <= floor_to_float(t) are equivalent.
inline float floor_to_float(double t) {
    if (t > std::numeric_limits<float>::max()) {
        return std::isinf(t) ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::max();
    }
    if (t < std::numeric_limits<float>::lowest()) return -std::numeric_limits<float>::infinity();
    float rounded = static_cast<float>(t);
    // The next float below has the next number in its bits. There is no branch, because half of the thresholds need it.
    std::int32_t bits;
    std::memcpy(&bits, &rounded, sizeof(bits));
    bits += (rounded > t) * (bits < 0 ? 1 : -1);
    std::memcpy(&rounded, &bits, sizeof(bits));
    return rounded;
}

// A threshold in the type that x is compared in.
template <class T>
T as_threshold(double t) {
    if constexpr (sizeof(T) == sizeof(double)) return t;
    else return floor_to_float(t);
}

// The nodes of a tree by place: parents precede their children, and siblings are neighbors.
struct Structure {
    std::vector<std::int32_t> place;    // place of each node, in the order of the arrays
    std::vector<std::int32_t> left;     // -1 at leaves; right is left + 1
    std::vector<std::int32_t> parent;   // -1 at the root
    std::vector<std::int32_t> feature;  // 0 at leaves

    std::size_t n_nodes() const { return place.size(); }
};

// One tree, packed for walking: 12 bytes per node (16 for doubles); the children of a leaf are the leaf itself.
template <class T>
class PackedTree {
public:
    struct Node {
        T threshold;
        std::uint32_t feature_and_missing;  // top bit: missing values go left
        std::int32_t left;                  // right is left + 1
    };
    static constexpr std::uint32_t kMissingLeft = 0x80000000u;

    // Parents precede their children in the arrays, so a single pass can assign places.
    void pack(const TreeArrays& tree, std::size_t n_features) {
        const std::size_t n = tree.n_nodes;
        if (n_features > kMostFeatures) throw BrokenTree("trees must have at most 2^30 features.");
        nodes_.resize(n);
        structure_.place.assign(n, -1);
        structure_.left.resize(n);
        structure_.parent.resize(n);
        structure_.feature.resize(n);
        sets_.clear();
        if (tree.has_categories()) sets_.assign(n, Set{nullptr, -1});
        structure_.place[0] = 0;
        structure_.parent[0] = -1;
        std::int32_t free_place = 1;
        for (std::size_t k = 0; k < n; ++k) {
            const std::int32_t place = structure_.place[k];
            if (place < 0) throw BrokenTree("nodes must come after their parent.");
            std::int64_t left = tree.left.integer(k), right = tree.right.integer(k);
            if (left < 0 && right < 0) {
                nodes_[place] = {std::numeric_limits<T>::infinity(), kMissingLeft, place};
                structure_.left[place] = -1;
                structure_.feature[place] = 0;
                continue;
            }
            left -= tree.first;
            right -= tree.first;
            const auto first = static_cast<std::int64_t>(k), end = static_cast<std::int64_t>(n);
            if (left <= first || left >= end || right <= first || right >= end || left == right ||
                structure_.place[left] >= 0 || structure_.place[right] >= 0) {
                throw BrokenTree("children must come after their parent and have no other parent.");
            }
            const std::int64_t feature = tree.feature.integer(k);
            const double threshold = tree.threshold.number(k);
            if (feature < 0 || feature >= static_cast<std::int64_t>(n_features) || std::isnan(threshold)) {
                throw BrokenTree("splits must have a feature that exists and a threshold that is not NaN.");
            }
            nodes_[place] = {as_threshold<T>(threshold),
                             static_cast<std::uint32_t>(feature) | (tree.missing_left.integer(k) ? kMissingLeft : 0u),
                             free_place};
            structure_.left[place] = free_place;
            structure_.feature[place] = static_cast<std::int32_t>(feature);
            if (tree.has_categories()) sets_[place] = find_set(tree, tree.node_set[k]);
            for (const std::int64_t child : {left, right}) {
                structure_.place[child] = free_place;
                structure_.parent[free_place++] = place;
            }
        }
    }

    const Structure& structure() const { return structure_; }
    std::int32_t feature(std::int32_t place) const {
        return static_cast<std::int32_t>(nodes_[place].feature_and_missing & ~kMissingLeft);
    }
    T threshold(std::int32_t place) const { return nodes_[place].threshold; }
    bool sends_missing_left(std::int32_t place) const { return nodes_[place].feature_and_missing & kMissingLeft; }
    bool is_leaf(std::int32_t place) const { return nodes_[place].left == place; }

    // Whether x goes left at a split: a copy of the split, which loops over rows keep in registers.
    template <bool HasMissing, bool HasCategories>
    auto test(std::int32_t place) const {
        const T threshold = nodes_[place].threshold;
        const bool missing_left = sends_missing_left(place);
        if constexpr (HasCategories) {
            const Set set = sets_[place];
            return [threshold, missing_left, set](T x) {
                if (HasMissing && std::isnan(x)) return missing_left;
                return set.n_words >= 0 ? set.holds(x) : !(x > threshold);
            };
        } else {
            return [threshold, missing_left](T x) {
                const bool is_left = !(x > threshold);
                return HasMissing && std::isnan(x) ? missing_left : is_left;
            };
        }
    }

    // The place that x leads to from a node. A leaf leads to itself, whatever x is.
    template <bool HasMissing, bool HasCategories>
    std::int32_t next(std::int32_t place, T x) const {
        const Node& node = nodes_[place];
        if constexpr (HasMissing) {
            if (std::isnan(x)) return node.left + !(node.feature_and_missing & kMissingLeft);
        }
        if constexpr (HasCategories) {
            if (sets_[place].n_words >= 0) return node.left + !sets_[place].holds(x);
        }
        return node.left + (x > node.threshold);  // NaN > threshold is false, so that a leaf keeps NaN
    }

private:
    struct Set {
        const std::uint32_t* bits;
        std::int64_t n_words;  // -1 for a split on a threshold
        bool holds(T x) const {
            if (!(x >= 0 && x < static_cast<double>(n_words * 32))) return false;
            const auto category = static_cast<std::int64_t>(x);
            return (bits[category / 32] >> (category % 32)) & 1u;
        }
    };
    static Set find_set(const TreeArrays& tree, std::int32_t number) {
        if (number < 0) return {nullptr, -1};
        if (static_cast<std::size_t>(number) >= tree.n_sets)
            throw BrokenTree("splits on categories must refer to a set that exists.");
        const std::int64_t first = tree.set_offset[number], end = tree.set_offset[number + 1];
        if (first < 0 || end < first || static_cast<std::size_t>(end) > tree.n_words) {
            throw BrokenTree("sets of categories must not end beyond their bits.");
        }
        return {tree.bits + first, end - first};
    }

    std::vector<Node> nodes_;
    std::vector<Set> sets_;
    Structure structure_;
};

}  // namespace truewood
