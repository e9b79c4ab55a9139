// Tables and row numbers that Python gives, as the kernel reads them.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "checked_arrays.hpp"
#include "matrix.hpp"
#include "tree_rows.hpp"
#include "walk.hpp"

namespace truewood {

namespace py = pybind11;

// Refuses columns that do not ascend within each row, or that X does not have: a binary search would miss them.
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
RowMatrix read_sparse(const py::tuple& parts, bool has_missing, std::size_t n_features, std::vector<py::object>& held) {
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
    held = {data.held, indices.held, indptr.held};
    return {matrix, has_missing, n_rows, n_features};
}

template <class T>
RowMatrix read_dense(const py::object& X, bool has_missing, std::size_t n_features, std::vector<py::object>& held) {
    const auto dense = read_array<T>("X", X, {kAny, n_features});
    const DenseMatrix<T> matrix{dense.data, n_features};
    held = {dense.held};
    return {matrix, has_missing, dense.shape[0], n_features};
}

// X is one array, or (data, indices, indptr, fill) of a sparse matrix.
inline RowMatrix read_matrix(const py::object& X, bool has_missing, std::size_t n_features,
                             std::vector<py::object>& held) {
    if (!py::isinstance<py::tuple>(X)) {
        if (has_type<float>(X)) return read_dense<float>(X, has_missing, n_features, held);
        if (has_type<double>(X)) return read_dense<double>(X, has_missing, n_features, held);
        throw py::type_error(refuse("X", "be an array of float32 or float64, or a sparse matrix", describe_type(X)));
    }
    const auto parts = py::reinterpret_borrow<py::tuple>(X);
    if (parts.size() != 4)
        throw py::type_error(refuse("X", "have four parts where it is a tuple", std::to_string(parts.size())));
    if (has_type<float>(parts[0])) return read_sparse<float>(parts, has_missing, n_features, held);
    if (has_type<double>(parts[0])) return read_sparse<double>(parts, has_missing, n_features, held);
    throw py::type_error(refuse("data of X", "be an array of float32 or float64", describe_type(parts[0])));
}

// A table, and the arrays that it is in.
class Table {
public:
    Table(const py::object& X, bool has_missing, std::size_t n_features)
        : rows_(read_matrix(X, has_missing, n_features, held_)) {}
    const RowMatrix& rows() const { return rows_; }
    std::size_t n_rows() const { return rows_.n_rows; }
    std::size_t n_features() const { return rows_.n_features; }

private:
    std::vector<py::object> held_;
    RowMatrix rows_;
};

// Row numbers: the lists of all trees, one after the other.
class RowLists {
public:
    RowLists(const py::object& index, const py::object& offset)
        : index_(read_array<std::int64_t>("index", index, {kAny})),
          offset_(read_array<std::int64_t>("offset", offset, {kAny})) {}

    // Refuses lists for another number of trees, and rows that do not exist. Needs no GIL.
    void check(const std::string& name, std::size_t n_trees, std::size_t n_rows) const {
        if (offset_.size() != n_trees + 1) {
            throw std::invalid_argument(refuse("offset of " + name, "be of shape " + describe_shape({n_trees + 1}),
                                               describe_shape(offset_.shape)));
        }
        check_bounds("offset of " + name, offset_, size());
        check_below("index of " + name, index_.data, size(), n_rows);
    }
    std::size_t size() const { return index_.size(); }
    const std::int64_t* index() const { return index_.data; }
    std::size_t begin(std::size_t tree) const { return static_cast<std::size_t>(offset_.data[tree]); }
    std::size_t end(std::size_t tree) const { return static_cast<std::size_t>(offset_.data[tree + 1]); }

private:
    View<const std::int64_t> index_, offset_;
};

// The rows of each tree, and the arrays that hold them.
struct HeldTreeRows {
    std::vector<TreeRows> rows;
    std::vector<py::object> held;
};

// Seeds, and a number of draws.
inline void read_seeds(const py::tuple& given, HeldTreeRows& read) {
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

// A bag, whose rows are checked when they are counted; or (evaluation rows, weights of all rows as evaluation rows, the
// same as in-bag rows). Influence needs the weights.
inline void read_list(const py::object& given, std::size_t n_rows, bool has_influence, bool has_inbag, TreeRows& rows,
                      std::vector<py::object>& held) {
    const bool is_bag = !py::isinstance<py::tuple>(given);
    const auto parts =
        is_bag ? py::make_tuple(given, py::none(), py::none()) : py::reinterpret_borrow<py::tuple>(given);
    if (parts.size() != 3)
        throw py::value_error(refuse("rows", "hold (rows, weights, weights)", std::to_string(parts.size()) + " parts"));
    const auto listed = read_array<std::int64_t>("rows of a tree", parts[0], {kAny});
    const auto evaluation = read_optional<double>("weights of evaluation rows", parts[1], {n_rows});
    const auto inbag = read_optional<double>("weights of in-bag rows", parts[2], {n_rows});
    rows.kind = is_bag ? TreeRows::Kind::kBag : TreeRows::Kind::kList;
    rows.listed = listed.data;
    rows.n_listed = listed.size();
    rows.evaluation_weight = evaluation.data;
    rows.inbag_weight = inbag.data;
    held.insert(held.end(), {listed.held, evaluation.held, inbag.held});
    if (is_bag) return;
    check_below("rows of a tree", listed.data, listed.size(), n_rows);
    if (has_influence && (!evaluation || static_cast<bool>(inbag) != has_inbag)) {
        throw py::value_error(
            "influence needs the weights of evaluation rows, and inbag_influence those of in-bag rows.");
    }
}

// None (all rows evaluate every tree), seeds of bags with a number of draws, or a list of bags or lists.
inline HeldTreeRows read_rows(const py::object& rows, std::size_t n_trees, std::size_t n_rows, bool has_influence,
                              bool has_inbag) {
    HeldTreeRows read{std::vector<TreeRows>(n_trees), {}};
    if (py::isinstance<py::tuple>(rows)) read_seeds(py::reinterpret_borrow<py::tuple>(rows), read);
    else if (py::isinstance<py::list>(rows)) {
        const auto lists = py::reinterpret_borrow<py::list>(rows);
        if (lists.size() != n_trees) {
            const auto n = std::to_string(n_trees);
            throw py::value_error(
                refuse("rows", "hold an item for each of " + n + " trees", std::to_string(lists.size())));
        }
        for (std::size_t t = 0; t < n_trees; ++t)
            read_list(lists[t], n_rows, has_influence, has_inbag, read.rows[t], read.held);
    } else if (!rows.is_none()) {
        throw py::type_error(refuse("rows", "be None, a tuple or a list", describe_type(rows)));
    }
    for (const TreeRows& of_tree : read.rows) {
        const bool are_bags = of_tree.kind == TreeRows::Kind::kSeed || of_tree.kind == TreeRows::Kind::kBag;
        if (has_influence && of_tree.kind != TreeRows::Kind::kList && has_inbag != are_bags) {
            throw py::value_error(are_bags ? "inbag_influence must be given where rows are bags, got None."
                                           : "inbag_influence must be None where every row scores, got an array.");
        }
    }
    return read;
}

}  // namespace truewood
