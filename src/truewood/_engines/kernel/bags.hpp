// Bags: the rows that a tree was trained on, drawn from a seed or given. No Python here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace truewood {

// How often each row is in a bag.
using Counts = std::uint32_t;

inline void count_drawn(std::size_t row, std::vector<Counts>& counts) {
    if (row >= counts.size()) throw std::invalid_argument("bags must hold rows of X, got a row beyond its end.");
    ++counts[row];
}

// The Mersenne Twister (Matsumoto & Nishimura 1998), many words at a time so that the compiler can vectorize.
class Words {
public:
    static constexpr std::size_t kSize = 624;
    explicit Words(std::uint32_t seed) {
        state_[0] = seed;
        for (std::uint32_t i = 1; i < kSize; ++i) {
            state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
        }
    }
    // The next kSize words.
    void draw(std::uint32_t* words) {
        constexpr std::size_t kAhead = 397;
        for (std::size_t i = 0; i < kSize - kAhead; ++i) twist(i, i + 1, i + kAhead);
        for (std::size_t i = kSize - kAhead; i < kSize - 1; ++i) twist(i, i + 1, i + kAhead - kSize);
        twist(kSize - 1, 0, kAhead - 1);
        for (std::size_t i = 0; i < kSize; ++i) {
            std::uint32_t word = state_[i];
            word ^= word >> 11;
            word ^= (word << 7) & 0x9d2c5680u;
            word ^= (word << 15) & 0xefc60000u;
            words[i] = word ^ (word >> 18);
        }
    }

private:
    std::uint32_t state_[kSize];

    void twist(std::size_t i, std::size_t next, std::size_t ahead) {
        const std::uint32_t both = (state_[i] & 0x80000000u) | (state_[next] & 0x7fffffffu);
        state_[i] = state_[ahead] ^ (both >> 1) ^ ((0u - (both & 1u)) & 0x9908b0dfu);
    }
};

// Draws the bag of numpy's RandomState(seed).randint(0, n_rows, n_draws): words of the generator, masked to the bits of
// the largest row number, except for those that exceed it.
template <class Visit>
void draw_bag(std::uint32_t seed, std::size_t n_draws, std::size_t n_rows, const Visit& visit) {
    if (n_rows < 1 || n_rows - 1 > 0xffffffffu) {
        throw std::invalid_argument("bags must be drawn from 1 to 2^32 rows, got " + std::to_string(n_rows) + ".");
    }
    const auto largest = static_cast<std::uint32_t>(n_rows - 1);
    std::uint32_t mask = largest;
    for (int shift = 1; shift < 32; shift *= 2) mask |= mask >> shift;
    if (largest == 0) {  // numpy draws no words for a single row
        for (std::size_t k = 0; k < n_draws; ++k) visit(0);
        return;
    }
    Words generator(seed);
    std::uint32_t words[Words::kSize];
    while (n_draws > 0) {
        generator.draw(words);
        std::size_t n_taken = 0;
        for (std::size_t i = 0; i < Words::kSize; ++i) {
            const std::uint32_t row = words[i] & mask;
            words[n_taken] = row;
            n_taken += row <= largest;
        }
        if (n_taken > n_draws) n_taken = n_draws;
        for (std::size_t i = 0; i < n_taken; ++i) visit(words[i]);
        n_draws -= n_taken;
    }
}

// Lists the rows outside the bag, ascending, and returns their number. `oob_rows` must have space for all rows.
inline std::size_t list_oob_rows(const std::vector<Counts>& counts, std::int64_t* oob_rows) {
    std::size_t n_oob = 0;
    for (std::size_t row = 0; row < counts.size(); ++row) {
        oob_rows[n_oob] = static_cast<std::int64_t>(row);
        n_oob += counts[row] == 0;
    }
    return n_oob;
}

}  // namespace truewood
