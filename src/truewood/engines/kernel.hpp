// Routes rows down trees and adds them up at the nodes. No Python here.
//
// Every sum is taken in row order, and a parent's sum is its left child's plus its right child's. The numpy engine does
// the same additions in the same order, so both give the same bits.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace truewood {

// The flat arrays of a TreeEnsemble. Children are positions in these arrays; a leaf's children are -1.
struct Trees {
    const std::int32_t* feature;
    const double* threshold;
    const std::int32_t* left;
    const std::int32_t* right;
    const bool* missing_left;
    const std::int64_t* offset;  // tree t owns the nodes offset[t] .. offset[t + 1]
    std::size_t n_trees;
    // Splits on categories, null where there are none: set s is bits[set_offset[s]] .. bits[set_offset[s + 1]].
    const std::int32_t* node_set;  // -1: a threshold decides
    const std::int64_t* set_offset;
    const std::uint32_t* bits;
};

// The rows that score each tree: tree t takes index[offset[t]] .. index[offset[t + 1]].
struct Rows {
    const std::int64_t* index;
    const std::int64_t* offset;
};

// Calls `pause` now and then during long work. It may throw; what was to be filled is then filled in part.
template <class Pause>
class Pacer {
public:
    explicit Pacer(Pause pause) : pause_(pause) {}
    // Says that rows have taken some steps.
    void count(std::int64_t n_steps) {
        n_steps_ += n_steps;
        if (n_steps_ < kStepsBetween) return;
        n_steps_ = 0;
        pause_();
    }

private:
    static constexpr std::int64_t kStepsBetween = 1 << 22;  // some hundredths of a second
    Pause pause_;
    std::int64_t n_steps_ = 0;
};

inline void prefetch_line(const void* address) {
#if defined(__GNUC__) || defined(__clang__)
    __builtin_prefetch(address);
#else
    (void)address;
#endif
}

// A row-major matrix.
template <class T>
struct DenseMatrix {
    using Value = T;
    const T* data;
    std::size_t n_features;
    struct Row {
        const T* values;
        T operator[](std::int32_t feature) const { return values[feature]; }
    };
    Row row(std::int64_t i) const { return {data + static_cast<std::size_t>(i) * n_features}; }
    void prefetch(std::int64_t i) const {
        // The first two cache lines: all of a narrow row; a wide one is not read from end to end.
        prefetch_line(row(i).values);
        prefetch_line(row(i).values + 64 / sizeof(T));
    }
};

// A CSR matrix whose column indices are sorted within each row. What is not stored is `fill`.
template <class T>
struct SparseMatrix {
    using Value = T;
    const T* data;
    const std::int32_t* indices;
    const std::int64_t* indptr;
    T fill;
    struct Row {
        const T* values;
        const std::int32_t* columns;
        std::size_t n_stored;
        T fill;
        T operator[](std::int32_t feature) const {
            std::size_t low = 0, high = n_stored;
            while (low < high) {
                const std::size_t middle = (low + high) / 2;
                if (columns[middle] < feature) low = middle + 1;
                else high = middle;
            }
            return low < n_stored && columns[low] == feature ? values[low] : fill;
        }
    };
    void prefetch(std::int64_t i) const { prefetch_line(data + indptr[i]); }
    Row row(std::int64_t i) const {
        const std::int64_t start = indptr[i];
        return {data + start, indices + start, static_cast<std::size_t>(indptr[i + 1] - start), fill};
    }
};

// The largest float32 that is not above t: for a float32 x, x <= t and x <= floor_to_float(t) are the same question.
inline float floor_to_float(double t) {
    if (t > std::numeric_limits<float>::max()) {
        return std::isinf(t) ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::max();
    }
    if (t < std::numeric_limits<float>::lowest()) return -std::numeric_limits<float>::infinity();
    const float rounded = static_cast<float>(t);
    return rounded <= t ? rounded : std::nextafterf(rounded, -std::numeric_limits<float>::infinity());
}

// A threshold in the type that x is compared in.
template <class T>
T as_threshold(double t) {
    if constexpr (sizeof(T) == sizeof(double)) return t;
    else return floor_to_float(t);
}

// One tree, laid out for walking: 12 bytes a node (16 for doubles), siblings are neighbours, a leaf leads to itself.
template <class T>
class PackedTree {
public:
    struct Node {
        T threshold;
        std::uint32_t feature_and_missing;  // the top bit: a missing value goes left
        std::int32_t left;                  // right is left + 1
    };
    static constexpr std::uint32_t kMissingLeft = 0x80000000u;

    // Nodes are taken in the order of the arrays, in which parents come first, so each is given a place by its parent.
    void pack(const Trees& trees, std::size_t tree) {
        const std::int32_t root = static_cast<std::int32_t>(trees.offset[tree]);
        const std::size_t n_nodes = static_cast<std::size_t>(trees.offset[tree + 1] - trees.offset[tree]);
        nodes_.resize(n_nodes);
        original_.resize(n_nodes);
        place_.resize(n_nodes);
        if (trees.node_set) sets_.assign(n_nodes, Set{nullptr, -1});
        place_[0] = 0;
        std::int32_t free_place = 1;
        for (std::size_t k = 0; k < n_nodes; ++k) {
            const std::int32_t m = root + static_cast<std::int32_t>(k);
            const std::int32_t place = place_[k];
            original_[place] = m;
            if (trees.left[m] < 0) {
                nodes_[place] = {std::numeric_limits<T>::infinity(), kMissingLeft, place};
                continue;
            }
            nodes_[place] = {as_threshold<T>(trees.threshold[m]),
                             static_cast<std::uint32_t>(trees.feature[m]) | (trees.missing_left[m] ? kMissingLeft : 0u),
                             free_place};
            if (trees.node_set && trees.node_set[m] >= 0) {
                const std::int64_t* bounds = trees.set_offset + trees.node_set[m];
                sets_[place] = {trees.bits + bounds[0], bounds[1] - bounds[0]};
            }
            place_[trees.left[m] - root] = free_place++;
            place_[trees.right[m] - root] = free_place++;
        }
    }

    std::int32_t original(std::int32_t place) const { return original_[place]; }
    std::int32_t feature(std::int32_t place) const {
        return static_cast<std::int32_t>(nodes_[place].feature_and_missing & ~kMissingLeft);
    }
    bool is_leaf(std::int32_t place) const { return nodes_[place].left == place; }

    // The place that value x leads to from here. At a leaf that is the leaf itself, whatever x is.
    template <bool HasMissing, bool HasCategories>
    std::int32_t next(std::int32_t place, T x) const {
        const Node& node = nodes_[place];
        if constexpr (HasMissing) {
            if (std::isnan(x)) return node.left + !(node.feature_and_missing & kMissingLeft);
        }
        if constexpr (HasCategories) {
            if (sets_[place].n_words >= 0) return node.left + !sets_[place].holds(x);
        }
        return node.left + (x > node.threshold);  // false for NaN, so that a leaf keeps it
    }

private:
    struct Set {
        const std::uint32_t* bits;
        std::int64_t n_words;  // -1: a threshold decides
        bool holds(T x) const {
            if (!(x >= 0 && x < static_cast<double>(n_words * 32))) return false;
            const auto category = static_cast<std::int64_t>(x);
            return (bits[category / 32] >> (category % 32)) & 1u;
        }
    };
    std::vector<Node> nodes_;
    std::vector<Set> sets_;
    std::vector<std::int32_t> original_;
    std::vector<std::int32_t> place_;
};

// Leaves of n rows. Many rows are under way at a time, so that the processor has other rows to work on while one waits
// for memory. After every few steps, rows that have reached their leaf make room for the next ones.
template <bool HasMissing, bool HasCategories, class Matrix, class Pause>
void find_leaves(const PackedTree<typename Matrix::Value>& tree, const Matrix& matrix, const std::int64_t* rows,
                 std::size_t n, Pacer<Pause>& pacer, std::int32_t* leaves) {
    constexpr std::size_t kLanes = 16;
    constexpr int kSteps = 6;
    if (n == 0) return;
    typename Matrix::Row row[kLanes];
    std::int32_t place[kLanes];
    std::size_t number[kLanes];  // n or more: the lane has no row of its own and idles
    std::size_t n_started = kLanes;
    for (std::size_t k = 0; k < kLanes; ++k) {
        number[k] = k;
        row[k] = matrix.row(rows[k < n ? k : 0]);
        place[k] = 0;
    }
    for (std::size_t n_done = 0; n_done < n;) {
        pacer.count(kLanes * kSteps);
        for (int step = 0; step < kSteps; ++step) {
            for (std::size_t k = 0; k < kLanes; ++k) {
                place[k] = tree.template next<HasMissing, HasCategories>(place[k], row[k][tree.feature(place[k])]);
            }
        }
        for (std::size_t k = 0; k < kLanes; ++k) {
            if (number[k] >= n || !tree.is_leaf(place[k])) continue;
            leaves[number[k]] = tree.original(place[k]);
            ++n_done;
            number[k] = n_started;
            if (n_started >= n) continue;
            row[k] = matrix.row(rows[n_started++]);
            place[k] = 0;
            if (n_started + kLanes < n) matrix.prefetch(rows[n_started + kLanes]);
        }
    }
}

template <bool HasMissing, bool HasCategories, class Matrix, class Pause>
void find_all_leaves(const Trees& trees, const Matrix& matrix, const Rows& rows, Pacer<Pause> pacer,
                     std::int32_t* leaves) {
    PackedTree<typename Matrix::Value> packed;
    for (std::size_t t = 0; t < trees.n_trees; ++t) {
        const std::int64_t start = rows.offset[t];
        packed.pack(trees, t);
        find_leaves<HasMissing, HasCategories>(packed, matrix, rows.index + start,
                                               static_cast<std::size_t>(rows.offset[t + 1] - start), pacer,
                                               leaves + start);
    }
}

// For each row (in `rows`, with a donor each) and each of `n_features` columns: the leaf it reaches when that column's
// value is the donor's. A column that is not on the row's path changes nothing and costs nothing.
template <bool HasMissing, bool HasCategories, class Matrix, class Pause>
void find_swapped_leaves(const Trees& trees, const Matrix& matrix, const std::int64_t* rows, const std::int64_t* donors,
                         std::size_t n, std::size_t n_features, Pacer<Pause> pacer, std::int32_t* leaves) {
    PackedTree<typename Matrix::Value> tree;
    tree.pack(trees, 0);
    std::vector<std::int32_t> first_on_path;
    std::vector<std::size_t> seen_at(n_features, 0);
    for (std::size_t i = 0; i < n; ++i) {
        const auto row = matrix.row(rows[i]);
        const auto donor = matrix.row(donors[i]);
        first_on_path.clear();
        std::int32_t place = 0;
        while (!tree.is_leaf(place)) {
            pacer.count(1);
            const std::int32_t feature = tree.feature(place);
            if (seen_at[feature] != i + 1) {
                seen_at[feature] = i + 1;
                first_on_path.push_back(place);
            }
            place = tree.template next<HasMissing, HasCategories>(place, row[feature]);
        }
        std::int32_t* out = leaves + i * n_features;
        for (std::size_t j = 0; j < n_features; ++j) out[j] = tree.original(place);
        for (const std::int32_t start : first_on_path) {
            const std::int32_t swapped = tree.feature(start);
            const auto value = donor[swapped];
            std::int32_t at = start;
            while (!tree.is_leaf(at)) {
                pacer.count(1);
                const std::int32_t feature = tree.feature(at);
                at = tree.template next<HasMissing, HasCategories>(at, feature == swapped ? value : row[feature]);
            }
            out[swapped] = tree.original(at);
        }
    }
}

// The rows from 0 to n_rows - 1 that are not in the bag, ascending; returns how many. `unseen` has room for n_rows.
template <class Index>
std::size_t list_unseen(const Index* bag, std::size_t n_drawn, std::size_t n_rows, std::int64_t* unseen) {
    std::vector<char> is_seen(n_rows, 0);
    for (std::size_t i = 0; i < n_drawn; ++i) is_seen.at(static_cast<std::size_t>(bag[i])) = 1;
    std::size_t n_unseen = 0;
    for (std::size_t row = 0; row < n_rows; ++row) {
        unseen[n_unseen] = static_cast<std::int64_t>(row);
        n_unseen += !is_seen[row];
    }
    return n_unseen;
}

// Every inner node becomes left child + right child. Children come after their parent in the arrays.
inline void add_up(const Trees& trees, std::size_t n_columns, double* sums) {
    for (std::int64_t m = trees.offset[trees.n_trees] - 1; m >= 0; --m) {
        const std::int32_t l = trees.left[m];
        if (l < 0) continue;
        const double* from_left = sums + static_cast<std::size_t>(l) * n_columns;
        const double* from_right = sums + static_cast<std::size_t>(trees.right[m]) * n_columns;
        double* into = sums + static_cast<std::size_t>(m) * n_columns;
        for (std::size_t c = 0; c < n_columns; ++c) into[c] = from_left[c] + from_right[c];
    }
}

// Adds n rows to their leaves: class codes (column `first_column[o] + code` of output o counts the row's weight).
template <class Pause>
void add_codes(const std::int32_t* leaves, const std::int64_t* rows, std::size_t n, const std::int32_t* codes,
               const std::int64_t* first_column, std::size_t n_outputs, std::size_t n_columns, const double* row_weight,
               Pacer<Pause> pacer, double* weight, double* total) {
    for (std::size_t i = 0; i < n; ++i) {
        pacer.count(1);
        const double w = row_weight ? row_weight[rows[i]] : 1.0;
        const std::size_t leaf = static_cast<std::size_t>(leaves[i]);
        const std::int32_t* code = codes + static_cast<std::size_t>(rows[i]) * n_outputs;
        weight[leaf] += w;
        for (std::size_t o = 0; o < n_outputs; ++o) total[leaf * n_columns + first_column[o] + code[o]] += w;
    }
}

// Adds n rows to their leaves: numbers, and their squares. A row's are `n_columns` of `stride`, from `numbers` on.
template <class Pause>
void add_numbers(const std::int32_t* leaves, const std::int64_t* rows, std::size_t n, const double* numbers,
                 std::size_t stride, std::size_t n_columns, const double* row_weight, Pacer<Pause>& pacer,
                 double* weight, double* total, double* square) {
    for (std::size_t i = 0; i < n; ++i) {
        pacer.count(1);
        const double w = row_weight ? row_weight[rows[i]] : 1.0;
        const std::size_t leaf = static_cast<std::size_t>(leaves[i]);
        const double* y = numbers + static_cast<std::size_t>(rows[i]) * stride;
        weight[leaf] += w;
        for (std::size_t o = 0; o < n_columns; ++o) {
            const double weighted = w * y[o];
            total[leaf * n_columns + o] += weighted;
            square[leaf * n_columns + o] += weighted * y[o];
        }
    }
}

}  // namespace truewood
