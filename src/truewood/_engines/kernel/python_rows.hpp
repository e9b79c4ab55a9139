// Tables and row numbers passed from Python.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "checked_arrays.hpp"
#include "matrix.hpp"
#include "row_matrix.hpp"
#include "tree_rows.hpp"

namespace truewood {

namespace py = pybind11;

// Rejects column indices that do not ascend within a row, which binary search would miss, or that X does not have.
inline void check_indices(const std::int32_t* indices, const View<const std::int64_t>& indptr, std::size_t n_features) {
    for (std::size_t i = 0; i + 1 < indptr.size(); ++i) {
        std::int64_t before = -1;
        bool rises = true;
        for (std::int64_t k = indptr.data[i]; k < indptr.data[i + 1]; ++k) {
            rises &= indices[k] > before;
            before = indices[k];
        }
        if (rises && before < static_cast<std::int64_t>(n_features)) continue;
        throw py::value_error(describe_mismatch("indices of X",
                                                "ascend within each row and be less than " + std::to_string(n_features),
                                                "others in row " + std::to_string(i)));
    }
}

template <class T>
RowMatrix read_sparse(const py::tuple& parts, bool has_missing, std::size_t n_features, std::vector<py::object>& held) {
    const auto data = read_array<T>("data of X", parts[0], {kAny});
    const auto indices = read_array<std::int32_t>("indices of X", parts[1], {data.size()});
    const auto indptr = read_array<std::int64_t>("indptr of X", parts[2], {kAny});
    if (!py::isinstance<py::float_>(parts[3])) {
        throw py::type_error(describe_mismatch("fill of X", "be a float", describe_type(parts[3])));
    }
    check_bounds("indptr of X", indptr, kAny);
    const std::size_t n_rows = indptr.size() - 1;
    if (static_cast<std::size_t>(indptr.data[n_rows]) > data.size()) {
        throw py::value_error(describe_mismatch("indptr of X", "end at " + std::to_string(data.size()) + " at most",
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

// X is an array, or (data, indices, indptr, fill) of a sparse matrix.
inline RowMatrix read_matrix(const py::object& X, bool has_missing, std::size_t n_features,
                             std::vector<py::object>& held) {
    if (!py::isinstance<py::tuple>(X)) {
        if (has_type<float>(X)) return read_dense<float>(X, has_missing, n_features, held);
        if (has_type<double>(X)) return read_dense<double>(X, has_missing, n_features, held);
        throw py::type_error(
            describe_mismatch("X", "be an array of float32 or float64, or a sparse matrix", describe_type(X)));
    }
    const auto parts = py::reinterpret_borrow<py::tuple>(X);
    if (parts.size() != 4)
        throw py::type_error(describe_mismatch("X", "have four parts if it is a tuple", std::to_string(parts.size())));
    if (has_type<float>(parts[0])) return read_sparse<float>(parts, has_missing, n_features, held);
    if (has_type<double>(parts[0])) return read_sparse<double>(parts, has_missing, n_features, held);
    throw py::type_error(describe_mismatch("data of X", "be an array of float32 or float64", describe_type(parts[0])));
}

// A table, and the arrays that hold it.
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

// Row numbers of all trees, concatenated.
class RowLists {
public:
    RowLists(const py::object& index, const py::object& offset)
        : index_(read_array<std::int64_t>("index", index, {kAny})),
          offset_(read_array<std::int64_t>("offset", offset, {kAny})) {}

    // Rejects lists for a different number of trees, and rows that do not exist. Does not need the GIL.
    void check(const std::string& name, std::size_t n_trees, std::size_t n_rows) const {
        if (offset_.size() != n_trees + 1) {
            throw std::invalid_argument(describe_mismatch(
                "offset of " + name, "have shape " + describe_shape({n_trees + 1}), describe_shape(offset_.shape)));
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

// Which rows evaluate each tree, and the arrays that hold them.
class TreeRowArrays {
public:
    static TreeRowArrays every_row() { return TreeRowArrays(TreeRows::Kind::kAll); }

    static TreeRowArrays of_seeds(const py::object& seeds, std::size_t n_draws) {
        TreeRowArrays rows(TreeRows::Kind::kSeed);
        rows.seeds_ = read_array<std::uint32_t>("seeds", seeds, {kAny});
        rows.n_draws_ = n_draws;
        return rows;
    }

    // The rows of a bag are checked when they are counted.
    static TreeRowArrays of_bags(const py::list& bags) {
        TreeRowArrays rows(TreeRows::Kind::kBag);
        for (const py::handle bag : bags)
            rows.trees_.push_back({read_array<std::int64_t>("bags", bag, {kAny}), {}, {}});
        return rows;
    }

    // Evaluation rows of each tree, and weights of all rows in both roles, which influence needs.
    static TreeRowArrays of_lists(const py::list& lists, const std::optional<py::list>& evaluation_weight,
                                  const std::optional<py::list>& inbag_weight) {
        TreeRowArrays rows(TreeRows::Kind::kList);
        for (const py::handle listed : lists) {
            rows.trees_.push_back({read_array<std::int64_t>("rows", listed, {kAny}), {}, {}});
        }
        rows.read_weights("evaluation_weight", evaluation_weight, &OfTree::evaluation_weight);
        rows.read_weights("inbag_weight", inbag_weight, &OfTree::inbag_weight);
        return rows;
    }

    std::vector<TreeRows> view(std::size_t n_trees, std::size_t n_rows) const {
        const bool has_seeds = kind_ == TreeRows::Kind::kSeed, has_lists = !has_seeds && kind_ != TreeRows::Kind::kAll;
        const std::size_t n_given = has_seeds ? seeds_.size() : has_lists ? trees_.size() : n_trees;
        if (n_given != n_trees) {
            throw py::value_error(describe_mismatch(
                "rows", "have one item for each of " + std::to_string(n_trees) + " trees", std::to_string(n_given)));
        }
        std::vector<TreeRows> rows(n_trees);
        for (std::size_t t = 0; t < n_trees; ++t) {
            rows[t].kind = kind_;
            if (has_seeds) {
                rows[t].seed = seeds_.data[t];
                rows[t].n_draws = n_draws_;
            }
            if (!has_lists) continue;
            const OfTree& tree = trees_[t];
            rows[t].listed = tree.listed.data;
            rows[t].n_listed = tree.listed.size();
            rows[t].evaluation_weight = view_weight("evaluation_weight", tree.evaluation_weight, n_rows);
            rows[t].inbag_weight = view_weight("inbag_weight", tree.inbag_weight, n_rows);
            if (kind_ == TreeRows::Kind::kList) check_below("rows", tree.listed.data, tree.listed.size(), n_rows);
        }
        return rows;
    }

    // Rejects lists that do not determine the weights of evaluation rows, or that have in-bag rows.
    void check_evaluation_weights() const {
        for (const OfTree& tree : trees_) {
            if (kind_ != TreeRows::Kind::kList || (tree.evaluation_weight && !tree.inbag_weight)) continue;
            throw py::value_error("rows must have evaluation_weight, and no inbag_weight.");
        }
    }

    // Rejects rows that do not determine the weights that influence needs.
    void check_influence(bool has_inbag) const {
        if (kind_ == TreeRows::Kind::kList) {
            for (const OfTree& tree : trees_) {
                if (tree.evaluation_weight && static_cast<bool>(tree.inbag_weight) == has_inbag) continue;
                throw py::value_error(
                    "rows must have evaluation_weight for influence, and inbag_weight if and only if inbag_influence "
                    "is "
                    "an array.");
            }
        } else if (has_inbag != (kind_ != TreeRows::Kind::kAll)) {
            throw py::value_error(has_inbag
                                      ? "inbag_influence must be None if every row evaluates every tree, got an array."
                                      : "inbag_influence must be an array if rows are bags, got None.");
        }
    }

private:
    struct OfTree {
        View<const std::int64_t> listed;
        View<const double> evaluation_weight, inbag_weight;
    };
    TreeRows::Kind kind_;
    View<const std::uint32_t> seeds_;
    std::size_t n_draws_ = 0;
    std::vector<OfTree> trees_;

    explicit TreeRowArrays(TreeRows::Kind kind) : kind_(kind) {}

    void read_weights(const char* name, const std::optional<py::list>& weights, View<const double> OfTree::* into) {
        if (!weights) return;
        if (weights->size() != trees_.size()) {
            throw py::value_error(
                describe_mismatch(name, "have one item for each of " + std::to_string(trees_.size()) + " trees",
                                  std::to_string(weights->size())));
        }
        for (std::size_t t = 0; t < trees_.size(); ++t)
            trees_[t].*into = read_array<double>(name, (*weights)[t], {kAny});
    }

    static const double* view_weight(const char* name, const View<const double>& weight, std::size_t n_rows) {
        if (weight && weight.size() != n_rows) {
            throw py::value_error(describe_mismatch(name,
                                                    "hold one weight for each of " + std::to_string(n_rows) + " rows",
                                                    std::to_string(weight.size())));
        }
        return weight.data;
    }
};

}  // namespace truewood
