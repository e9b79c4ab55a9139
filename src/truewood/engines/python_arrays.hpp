// What Python gives, as the kernel reads it. Arrays are taken as they are, never converted.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "score_call.hpp"
#include "target.hpp"
#include "tree.hpp"
#include "walk.hpp"

namespace truewood {

namespace py = pybind11;

template <class T>
using Array = py::array_t<T, py::array::c_style>;

template <class T>
const T* data_or_null(const std::optional<Array<T>>& array) {
    return array ? array->data() : nullptr;
}

// Trees, and the arrays that they are in.
class Forest {
public:
    // Trees one behind the other in the arrays of a TreeEnsemble; the last three arrays come together.
    static Forest of_ensemble(const Array<std::int32_t>& feature, const Array<double>& threshold,
                              const Array<std::int32_t>& left, const Array<std::int32_t>& right,
                              const Array<bool>& missing_left, const Array<double>& weight, const Array<double>& value,
                              const Array<std::int64_t>& offset, const std::optional<Array<std::int32_t>>& node_set,
                              const std::optional<Array<std::int64_t>>& set_offset,
                              const std::optional<Array<std::uint32_t>>& bits) {
        Forest forest;
        forest.kept_ = {feature, threshold, left, right, missing_left, weight, value, offset};
        forest.n_columns_ = value.shape(1);
        if (node_set) forest.kept_.insert(forest.kept_.end(), {*node_set, *set_offset, *bits});
        for (py::ssize_t t = 0; t + 1 < offset.size(); ++t) {
            const std::int64_t first = offset.data()[t];
            forest.trees_.push_back({static_cast<std::size_t>(offset.data()[t + 1] - first), field(feature, first),
                                     field(threshold, first), field(left, first), field(right, first),
                                     field(missing_left, first), first, field(weight, first), field(value, first),
                                     value.strides(1), node_set ? node_set->data() + first : nullptr,
                                     data_or_null(set_offset), data_or_null(bits)});
        }
        return forest;
    }

    // Trees where they lie: for each feature, threshold, left, right, missing_left, weight and value.
    static Forest of_trees(const py::list& trees) {
        Forest forest;
        for (const py::handle item : trees) {
            const auto parts = item.cast<py::tuple>();
            std::vector<py::array> arrays;
            for (std::size_t k = 0; k < 7; ++k) arrays.push_back(parts[k].cast<py::array>());
            const py::ssize_t n_nodes = arrays[0].shape(0);
            for (std::size_t k = 0; k < 7; ++k) {
                const bool is_number = k == 1 || k >= 5;
                const char kind = arrays[k].dtype().kind();
                const auto size = arrays[k].itemsize();
                const bool fits = is_number ? kind == 'f' && size == 8
                                  : k == 4  ? (kind == 'b' || kind == 'u') && size == 1
                                            : kind == 'i' && (size == 4 || size == 8);
                if (!fits || arrays[k].ndim() != (k == 6 ? 2 : 1) || arrays[k].shape(0) != n_nodes || n_nodes < 1) {
                    throw BrokenTree("the arrays of a tree have other types or shapes than they should.");
                }
            }
            if (arrays[6].shape(1) != forest.n_columns_ && !forest.trees_.empty()) {
                throw BrokenTree("the trees have values of different widths.");
            }
            forest.trees_.push_back({static_cast<std::size_t>(n_nodes), field(arrays[0], 0), field(arrays[1], 0),
                                     field(arrays[2], 0), field(arrays[3], 0), field(arrays[4], 0), 0,
                                     field(arrays[5], 0), field(arrays[6], 0), arrays[6].strides(1), nullptr, nullptr,
                                     nullptr});
            forest.n_columns_ = arrays[6].shape(1);
            for (auto& array : arrays) forest.kept_.push_back(std::move(array));
        }
        return forest;
    }

    const std::vector<Source>& trees() const { return trees_; }
    std::size_t n_columns() const { return static_cast<std::size_t>(n_columns_); }
    bool has_categories() const { return !trees_.empty() && trees_[0].node_set != nullptr; }

private:
    std::vector<Source> trees_;
    std::vector<py::array> kept_;
    py::ssize_t n_columns_ = 0;

    static Field field(const py::array& array, std::int64_t first) {
        const py::ssize_t stride = array.strides(0);
        return {static_cast<const char*>(array.data()) + first * stride, stride,
                static_cast<std::size_t>(array.itemsize())};
    }
};

// A target, and the arrays that it is in. `columns` says where the columns of each output begin, and where the last
// ends.
class TargetArrays {
public:
    TargetArrays(std::optional<Array<std::int32_t>> codes, std::optional<Array<double>> numbers,
                 Array<std::int64_t> columns, std::optional<Array<double>> row_weight)
        : codes_(std::move(codes)),
          numbers_(std::move(numbers)),
          columns_(std::move(columns)),
          row_weight_(std::move(row_weight)) {}

    Target view() const {
        const auto n_outputs = static_cast<std::size_t>(columns_.size() - 1);
        return {data_or_null(codes_),
                data_or_null(numbers_),
                numbers_ ? static_cast<std::size_t>(numbers_->shape(1)) : 0,
                n_outputs,
                static_cast<std::size_t>(columns_.data()[n_outputs]),
                columns_.data(),
                data_or_null(row_weight_),
                numbers_.has_value()};
    }

private:
    std::optional<Array<std::int32_t>> codes_;
    std::optional<Array<double>> numbers_;
    Array<std::int64_t> columns_;
    std::optional<Array<double>> row_weight_;
};

template <class Matrix>
std::unique_ptr<Walker> make_walker_of(const Matrix& matrix, bool has_missing, bool has_categories, std::size_t n) {
    if (has_missing && has_categories) return std::make_unique<WalkerOf<true, true, Matrix>>(matrix, n);
    if (has_missing) return std::make_unique<WalkerOf<true, false, Matrix>>(matrix, n);
    if (has_categories) return std::make_unique<WalkerOf<false, true, Matrix>>(matrix, n);
    return std::make_unique<WalkerOf<false, false, Matrix>>(matrix, n);
}

template <class T>
std::unique_ptr<Walker> make_walker_for(const py::object& X, bool has_missing, bool has_categories, std::size_t n) {
    if (!py::isinstance<py::tuple>(X)) {
        const auto dense = X.cast<Array<T>>();
        const DenseMatrix<T> matrix{dense.data(), static_cast<std::size_t>(dense.shape(1))};
        return make_walker_of(matrix, has_missing, has_categories, n);
    }
    const auto parts = X.cast<py::tuple>();
    const auto indptr = parts[2].cast<Array<std::int64_t>>();
    const SparseMatrix<T> matrix{parts[0].cast<Array<T>>().data(), parts[1].cast<Array<std::int32_t>>().data(),
                                 indptr.data(), parts[3].cast<T>(), static_cast<std::size_t>(indptr.size() - 1)};
    return make_walker_of(matrix, has_missing, has_categories, n);
}

// X is one array, or (data, indices, indptr, fill) of a sparse matrix; the caller keeps it.
inline std::unique_ptr<Walker> make_walker(const py::object& X, bool has_missing, bool has_categories,
                                           std::size_t n_features) {
    const py::object first = py::isinstance<py::tuple>(X) ? py::object(X.cast<py::tuple>()[0]) : X;
    if (py::isinstance<py::array_t<float>>(first))
        return make_walker_for<float>(X, has_missing, has_categories, n_features);
    return make_walker_for<double>(X, has_missing, has_categories, n_features);
}

// The rows of each tree: None (all rows), an array of seeds with a number of draws, a list of bags, or a list of
// (rows, weights where they score, weights where they grew the tree).
inline std::vector<TreeRows> read_rows(const py::object& rows, std::size_t n_trees) {
    std::vector<TreeRows> read(n_trees);
    if (rows.is_none()) return read;
    if (py::isinstance<py::tuple>(rows)) {
        const auto parts = rows.cast<py::tuple>();
        const auto seeds = parts[0].cast<Array<std::uint32_t>>();
        for (std::size_t t = 0; t < n_trees; ++t) {
            read[t].kind = TreeRows::Kind::kSeed;
            read[t].seed = seeds.at(static_cast<py::ssize_t>(t));
            read[t].n_draws = parts[1].cast<std::size_t>();
        }
        return read;
    }
    const auto lists = rows.cast<py::list>();
    for (std::size_t t = 0; t < n_trees; ++t) {
        const py::object of_tree = lists[t];
        const bool is_bag = !py::isinstance<py::tuple>(of_tree);
        const py::object listed = is_bag ? of_tree : py::object(of_tree.cast<py::tuple>()[0]);
        const auto index = listed.cast<Array<std::int64_t>>();
        read[t].kind = is_bag ? TreeRows::Kind::kBag : TreeRows::Kind::kList;
        read[t].listed = index.data();
        read[t].n_listed = static_cast<std::size_t>(index.size());
        if (is_bag) continue;
        const auto parts = of_tree.cast<py::tuple>();
        if (!parts[1].is_none()) read[t].unseen_weight = parts[1].cast<Array<double>>().data();
        if (!parts[2].is_none()) read[t].training_weight = parts[2].cast<Array<double>>().data();
    }
    return read;
}

}  // namespace truewood
