// Trees that Python gives, as the kernel reads them.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "checked_arrays.hpp"
#include "target.hpp"
#include "tree.hpp"

namespace truewood {

namespace py = pybind11;

// Nodes are numbered by 32 bits.
constexpr std::size_t kMostNodes = std::numeric_limits<std::int32_t>::max();

// Trees, and the arrays that they are in.
class Forest {
public:
    // Trees in the arrays of a TreeEnsemble. The three arrays of categories come together.
    static Forest of_ensemble(const py::object& feature, const py::object& threshold, const py::object& left,
                              const py::object& right, const py::object& missing_left, const py::object& weight,
                              const py::object& value, const py::object& offset, const py::object& node_set,
                              const py::object& set_offset, const py::object& bits, const py::object& column) {
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
        const TreeArrays all{n,
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
            TreeArrays tree = all;
            tree.n_nodes = static_cast<std::size_t>(bounds.data[t + 1] - first);
            tree.first = first;
            for (Field* field : {&tree.feature, &tree.threshold, &tree.left, &tree.right, &tree.missing_left,
                                 &tree.weight, &tree.value}) {
                field->data += first * field->stride;
            }
            if (sets) tree.node_set += first;
            forest.trees_.push_back(tree);
        }
        const auto columns = read_optional<std::int32_t>("column", column, {forest.trees_.size()});
        if (columns) forest.column_.assign(columns.data, columns.data + columns.size());
        else forest.column_.assign(forest.trees_.size(), 0);
        forest.n_columns_ = values.shape[1];
        forest.n_nodes_ = n;
        forest.is_ensemble_ = true;
        return forest;
    }

    // Trees in place: for each feature, threshold, left, right, missing_left, weight and value, at any stride.
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
        forest.column_.assign(forest.trees_.size(), 0);
        return forest;
    }

    const std::vector<TreeArrays>& trees() const { return trees_; }
    std::size_t n_trees() const { return trees_.size(); }
    std::size_t n_nodes() const { return n_nodes_; }
    std::size_t n_columns() const { return n_columns_; }
    // Features of all nodes of an ensemble.
    const std::int32_t* features() const {
        return trees_.empty() ? nullptr : reinterpret_cast<const std::int32_t*>(trees_[0].feature.data);
    }
    // The column of the target that each tree predicts, 0 for trees that predict all of them.
    const std::vector<std::int32_t>& column() const { return column_; }
    void check_column(const Target& target) const {
        if (target.has_classes()) return;
        check_below("column", column_.data(), column_.size(), target.stride - target.n_columns + 1);
    }
    bool has_categories() const { return !trees_.empty() && trees_[0].node_set != nullptr; }
    // For results by node: only nodes of an ensemble are numbered.
    void must_be_ensemble() const {
        if (!is_ensemble_) throw py::value_error(refuse("forest", "be of an ensemble", "trees in place"));
    }

private:
    std::vector<TreeArrays> trees_;
    std::vector<std::int32_t> column_;
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

}  // namespace truewood
