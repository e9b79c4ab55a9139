// Small trees without walking: every split is asked of every row, and strikes out leaves (the way of QuickScorer,
// Lucchese et al. 2015), of several rows at once. No Python here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "tree.hpp"

namespace truewood {

// A tree of as many leaves as there are bits: 32 for floats, 64 for doubles.
template <class T>
using LeafBits = std::conditional_t<sizeof(T) == sizeof(float), std::uint32_t, std::uint64_t>;

// So many rows are asked at once: four vectors of 32 bytes. Rows lie in tiles of this size, column by column.
template <class T>
constexpr std::size_t kTile = 128 / sizeof(T);

template <class T>
struct BitSplit {
    T threshold;
    std::size_t feature;
    LeafBits<T> left;     // the leaves on the left, which values above the threshold strike out,
    LeafBits<T> missing;  // and those that a missing value strikes out
};

#if defined(__GNUC__) || defined(__clang__)
// Leaves that are struck out by the splits of a tree, for the rows of a tile, BYTES of them at once. A macro, since a
// template's vectors would be taken apart before it is known which processor they are for.
#define TRUEWOOD_STRIKE_OUT(NAME, TARGET, T, BYTES)                                                \
    template <bool HasMissing>                                                                     \
    TARGET void NAME(const T* tile, const std::vector<BitSplit<T>>& splits, LeafBits<T>* struck) { \
        typedef T Values __attribute__((vector_size(BYTES)));                                      \
        typedef LeafBits<T> Leaves __attribute__((vector_size(BYTES)));                            \
        constexpr std::size_t kVectors = 128 / BYTES;                                              \
        Leaves out[kVectors] = {};                                                                 \
        for (const BitSplit<T>& split : splits) {                                                  \
            const Values threshold = split.threshold - Values{};                                   \
            const Leaves left = split.left - Leaves{}, missing = split.missing - Leaves{};         \
            const T* x = tile + split.feature * kTile<T>;                                          \
            _Pragma("GCC unroll 8") for (std::size_t k = 0; k < kVectors; ++k) {                   \
                Values values;                                                                     \
                std::memcpy(&values, x + k * (BYTES / sizeof(T)), BYTES);                          \
                out[k] |= (Leaves)(values > threshold) & left;                                     \
                if constexpr (HasMissing) out[k] |= (Leaves)(values != values) & missing;          \
            }                                                                                      \
        }                                                                                          \
        std::memcpy(struck, out, sizeof(out));                                                     \
    }
TRUEWOOD_STRIKE_OUT(strike_out_narrow, , float, 16)
TRUEWOOD_STRIKE_OUT(strike_out_narrow, , double, 16)
#if defined(__x86_64__)
TRUEWOOD_STRIKE_OUT(strike_out_wide, __attribute__((target("avx2"))), float, 32)
TRUEWOOD_STRIKE_OUT(strike_out_wide, __attribute__((target("avx2"))), double, 32)
#endif
#undef TRUEWOOD_STRIKE_OUT

template <bool HasMissing, class T>
void strike_out(const T* tile, const std::vector<BitSplit<T>>& splits, LeafBits<T>* struck) {
#if defined(__x86_64__)
    static const bool is_wide = __builtin_cpu_supports("avx2");
    if (is_wide) return strike_out_wide<HasMissing>(tile, splits, struck);
#endif
    strike_out_narrow<HasMissing>(tile, splits, struck);
}
#else
template <bool HasMissing, class T>
void strike_out(const T* tile, const std::vector<BitSplit<T>>& splits, LeafBits<T>* struck) {
    std::fill(struck, struck + kTile<T>, LeafBits<T>{0});
    for (const BitSplit<T>& split : splits) {
        const T* x = tile + split.feature * kTile<T>;
        for (std::size_t i = 0; i < kTile<T>; ++i) {
            struck[i] |= (x[i] > split.threshold ? split.left : 0) | (x[i] != x[i] ? split.missing : 0);
        }
    }
}
#endif

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

// A small tree. Leaves are numbered from left to right.
template <bool HasMissing, class T>
class BitTree {
public:
    static constexpr std::size_t kMostLeaves = 8 * sizeof(LeafBits<T>);

    // Takes the tree where it is small enough; splits on categories are not known here.
    void pack(const PackedTree<T>& tree, bool has_categories) {
        const Structure& structure = tree.structure();
        splits_.clear();
        leaf_place_.clear();
        fits_ = !has_categories && structure.n_nodes() <= 2 * kMostLeaves - 1;
        if (fits_) visit(tree, 0);
    }
    bool fits() const { return fits_; }

    // Places of the leaves of n rows, which lie in tiles.
    void find(const T* tiles, std::size_t n_features, std::size_t n, std::int32_t* leaves) const {
        LeafBits<T> struck[kTile<T>];
        for (std::size_t start = 0; start < n; start += kTile<T>, tiles += kTile<T> * n_features) {
            strike_out<HasMissing>(tiles, splits_, struck);
            const std::size_t n_here = std::min(kTile<T>, n - start);
            for (std::size_t i = 0; i < n_here; ++i) {
                leaves[start + i] = leaf_place_[find_lowest(static_cast<LeafBits<T>>(~struck[i]))];
            }
        }
    }

private:
    bool fits_ = false;
    std::vector<BitSplit<T>> splits_;
    std::vector<std::int32_t> leaf_place_;

    // The leaves below a place; no deeper than there are leaves.
    LeafBits<T> visit(const PackedTree<T>& tree, std::int32_t place) {
        const std::int32_t left = tree.structure().left[place];
        if (left < 0) {
            leaf_place_.push_back(place);
            return LeafBits<T>{1} << (leaf_place_.size() - 1);
        }
        const LeafBits<T> on_left = visit(tree, left);
        splits_.push_back({tree.threshold(place), static_cast<std::size_t>(tree.feature(place)), on_left,
                           tree.sends_missing_left(place) ? LeafBits<T>{0} : on_left});
        return on_left | visit(tree, left + 1);
    }
};

}  // namespace truewood
