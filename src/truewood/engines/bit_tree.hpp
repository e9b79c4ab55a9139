// Small trees without walking: every split is asked of every row, and strikes out leaves (the way of QuickScorer,
// Lucchese et al. 2015). Rows lie column by column, so that a split is asked of several rows at once. No Python here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "tree.hpp"
#include "wide.hpp"

namespace truewood {

// Strikes out the leaves on the left for values above the threshold, and for missing ones where these go right.
#define TRUEWOOD_STRIKE_OUT(T, Bits)                                                                             \
    TRUEWOOD_WIDE                                                                                                \
    static void strike_out(const T* x, std::size_t n, T threshold, bool missing_left, Bits kept, Bits* leaves) { \
        if (missing_left) {                                                                                      \
            for (std::size_t i = 0; i < n; ++i) leaves[i] &= x[i] > threshold ? kept : ~Bits{0};                 \
        } else {                                                                                                 \
            for (std::size_t i = 0; i < n; ++i) leaves[i] &= x[i] <= threshold ? ~Bits{0} : kept;                \
        }                                                                                                        \
    }
TRUEWOOD_STRIKE_OUT(float, std::uint32_t)
TRUEWOOD_STRIKE_OUT(double, std::uint64_t)
#undef TRUEWOOD_STRIKE_OUT

// The number of the lowest bit that is set.
template <class Bits>
std::size_t find_lowest(Bits bits) {
#if defined(__GNUC__) || defined(__clang__)
    if constexpr (sizeof(Bits) == 8) return static_cast<std::size_t>(__builtin_ctzll(bits));
    else return static_cast<std::size_t>(__builtin_ctz(bits));
#else
    std::size_t place = 0;
    while (!((bits >> place) & 1u)) ++place;
    return place;
#endif
}

// A tree of as many leaves as there are bits: 32 for floats, 64 for doubles. Leaves are numbered from left to right.
template <class T>
class BitTree {
public:
    using Bits = std::conditional_t<sizeof(T) == sizeof(float), std::uint32_t, std::uint64_t>;
    static constexpr std::size_t kMostLeaves = 8 * sizeof(Bits);

    // Takes the tree where it is small enough; splits on categories are not known here.
    void pack(const PackedTree<T>& tree, bool has_categories) {
        const Structure& structure = tree.structure();
        splits_.clear();
        leaf_place_.clear();
        fits_ = !has_categories && structure.n_nodes() <= 2 * kMostLeaves - 1;
        if (fits_) visit(tree, 0);
    }
    bool fits() const { return fits_; }

    // Places of the leaves of n rows; column j begins at columns + j * stride.
    void find(const T* columns, std::size_t stride, std::size_t n, std::vector<Bits>& bits,
              std::int32_t* leaves) const {
        bits.assign(n, ~Bits{0});
        for (const Split& split : splits_) {
            strike_out(columns + split.feature * stride, n, split.threshold, split.missing_left, split.kept,
                       bits.data());
        }
        for (std::size_t i = 0; i < n; ++i) leaves[i] = leaf_place_[find_lowest(bits[i])];
    }

private:
    struct Split {
        T threshold;
        std::size_t feature;
        Bits kept;  // all leaves but those on the left
        bool missing_left;
    };
    bool fits_ = false;
    std::vector<Split> splits_;
    std::vector<std::int32_t> leaf_place_;

    // The leaves below a place; no deeper than there are leaves.
    Bits visit(const PackedTree<T>& tree, std::int32_t place) {
        const std::int32_t left = tree.structure().left[place];
        if (left < 0) {
            leaf_place_.push_back(place);
            return Bits{1} << (leaf_place_.size() - 1);
        }
        const Bits on_left = visit(tree, left);
        splits_.push_back({tree.threshold(place), static_cast<std::size_t>(tree.feature(place)), ~on_left,
                           tree.sends_missing_left(place)});
        return on_left | visit(tree, left + 1);
    }
};

}  // namespace truewood
