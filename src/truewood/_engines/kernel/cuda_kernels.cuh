// Kernels of the cuda engine: leaves, sums at leaves, and the influence of single rows.
//
// NVRTC compiles them with REAL as float or double, the type of x. For tests, a C++ compiler compiles the same source
// for the host, where a block of threads is a loop (tests/helpers/cuda_on_host.hpp). The work is therefore written in
// phases: within FOR_THREADS, no thread reads what another one writes, except for atomic additions of integers, and all
// threads wait between phases.
//
// Arguments are structs that cuda_trees.py, cuda_sums.py and cuda_engine.py fill field by field, in the same order.
#ifdef __CUDACC__
#define KERNEL extern "C" __global__ void
#define INLINE __device__ __forceinline__
#define SHARED extern __shared__ __align__(16) unsigned char shared[];
#define FOR_THREADS(tid) for (unsigned tid = threadIdx.x, once = 0; once < 1; ++once)
#define WAIT __syncthreads()
#define BLOCK_X blockIdx.x
#define BLOCK_Y blockIdx.y
#define GRID_X gridDim.x
#define GRID_Y gridDim.y
#define BLOCK_SIZE blockDim.x
#else
#include "cuda_on_host.hpp"
#endif

typedef long long Int;
typedef unsigned long long Word;

// Siblings are neighbors. In a split on categories, the bits of `threshold` are the number of its set. In a leaf,
// `left` is ~k for node k in the order of the trees' arrays.
struct __align__(16) Node {
    double threshold;
    unsigned feature;  // and the two flags below
    int left;
};
#define MISSING_LEFT 0x80000000u
#define BY_SET 0x40000000u
#define FEATURE 0x3fffffffu

// Sets of categories: set s is bits[offset[s]] .. bits[offset[s + 1]].
struct Sets {
    const Int* offset;
    const unsigned* bits;
};

struct Trees {
    const Node* nodes;
    const int* roots;   // one more than trees; the last is the end
    const int* column;  // target column of each tree; null if trees predict all columns
    Sets sets;
    int n_trees;
    INLINE int target_column(int tree) const { return column ? column[tree] : 0; }
};

// n rows on the GPU, starting with row `first` of all rows.
struct Rows {
    const REAL* x;
    Int n, first;
    int n_features;
    int n_staged;  // columns that are copied into shared memory: all, or 0 if there is no space
};

INLINE bool holds(const Sets& sets, double set, double x) {
    const Int s = __double_as_longlong(set), start = sets.offset[s], n_words = sets.offset[s + 1] - start;
    if (!(x >= 0.0 && x < (double)(n_words * 32))) return false;
    const Int category = (Int)x;
    return (sets.bits[start + category / 32] >> (category % 32)) & 1u;
}

// The node that x leads to from a split.
INLINE int step(const Node& node, const Sets& sets, double x) {
    bool is_right = x > node.threshold;
    if (x != x) is_right = !(node.feature & MISSING_LEFT);
    else if (node.feature & BY_SET) is_right = !holds(sets, node.threshold, x);
    return node.left + is_right;
}

// A row whose values are `stride` apart.
struct Row {
    const REAL* values;
    Int stride;
    INLINE double operator[](unsigned feature) const { return (double)values[feature * stride]; }
};

// Copies a row into shared memory, where each thread has its own column, so that the threads of a warp use different
// banks.
INLINE Row stage(const Rows& rows, Int i, REAL* staged, unsigned tid) {
    const REAL* from = rows.x + i * rows.n_features;
    if (rows.n_staged == 0) return Row{from, 1};
    for (int j = 0; j < rows.n_staged; ++j) staged[(unsigned)j * BLOCK_SIZE + tid] = from[j];
    return Row{staged + tid, (Int)BLOCK_SIZE};
}

// The leaf of a row.
template <class Values>
INLINE int find_leaf(const Trees& trees, int tree, const Values& row) {
    Node node = trees.nodes[trees.roots[tree]];
    while (node.left >= 0) node = trees.nodes[step(node, trees.sets, row[node.feature & FEATURE])];
    return ~node.left;
}

// Which rows evaluate a tree: every row once, rows outside its bag, or rows as often as they are listed.
enum RoleKind { EVERY_ROW, BAGS, LISTS };

// The roles of rows in trees.
struct Roles {
    const unsigned* times;       // (tree, row): how often the row is in the bag or in the list
    const double* inbag_weight;  // (tree, row): weight in the fit, for LISTS with in-bag rows
    Int n_rows;
    int kind;  // a RoleKind
    // How often a row evaluates a tree.
    INLINE unsigned count_scoring(int tree, Int row) const {
        if (kind == EVERY_ROW) return 1u;
        const unsigned n = times[tree * n_rows + row];
        return kind == BAGS ? n == 0u : n;
    }
    INLINE double weigh_in_bag(int tree, Int row) const {
        if (kind == BAGS) return (double)times[tree * n_rows + row];
        return inbag_weight ? inbag_weight[tree * n_rows + row] : 0.0;
    }
};

// Leaves of listed rows; the rows of tree t are index[offset[t]] .. index[offset[t + 1]].
KERNEL find_leaves(Trees trees, const REAL* x, int n_features, const Int* index, const Int* offset, int* leaves) {
    FOR_THREADS(tid) {
        for (int t = (int)BLOCK_Y; t < trees.n_trees; t += (int)GRID_Y) {
            const Int first = offset[t] + (Int)BLOCK_X * BLOCK_SIZE + tid;
            for (Int i = first; i < offset[t + 1]; i += (Int)GRID_X * BLOCK_SIZE) {
                leaves[i] = find_leaf(trees, t, Row{x + index[i] * n_features, 1});
            }
        }
    }
}

// A row with one value from another row.
struct Swapped {
    Row row, donor;
    unsigned column;
    INLINE double operator[](unsigned feature) const { return feature == column ? donor[feature] : row[feature]; }
};

// Leaves of n listed rows in a single tree, with each column in turn taken from a donor.
KERNEL find_swapped_leaves(Trees trees, const REAL* x, int n_features, const Int* rows, const Int* donors, Int n,
                           int* leaves) {
    FOR_THREADS(tid) {
        for (Int i = (Int)BLOCK_X * BLOCK_SIZE + tid; i < n * n_features; i += (Int)GRID_X * BLOCK_SIZE) {
            const Int at = i / n_features;
            const Swapped row = {
                {x + rows[at] * n_features, 1}, {x + donors[at] * n_features, 1}, (unsigned)(i % n_features)};
            leaves[i] = find_leaf(trees, 0, row);
        }
    }
}

// What a row adds at its leaf: integers, so that sums do not depend on the order of additions. For classes, a row adds
// 1 or its weight to the cell of its class in each output; for numbers, it adds its weight, its numbers, and perhaps
// their squares.
struct Amounts {
    const int* codes;         // (row, output); null for numbers
    const int* first_column;  // of each output
    const Int* amounts;       // (row, amount); null for classes if every row counts once
    int n_outputs, n_amounts;
    int width;  // cells per node
};

// Calls add(cell, amount).
template <class Add>
INLINE void for_amounts(const Amounts& of, Int row, int column, const Add& add) {
    if (of.codes) {
        const Int amount = of.amounts ? of.amounts[row] : 1;
        for (int o = 0; o < of.n_outputs; ++o) add(of.first_column[o] + of.codes[row * of.n_outputs + o], amount);
        return;
    }
    const Int* own = of.amounts + row * of.n_amounts;
    add(0, own[0]);
    for (int k = 1; k < of.width; ++k) add(k, own[k + column]);
}

// A sum is stored as high * 2^30 + low, which does not overflow for any number of rows.
#define LOW_BITS 30
INLINE void add_wide(Word* cell, Int amount) {
    const Int high = amount >> LOW_BITS;
    if (high) atomicAdd(cell, (Word)high);
    atomicAdd(cell + 1, (Word)(amount & ((1ll << LOW_BITS) - 1)));
}

struct AddWide {
    Word* node;
    Int times;
    INLINE void operator()(int cell, Int amount) const { add_wide(node + 2 * cell, amount * times); }
};

// Adds rows to their leaves, in trees_per_block trees per block.
KERNEL sum_rows(Trees trees, Rows rows, Amounts amounts, Roles roles, int trees_per_block, Word* sums) {
    SHARED
    const int start = BLOCK_Y * trees_per_block, end = min(start + trees_per_block, trees.n_trees);
    FOR_THREADS(tid) {
        const Int i = (Int)BLOCK_X * BLOCK_SIZE + tid;
        if (i < rows.n) {
            const Row values = stage(rows, i, (REAL*)shared, tid);
            const Int row = rows.first + i;
            for (int t = start; t < end; ++t) {
                const unsigned n_times = roles.count_scoring(t, row);
                if (n_times == 0u) continue;
                const int leaf = find_leaf(trees, t, values);
                const AddWide add = {sums + (Int)leaf * amounts.width * 2, (Int)n_times};
                for_amounts(amounts, row, trees.target_column(t), add);
            }
        }
    }
}

// In shared memory, where only 32-bit additions are fast, an amount has three parts of 20 bits, which do not overflow
// for up to 4,096 rows.
#define PART_BITS 20
#define PART_MASK ((1u << PART_BITS) - 1u)
struct AddParts {
    unsigned* cells;
    INLINE void operator()(int cell, Int amount) const {
        unsigned* parts = cells + 3 * cell;
        const unsigned low = (unsigned)amount & PART_MASK, middle = (unsigned)(amount >> PART_BITS) & PART_MASK;
        const unsigned high = (unsigned)(amount >> (2 * PART_BITS));
        atomicAdd(parts, low);
        if (middle) atomicAdd(parts + 1, middle);
        if (high) atomicAdd(parts + 2, high);
    }
};

// Adds rows to their leaves in small trees that every row evaluates: a block first sums up to 4,096 rows in shared
// memory. Group k of trees that fit there is groups[k] .. groups[k + 1].
KERNEL sum_small_trees(Trees trees, Rows rows, Amounts amounts, const int* groups, int rows_per_block, Word* sums) {
    SHARED
    const int start = groups[BLOCK_Y], end = groups[BLOCK_Y + 1], width = amounts.width;
    const int first_node = trees.roots[start], n_cells = (trees.roots[end] - first_node) * width;
    unsigned* cells = (unsigned*)shared;
    FOR_THREADS(tid) {
        for (int k = (int)tid; k < 3 * n_cells; k += (int)BLOCK_SIZE) cells[k] = 0u;
    }
    WAIT;
    FOR_THREADS(tid) {
        const Int from = (Int)BLOCK_X * rows_per_block, to = min(from + rows_per_block, rows.n);
        for (Int i = from + tid; i < to; i += BLOCK_SIZE) {
            const Row row = {rows.x + i * rows.n_features, 1};
            for (int t = start; t < end; ++t) {
                const int leaf = find_leaf(trees, t, row) - first_node;
                for_amounts(amounts, rows.first + i, trees.target_column(t), AddParts{cells + 3 * leaf * width});
            }
        }
    }
    WAIT;
    FOR_THREADS(tid) {
        for (int k = (int)tid; k < n_cells; k += (int)BLOCK_SIZE) {
            const unsigned low = cells[3 * k], middle = cells[3 * k + 1];
            const int high = (int)cells[3 * k + 2];
            const unsigned rest = LOW_BITS - PART_BITS;
            Word* cell = sums + ((Int)first_node * width + k) * 2;
            const Int more = (Int)(middle >> rest) + (Int)high * (1ll << (2 * PART_BITS - LOW_BITS));
            const Int less = (Int)low + ((Int)(middle & ((1u << rest) - 1u)) << PART_BITS);
            if (more) atomicAdd(cell, (Word)more);
            if (less) atomicAdd(cell + 1, (Word)less);
        }
    }
}

// Nodes, each followed by the terms of a row in each of its roles, so that one load fetches both; and the target, which
// the terms multiply. Terms are zero below splits that do not count.
struct Terms {
    const unsigned char* records;
    const int* codes;  // (row, output); null for numbers
    const int* first_column;
    const double* numbers;  // `stride` per row
    int size;               // bytes per record
    int n_terms;            // per role
    int n_outputs, stride;
    INLINE const Node& node(int place) const { return *(const Node*)(records + (Int)place * size); }
    INLINE double term(int place, int role, Int row, int column) const {
        const double* own = (const double*)(records + (Int)place * size + sizeof(Node)) + role * n_terms;
        if (codes) {
            double sum = own[codes[row * n_outputs]];
            for (int o = 1; o < n_outputs; ++o) sum += own[first_column[o] + codes[row * n_outputs + o]];
            return sum;
        }
        const double* y = numbers + row * stride + column;
        double linear = own[0] * y[0], square = y[0] * y[0];
        for (int c = 1; c < n_terms - 2; ++c) {
            linear += own[c] * y[c];
            square += y[c] * y[c];
        }
        return (linear + own[n_terms - 2] * square) + own[n_terms - 1];
    }
};

// Optional weights of rows as evaluation rows, and of trees.
struct Weights {
    const double* row;
    const double* tree;
};

// Receives the influence of the rows of a call, and the weights in the first n_bags bags of all rows with influence.
struct InfluenceOutput {
    double* eval;   // (row, feature)
    double* inbag;  // (row, feature); null if no row is in bag
    float* bags;    // (bag, row)
    Int first_bag_row, n_bag_rows;
    int n_bags;
};

// Adds the influence of rows, tree after tree, as evaluation rows or as in-bag rows. The n_kept sums of a row are kept
// in shared memory; n_kept is 0 if there is no space.
KERNEL add_influence(Trees trees, Rows rows, Terms terms, Roles roles, Weights weights, InfluenceOutput out,
                     int n_kept) {
    SHARED
    const int n_features = rows.n_features;
    double* kept = (double*)shared;
    REAL* staged = (REAL*)(kept + (Int)n_kept * BLOCK_SIZE);
    FOR_THREADS(tid) {
        const Int i = (Int)BLOCK_X * BLOCK_SIZE + tid;
        if (i < rows.n) {
            const Int row = rows.first + i;
            const Row values = stage(rows, i, staged, tid);
            for (int k = 0; k < n_kept; ++k) kept[(unsigned)k * BLOCK_SIZE + tid] = 0.0;
            for (int t = 0; t < trees.n_trees; ++t) {
                double weight = 0.0;
                int role = 0;
                if (out.inbag) {
                    weight = roles.weigh_in_bag(t, row);
                    role = weight > 0.0;
                    if (t < out.n_bags) out.bags[t * out.n_bag_rows + row - out.first_bag_row] = (float)weight;
                }
                if (role == 0) {
                    weight = (double)roles.count_scoring(t, row);
                    if (weights.row) weight *= weights.row[row];
                }
                if (weight == 0.0) continue;
                if (weights.tree) weight *= weights.tree[t];
                double* sums = (role ? out.inbag : out.eval) + i * n_features;
                const int shift = role * n_features, column = trees.target_column(t);
                Node node = terms.node(trees.roots[t]);
                while (node.left >= 0) {
                    const unsigned feature = node.feature & FEATURE;
                    const int place = step(node, trees.sets, values[feature]);
                    const double added = weight * terms.term(place, role, row, column);
                    node = terms.node(place);
                    if (n_kept) kept[(feature + shift) * BLOCK_SIZE + tid] += added;
                    else sums[feature] += added;
                }
            }
            for (int k = 0; k < n_kept; ++k) {
                double* sum = k < n_features ? out.eval + i * n_features + k : out.inbag + (i - 1) * n_features + k;
                *sum += kept[(unsigned)k * BLOCK_SIZE + tid];
            }
        }
    }
}

// The influence of n rows.
struct Influence {
    const double* eval;      // (row, column)
    const double* inbag;     // (row, column); null if no row is in bag
    const bool* is_scoring;  // whether a row counts
    const double* mean;      // subtracted from each column
    double total_weight;     // divides the influence
    Int n;
    int n_columns;
    // A row's influence on the score of a column, in one of its roles; 0 for a row that does not count.
    INLINE double center(const double* influence, Int row, int column) const {
        return is_scoring[row] ? influence[row * n_columns + column] / total_weight - mean[column] : 0.0;
    }
};

// Sums phi phi, phi psi, psi psi and phi by column over rows_per_block rows per block; phi is the evaluation influence
// and psi the in-bag influence.
KERNEL sum_products(Influence influence, int rows_per_block, double* sums) {
    const Int from = (Int)BLOCK_X * rows_per_block, to = min(from + rows_per_block, influence.n);
    const int n_columns = influence.n_columns;
    FOR_THREADS(tid) {
        for (int column = (int)tid; column < n_columns; column += (int)BLOCK_SIZE) {
            double products[4] = {0.0, 0.0, 0.0, 0.0};
            for (Int row = from; row < to; ++row) {
                const double phi = influence.center(influence.eval, row, column);
                products[0] += phi * phi;
                products[3] += phi;
                if (!influence.inbag) continue;
                const double psi = influence.center(influence.inbag, row, column);
                products[1] += phi * psi;
                products[2] += psi * psi;
            }
            for (int k = 0; k < 4; ++k) sums[((Int)BLOCK_X * 4 + k) * n_columns + column] = products[k];
        }
    }
}

// Multiplies each row's sums over all columns: phi phi and phi psi.
KERNEL multiply_totals(Influence influence, double* products) {
    FOR_THREADS(tid) {
        const Int row = (Int)BLOCK_X * BLOCK_SIZE + tid;
        if (row < influence.n) {
            double phi = 0.0, psi = 0.0;
            for (int column = 0; column < influence.n_columns; ++column) {
                phi += influence.center(influence.eval, row, column);
                if (influence.inbag) psi += influence.center(influence.inbag, row, column);
            }
            products[row] = phi * phi;
            products[influence.n + row] = phi * psi;
        }
    }
}

// Bits of a number; the same for 0 and -0, and for all NaN, as in row_hashes.hpp.
INLINE Word read_bits(double x) {
    const Word bits = x != x ? 0x7ff8000000000000ull : (Word)__double_as_longlong(x + 0.0);
    return bits ^ (bits >> 32);
}

// Hashes rows, given two factors of each column.
KERNEL hash_rows(const REAL* x, Int n, int n_features, const Word* factors, Word* hashes) {
    FOR_THREADS(tid) {
        for (Int i = (Int)BLOCK_X * BLOCK_SIZE + tid; i < n; i += (Int)GRID_X * BLOCK_SIZE) {
            Word first = 0, second = 0;
            for (int j = 0; j < n_features; ++j) {
                const Word bits = read_bits((double)x[i * n_features + j]);
                first += bits * factors[2 * j];
                second += bits * factors[2 * j + 1];
            }
            first = (first ^ (first >> 33)) * 0xff51afd7ed558ccdull;
            first = (first ^ (first >> 33)) * 0xc4ceb9fe1a85ec53ull;
            hashes[i] = (first ^ (first >> 33)) + second;
        }
    }
}

// Draws one bag per block, as numpy's RandomState(seed).randint(0, n_rows, n_draws) does, and counts how often each row
// is in it. `now` and `next` are the state of the Mersenne Twister (Matsumoto & Nishimura 1998) before and after 624
// words. bags.hpp has the sequential version; here, the threads of a block share the work.
#define N_WORDS 624u
#define AHEAD 397u
INLINE unsigned twist(unsigned own, unsigned following, unsigned ahead) {
    const unsigned both = (own & 0x80000000u) | (following & 0x7fffffffu);
    return ahead ^ (both >> 1) ^ ((0u - (both & 1u)) & 0x9908b0dfu);
}

INLINE unsigned temper(unsigned word) {
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c5680u;
    word ^= (word << 15) & 0xefc60000u;
    return word ^ (word >> 18);
}

KERNEL draw_bags(const unsigned* seeds, Int n_draws, Int n_rows, unsigned mask, unsigned* counts) {
    SHARED
    unsigned *now = (unsigned*)shared, *next = now + N_WORDS, *drawn = next + N_WORDS, *n_taken = drawn + N_WORDS;
    unsigned* own = counts + (Int)BLOCK_X * n_rows;
    const unsigned largest = (unsigned)(n_rows - 1), behind = N_WORDS - AHEAD;
    FOR_THREADS(tid) {
        if (tid == 0) {
            now[0] = seeds[BLOCK_X];
            for (unsigned i = 1; i < N_WORDS; ++i) now[i] = 1812433253u * (now[i - 1] ^ (now[i - 1] >> 30)) + i;
        }
    }
    WAIT;
    for (Int n_left = n_draws; n_left > 0;) {
        FOR_THREADS(tid) {
            if (tid == 0) *n_taken = 0u;
            for (unsigned i = tid; i < behind; i += BLOCK_SIZE) next[i] = twist(now[i], now[i + 1], now[i + AHEAD]);
        }
        WAIT;
        FOR_THREADS(tid) {
            for (unsigned i = behind + tid; i < 2 * behind; i += BLOCK_SIZE) {
                next[i] = twist(now[i], now[i + 1], next[i - behind]);
            }
        }
        WAIT;
        FOR_THREADS(tid) {
            for (unsigned i = 2 * behind + tid; i < N_WORDS; i += BLOCK_SIZE) {
                next[i] = twist(now[i], i + 1 < N_WORDS ? now[i + 1] : next[0], next[i - behind]);
            }
        }
        WAIT;
        FOR_THREADS(tid) {
            unsigned n_own = 0u;
            for (unsigned i = tid; i < N_WORDS; i += BLOCK_SIZE) {
                drawn[i] = temper(next[i]) & mask;
                n_own += drawn[i] <= largest;
            }
            if (n_own) atomicAdd(n_taken, n_own);
        }
        WAIT;
        const Int n_here = (Int)*n_taken;
        FOR_THREADS(tid) {
            if (n_here <= n_left) {
                for (unsigned i = tid; i < N_WORDS; i += BLOCK_SIZE) {
                    if (drawn[i] <= largest) atomicAdd(own + drawn[i], 1u);
                }
            } else if (tid == 0) {  // take the remaining words in order
                Int rest = n_left;
                for (unsigned i = 0; rest > 0; ++i) {
                    if (drawn[i] > largest) continue;
                    atomicAdd(own + drawn[i], 1u);
                    --rest;
                }
            }
        }
        WAIT;
        n_left -= n_here;
        unsigned* const before = now;
        now = next;
        next = before;
    }
}
