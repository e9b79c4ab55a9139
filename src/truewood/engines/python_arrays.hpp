// What Python gives, as the kernel reads it: trees, targets, tables and rows of trees.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "checked_arrays.hpp"
#include "score_call.hpp"
#include "target.hpp"
#include "tree.hpp"
#include "walk.hpp"

namespace truewood {

namespace py = pybind11;

// Nodes are numbered by 32 bits.
constexpr std::size_t kMostNodes = std::numeric_limits<std::int32_t>::max();

// Trees, and the arrays that they are in.
class Forest {
public:
    // Trees one behind the other in the arrays of a TreeEnsemble; the last three arrays come together.
    static Forest of_ensemble(const py::object& feature, const py::object& threshold, const py::object& left,
                              const py::object& right, const py::object& missing_left, const py::object& weight,
                              const py::object& value, const py::object& offset, const py::object& node_set,
                              const py::object& set_offset, const py::object& bits) {
        Forest forest;
        const auto features = read_array<std::int32_t>("feature", feature, {kAny});
        const std::size_t n = features.size();
        const auto values = read_array<double>("value", value, {n, kAny});
        const auto bounds = read_array<std::int64_t>("offset", offset, {kAny});
        const auto sets = read_optional<std::int32_t>("node_set", node_set, {n});
        const auto set_bounds = read_optional<std::int64_t>("set_offset", set_offset, {kAny});
        const auto words = read_optional<std::uint32_t>("bits", bits, {kAny});
        if (static_cast<bool>(sets) != static_cast<bool>(set_bounds) ||
            static_cast<bool>(sets) != static_cast<bool>(words)) {
            throw py::value_error(refuse("node_set, set_offset and bits", "come together", "some of them"));
        }
        if (n > kMostNodes) throw py::value_error(refuse("feature", "be of fewer than 2^31 nodes", std::to_string(n)));
        check_bounds("offset", bounds, n, 1);
        if (sets) check_bounds("set_offset", set_bounds, words.size());
        const Source all{n,
                         forest.keep(features),
                         forest.keep(read_array<double>("threshold", threshold, {n})),
                         forest.keep(read_array<std::int32_t>("left", left, {n})),
                         forest.keep(read_array<std::int32_t>("right", right, {n})),
                         forest.keep(read_array<bool>("missing_left", missing_left, {n})),
                         0,
                         forest.keep(read_array<double>("weight", weight, {n})),
                         forest.keep(values),
                         sizeof(double),
                         sets.data,
                         set_bounds.data,
                         words.data,
                         sets ? set_bounds.size() - 1 : 0,
                         words.size()};
        forest.held_.insert(forest.held_.end(), {sets.held, set_bounds.held, words.held});
        for (std::size_t t = 0; t + 1 < bounds.size(); ++t) {
            const std::int64_t first = bounds.data[t];
            Source tree = all;
            tree.n_nodes = static_cast<std::size_t>(bounds.data[t + 1] - first);
            tree.first = first;
            for (Field* field : {&tree.feature, &tree.threshold, &tree.left, &tree.right, &tree.missing_left,
                                 &tree.weight, &tree.value}) {
                field->data += first * field->stride;
            }
            if (sets) tree.node_set += first;
            forest.trees_.push_back(tree);
        }
        forest.n_columns_ = values.shape[1];
        forest.n_nodes_ = n;
        forest.is_ensemble_ = true;
        return forest;
    }

    // Trees where they lie: for each feature, threshold, left, right, missing_left, weight and value, at any stride.
    static Forest of_trees(const py::list& trees) {
        Forest forest;
        for (const py::handle item : trees) {
            if (!py::isinstance<py::tuple>(item) || py::len(item) != 7) {
                throw py::type_error(refuse("trees", "hold tuples of seven arrays", describe_type(item)));
            }
            const auto parts = py::reinterpret_borrow<py::tuple>(item);
            const Field feature = forest.keep_integers("feature", parts[0]),
                        threshold = forest.keep_numbers("threshold", parts[1]),
                        left = forest.keep_integers("left", parts[2]), right = forest.keep_integers("right", parts[3]),
                        missing_left = forest.keep_flags("missing_left", parts[4]),
                        weight = forest.keep_numbers("weight", parts[5]),
                        value = forest.keep_numbers("value", parts[6], 2);
            const std::size_t n_nodes = py::len(parts[0]);
            for (const py::handle part : parts) {
                if (py::len(part) != n_nodes || n_nodes < 1 || n_nodes > kMostNodes) {
                    throw BrokenTree("the arrays of a tree must be of as many nodes each, from 1 to 2^31 - 1.");
                }
            }
            const auto values = py::reinterpret_borrow<py::array>(parts[6]);
            const auto n_columns = static_cast<std::size_t>(values.shape(1));
            if (n_columns != forest.n_columns_ && !forest.trees_.empty()) {
                throw BrokenTree("the trees have values of different widths.");
            }
            forest.trees_.push_back({n_nodes, feature, threshold, left, right, missing_left, 0, weight, value,
                                     values.strides(1), nullptr, nullptr, nullptr, 0, 0});
            forest.n_columns_ = n_columns;
            forest.n_nodes_ += n_nodes;
        }
        return forest;
    }

    const std::vector<Source>& trees() const { return trees_; }
    std::size_t n_trees() const { return trees_.size(); }
    std::size_t n_nodes() const { return n_nodes_; }
    std::size_t n_columns() const { return n_columns_; }
    bool has_categories() const { return !trees_.empty() && trees_[0].node_set != nullptr; }
    // For what is by node of an ensemble: trees where they lie have no numbers for that.
    void must_be_ensemble() const {
        if (!is_ensemble_) throw py::value_error(refuse("forest", "be of an ensemble", "trees where they lie"));
    }

private:
    std::vector<Source> trees_;
    std::vector<py::object> held_;
    std::size_t n_columns_ = 0, n_nodes_ = 0;
    bool is_ensemble_ = false;

    template <class T>
    Field keep(const View<const T>& view) {
        held_.push_back(view.held);
        std::ptrdiff_t stride = sizeof(T);
        if (view.shape.size() == 2) stride *= static_cast<std::ptrdiff_t>(view.shape[1]);
        return {reinterpret_cast<const char*>(view.data), stride, sizeof(T)};
    }

    Field keep_numbers(const char* name, const py::handle& given, py::ssize_t n_sides = 1) {
        return keep(name, given, n_sides, has_type<double>(given), "float64");
    }
    Field keep_integers(const char* name, const py::handle& given) {
        return keep(name, given, 1, has_type<std::int32_t>(given) || has_type<std::int64_t>(given), "int32 or int64");
    }
    Field keep_flags(const char* name, const py::handle& given) {
        return keep(name, given, 1, has_type<bool>(given) || has_type<std::uint8_t>(given), "bool or uint8");
    }
    Field keep(const char* name, const py::handle& given, py::ssize_t n_sides, bool has_its_type, const char* type) {
        const std::string expected = std::string("be an array of ") + type;
        if (!has_its_type) throw BrokenTree(refuse(name, expected, describe_type(given)));
        const auto array = py::reinterpret_borrow<py::array>(given);
        if (array.ndim() != n_sides) {
            const auto n = std::to_string(n_sides), got = std::to_string(array.ndim());
            throw BrokenTree(
                refuse(name, expected + " with " + n + (n_sides == 1 ? " dimension" : " dimensions"), got));
        }
        held_.push_back(array);
        return {static_cast<const char*>(array.data()), array.strides(0), static_cast<std::size_t>(array.itemsize())};
    }
};

// A target, and the arrays that it is in. `columns` says where the columns of each output begin, and where the last
// ends.
class TargetArrays {
public:
    TargetArrays(const py::object& codes, const py::object& numbers, const py::object& columns,
                 const py::object& row_weight)
        : columns_(read_array<std::int64_t>("columns", columns, {kAny})) {
        if (columns_.size() < 2) throw py::value_error(refuse("columns", "hold two numbers at least", "fewer"));
        if (codes.is_none() == numbers.is_none()) {
            throw py::value_error(
                refuse("codes or numbers", "be given, and not both", codes.is_none() ? "none" : "both"));
        }
        codes_ = read_optional<std::int32_t>("codes", codes, {kAny, columns_.size() - 1});
        numbers_ = read_optional<double>("numbers", numbers, {kAny, kAny});
        row_weight_ = read_optional<double>("row_weight", row_weight, {n_rows()});
    }

    // The target of n_rows rows, all of which are checked.
    Target view(std::size_t n_rows_asked) const {
        check_rows(n_rows_asked);
        const Target target = view();
        check_codes();
        return target;
    }

    // The target; what reads rows has to check these.
    Target view() const {
        const std::size_t n_outputs = columns_.size() - 1;
        check_bounds("columns", columns_, kAny, 1);
        const Target target{codes_.data,
                            numbers_.data,
                            numbers_ ? numbers_.shape[1] : 0,
                            n_outputs,
                            static_cast<std::size_t>(columns_.data[n_outputs]),
                            columns_.data,
                            row_weight_.data,
                            static_cast<bool>(numbers_)};
        if (numbers_ && target.n_columns > target.stride) {
            throw std::invalid_argument(refuse("numbers", "have " + std::to_string(target.n_columns) + " columns",
                                               std::to_string(target.stride)));
        }
        return target;
    }

    std::size_t n_rows() const { return codes_ ? codes_.shape[0] : numbers_.shape[0]; }
    void check_rows(std::size_t n_rows_asked) const {
        if (n_rows() == n_rows_asked) return;
        const auto asked = std::to_string(n_rows_asked);
        throw std::invalid_argument(refuse("target", "be of " + asked + " rows", std::to_string(n_rows())));
    }
    // Refuses classes that an output does not have.
    void check_codes() const {
        if (!codes_) return;
        const std::size_t n_outputs = columns_.size() - 1;
        for (std::size_t o = 0; o < n_outputs; ++o) {
            const auto n_classes = static_cast<std::size_t>(columns_.data[o + 1] - columns_.data[o]);
            check_below("codes", codes_.data + o, n_rows(), n_classes, n_outputs);
        }
    }

private:
    View<const std::int64_t> columns_;
    View<const std::int32_t> codes_;
    View<const double> numbers_, row_weight_;
};

// The column of the target that each tree speaks of.
inline std::vector<std::int32_t> read_columns(const py::object& column, std::size_t n_trees, const Target& target) {
    const auto given = read_optional<std::int32_t>("column", column, {n_trees});
    if (!given) return std::vector<std::int32_t>(n_trees, 0);
    std::vector<std::int32_t> columns(given.data, given.data + n_trees);
    if (!target.has_classes()) check_below("column", columns.data(), n_trees, target.stride - target.n_columns + 1);
    return columns;
}

// What a row adds at each node, and the arrays that it is in. Of classes `linear` is all of it.
class Terms {
public:
    Terms(const py::object& linear, const py::object& square, const py::object& constant, std::size_t n_nodes,
          const Target& target)
        : linear_(read_array<double>("linear", linear, {n_nodes, target.n_columns})),
          square_(read_optional<double>("square", square, {n_nodes})),
          constant_(read_optional<double>("constant", constant, {n_nodes})) {
        if (!target.has_classes() && !(square_ && constant_)) {
            throw py::value_error(refuse("square and constant", "be given for a target of numbers", "None"));
        }
    }
    NodeTerms view() const { return {linear_.data, square_.data, constant_.data}; }

private:
    View<const double> linear_, square_, constant_;
};

// What walks the rows of X, and how many there are.
struct Table {
    std::unique_ptr<Walker> walker;
    std::size_t n_rows;
    std::vector<py::object> held;
};

template <class Matrix>
std::unique_ptr<Walker> make_walker(const Matrix& matrix, bool has_missing, bool has_categories, std::size_t n) {
    if (has_missing && has_categories) return std::make_unique<WalkerOf<true, true, Matrix>>(matrix, n);
    if (has_missing) return std::make_unique<WalkerOf<true, false, Matrix>>(matrix, n);
    if (has_categories) return std::make_unique<WalkerOf<false, true, Matrix>>(matrix, n);
    return std::make_unique<WalkerOf<false, false, Matrix>>(matrix, n);
}

// Refuses columns that do not rise within each row, or that X does not have: a search would not find them.
inline void check_indices(const std::int32_t* indices, const View<const std::int64_t>& indptr, std::size_t n_features) {
    for (std::size_t i = 0; i + 1 < indptr.size(); ++i) {
        std::int64_t before = -1;
        bool rises = true;
        for (std::int64_t k = indptr.data[i]; k < indptr.data[i + 1]; ++k) {
            rises &= indices[k] > before;
            before = indices[k];
        }
        if (rises && before < static_cast<std::int64_t>(n_features)) continue;
        throw py::value_error(refuse("indices of X", "rise within each row and be below " + std::to_string(n_features),
                                     "others in row " + std::to_string(i)));
    }
}

template <class T>
Table read_sparse(const py::tuple& parts, bool has_missing, bool has_categories, std::size_t n_features) {
    const auto data = read_array<T>("data of X", parts[0], {kAny});
    const auto indices = read_array<std::int32_t>("indices of X", parts[1], {data.size()});
    const auto indptr = read_array<std::int64_t>("indptr of X", parts[2], {kAny});
    if (!py::isinstance<py::float_>(parts[3])) {
        throw py::type_error(refuse("fill of X", "be a float", describe_type(parts[3])));
    }
    check_bounds("indptr of X", indptr, kAny);
    const std::size_t n_rows = indptr.size() - 1;
    if (static_cast<std::size_t>(indptr.data[n_rows]) > data.size()) {
        throw py::value_error(refuse("indptr of X", "end at " + std::to_string(data.size()) + " at most",
                                     std::to_string(indptr.data[n_rows])));
    }
    check_indices(indices.data, indptr, n_features);
    const SparseMatrix<T> matrix{data.data, indices.data, indptr.data, parts[3].cast<T>(), n_rows};
    return {
        make_walker(matrix, has_missing, has_categories, n_features), n_rows, {data.held, indices.held, indptr.held}};
}

template <class T>
Table read_dense(const py::object& X, bool has_missing, bool has_categories, std::size_t n_features) {
    const auto dense = read_array<T>("X", X, {kAny, n_features});
    const DenseMatrix<T> matrix{dense.data, n_features};
    return {make_walker(matrix, has_missing, has_categories, n_features), dense.shape[0], {dense.held}};
}

// X is one array, or (data, indices, indptr, fill) of a sparse matrix.
inline Table read_any_table(const py::object& X, bool has_missing, bool has_categories, std::size_t n_features) {
    if (!py::isinstance<py::tuple>(X)) {
        if (has_type<float>(X)) return read_dense<float>(X, has_missing, has_categories, n_features);
        if (has_type<double>(X)) return read_dense<double>(X, has_missing, has_categories, n_features);
        throw py::type_error(refuse("X", "be an array of float32 or float64, or a sparse matrix", describe_type(X)));
    }
    const auto parts = py::reinterpret_borrow<py::tuple>(X);
    if (parts.size() != 4)
        throw py::type_error(refuse("X", "have four parts where it is a tuple", std::to_string(parts.size())));
    if (has_type<float>(parts[0])) return read_sparse<float>(parts, has_missing, has_categories, n_features);
    if (has_type<double>(parts[0])) return read_sparse<double>(parts, has_missing, has_categories, n_features);
    throw py::type_error(refuse("data of X", "be an array of float32 or float64", describe_type(parts[0])));
}

// The same for a given number of rows.
inline Table read_table(const py::object& X, bool has_missing, bool has_categories, std::size_t n_features,
                        std::size_t n_rows = kAny) {
    Table table = read_any_table(X, has_missing, has_categories, n_features);
    if (n_rows == kAny || table.n_rows == n_rows) return table;
    throw py::value_error(refuse("X", "have " + std::to_string(n_rows) + " rows", std::to_string(table.n_rows)));
}

// Row numbers, one list a tree behind the other.
struct RowLists {
    View<const std::int64_t> index, offset;

    static RowLists read(const std::string& name, const py::object& index, const py::object& offset,
                         std::size_t n_trees) {
        return {read_array<std::int64_t>(name, index, {kAny}),
                read_array<std::int64_t>(name == "index" ? "offset" : name + "_offset", offset, {n_trees + 1})};
    }
    // Refuses rows that there are not. Needs no GIL.
    void check(const std::string& name, std::size_t n_rows) const {
        check_bounds(name == "index" ? "offset" : name + "_offset", offset, index.size());
        check_below(name, index.data, index.size(), n_rows);
    }
    std::size_t begin(std::size_t tree) const { return static_cast<std::size_t>(offset.data[tree]); }
    std::size_t end(std::size_t tree) const { return static_cast<std::size_t>(offset.data[tree + 1]); }
};

// The rows of each tree, and the arrays that they are in.
struct RowsOfTrees {
    std::vector<TreeRows> rows;
    std::vector<py::object> held;
};

// Seeds, and a number of draws.
inline void read_seeds(const py::tuple& given, RowsOfTrees& read) {
    if (given.size() != 2)
        throw py::value_error(refuse("rows", "be (seeds, n_draws)", std::to_string(given.size()) + " parts"));
    const auto seeds = read_array<std::uint32_t>("seeds of rows", given[0], {read.rows.size()});
    const py::object draws = given[1];
    const py::ssize_t n_draws = PyNumber_AsSsize_t(draws.ptr(), PyExc_ValueError);
    if (PyErr_Occurred()) throw py::error_already_set();
    if (n_draws < 0) throw py::value_error(refuse("n_draws of rows", "not be negative", std::to_string(n_draws)));
    for (std::size_t t = 0; t < read.rows.size(); ++t) {
        read.rows[t].kind = TreeRows::Kind::kSeed;
        read.rows[t].seed = seeds.data[t];
        read.rows[t].n_draws = static_cast<std::size_t>(n_draws);
    }
}

// A bag, whose rows are checked when they are counted; or (rows, weights where they score, weights where they grew the
// tree), of which contributions need the weights.
inline void read_list(const py::object& given, std::size_t n_rows, bool has_phi, bool has_psi, TreeRows& rows,
                      std::vector<py::object>& held) {
    const bool is_bag = !py::isinstance<py::tuple>(given);
    const auto parts =
        is_bag ? py::make_tuple(given, py::none(), py::none()) : py::reinterpret_borrow<py::tuple>(given);
    if (parts.size() != 3)
        throw py::value_error(refuse("rows", "hold (rows, weights, weights)", std::to_string(parts.size()) + " parts"));
    const auto listed = read_array<std::int64_t>("rows of a tree", parts[0], {kAny});
    const auto unseen = read_optional<double>("weights of rows that score", parts[1], {n_rows});
    const auto training = read_optional<double>("weights of in-bag rows", parts[2], {n_rows});
    rows.kind = is_bag ? TreeRows::Kind::kBag : TreeRows::Kind::kList;
    rows.listed = listed.data;
    rows.n_listed = listed.size();
    rows.unseen_weight = unseen.data;
    rows.training_weight = training.data;
    held.insert(held.end(), {listed.held, unseen.held, training.held});
    if (is_bag) return;
    check_below("rows of a tree", listed.data, listed.size(), n_rows);
    if (has_phi && (!unseen || static_cast<bool>(training) != has_psi)) {
        throw py::value_error("phi needs the weights of evaluation rows, and psi those of in-bag rows.");
    }
}

// None (all rows score), seeds of bags with a number of draws, or a list of bags or lists. Contributions are asked for
// where there is phi, and psi goes along with it where rows grew the trees.
inline RowsOfTrees read_rows(const py::object& rows, std::size_t n_trees, std::size_t n_rows, bool has_phi,
                             bool has_psi) {
    RowsOfTrees read{std::vector<TreeRows>(n_trees), {}};
    if (py::isinstance<py::tuple>(rows)) read_seeds(py::reinterpret_borrow<py::tuple>(rows), read);
    else if (py::isinstance<py::list>(rows)) {
        const auto lists = py::reinterpret_borrow<py::list>(rows);
        if (lists.size() != n_trees) {
            const auto n = std::to_string(n_trees);
            throw py::value_error(
                refuse("rows", "hold an item for each of " + n + " trees", std::to_string(lists.size())));
        }
        for (std::size_t t = 0; t < n_trees; ++t)
            read_list(lists[t], n_rows, has_phi, has_psi, read.rows[t], read.held);
    } else if (!rows.is_none()) {
        throw py::type_error(refuse("rows", "be None, a tuple or a list", describe_type(rows)));
    }
    for (const TreeRows& of_tree : read.rows) {
        const bool are_bags = of_tree.kind == TreeRows::Kind::kSeed || of_tree.kind == TreeRows::Kind::kBag;
        if (has_phi && of_tree.kind != TreeRows::Kind::kList && has_psi != are_bags) {
            throw py::value_error(are_bags ? "psi must be given with phi where rows are bags, got None."
                                           : "psi must be None where every row scores, got an array.");
        }
    }
    return read;
}

}  // namespace truewood
