// Trees passed from Python.
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

// Node numbers have 32 bits.
constexpr std::size_t kMostNodes = std::numeric_limits<std::int32_t>::max();

// The nodes of all trees of an ensemble, concatenated.
struct NodeArrays {
    NodeArrays(const py::object& feature, const py::object& threshold, const py::object& left, const py::object& right,
               const py::object& missing_left, const py::object& weight, const py::object& value)
        : feature(read_array<std::int32_t>("feature", feature, {kAny})),
          left(read_array<std::int32_t>("left", left, {size()})),
          right(read_array<std::int32_t>("right", right, {size()})),
          missing_left(read_array<bool>("missing_left", missing_left, {size()})),
          threshold(read_array<double>("threshold", threshold, {size()})),
          weight(read_array<double>("weight", weight, {size()})),
          value(read_array<double>("value", value, {size(), kAny})) {
        if (size() > kMostNodes) {
            throw py::value_error(describe_mismatch("feature", "have fewer than 2^31 nodes", std::to_string(size())));
        }
    }
    std::size_t size() const { return feature.size(); }

    View<const std::int32_t> feature, left, right;
    View<const bool> missing_left;
    View<const double> threshold, weight, value;
};

// The sets of categories that nodes split on; -1 in `node_set` for a node that splits on a threshold.
struct CategorySets {
    CategorySets(const py::object& node_set, const py::object& offset, const py::object& bits)
        : node_set(read_array<std::int32_t>("node_set", node_set, {kAny})),
          offset(read_array<std::int64_t>("offset of categories", offset, {kAny})),
          bits(read_array<std::uint32_t>("bits", bits, {kAny})) {
        check_bounds("offset of categories", this->offset, this->bits.size());
    }

    View<const std::int32_t> node_set;
    View<const std::int64_t> offset;
    View<const std::uint32_t> bits;
};

// Trees, and the arrays that hold them.
class Forest {
public:
    // The trees of a TreeEnsemble; tree t has the nodes offset[t] .. offset[t + 1].
    static Forest of_ensemble(const NodeArrays& nodes, const py::object& offset, const CategorySets* categories,
                              const py::object& column) {
        Forest forest;
        const std::size_t n = nodes.size();
        const auto bounds = read_array<std::int64_t>("offset", offset, {kAny});
        check_bounds("offset", bounds, n, 1);
        TreeArrays all;
        all.feature = forest.keep(nodes.feature);
        all.threshold = forest.keep(nodes.threshold);
        all.left = forest.keep(nodes.left);
        all.right = forest.keep(nodes.right);
        all.missing_left = forest.keep(nodes.missing_left);
        all.weight = forest.keep(nodes.weight);
        all.value = forest.keep(nodes.value);
        all.next_column = sizeof(double);
        if (categories) {
            if (categories->node_set.size() != n) {
                throw py::value_error(describe_mismatch("node_set", "have shape " + describe_shape({n}),
                                                        describe_shape(categories->node_set.shape)));
            }
            all.node_set = categories->node_set.data;
            all.set_offset = categories->offset.data;
            all.bits = categories->bits.data;
            all.n_sets = categories->offset.size() - 1;
            all.n_words = categories->bits.size();
            forest.held_.insert(forest.held_.end(),
                                {categories->node_set.held, categories->offset.held, categories->bits.held});
        }
        for (std::size_t t = 0; t + 1 < bounds.size(); ++t) {
            const std::int64_t first = bounds.data[t];
            TreeArrays tree = all;
            tree.n_nodes = static_cast<std::size_t>(bounds.data[t + 1] - first);
            tree.first = first;
            for (Field* field : {&tree.feature, &tree.threshold, &tree.left, &tree.right, &tree.missing_left,
                                 &tree.weight, &tree.value}) {
                field->data += first * field->stride;
            }
            if (categories) tree.node_set += first;
            forest.trees_.push_back(tree);
        }
        const auto columns = read_optional<std::int32_t>("column", column, {forest.trees_.size()});
        if (columns) forest.column_.assign(columns.data, columns.data + columns.size());
        else forest.column_.assign(forest.trees_.size(), 0);
        forest.n_columns_ = nodes.value.shape[1];
        forest.n_nodes_ = n;
        forest.is_ensemble_ = true;
        return forest;
    }

    // Trees in the arrays of their library, at any stride: feature, threshold, left, right, missing_left, weight and
    // value of each tree.
    static Forest of_trees(const py::list& trees) {
        Forest forest;
        for (const py::handle item : trees) {
            if (!py::isinstance<py::tuple>(item) || py::len(item) != 7) {
                throw py::type_error(describe_mismatch("trees", "hold tuples of seven arrays", describe_type(item)));
            }
            const auto parts = py::reinterpret_borrow<py::tuple>(item);
            TreeArrays tree;
            tree.feature = forest.keep_integers("feature", parts[0]);
            tree.threshold = forest.keep_numbers("threshold", parts[1]);
            tree.left = forest.keep_integers("left", parts[2]);
            tree.right = forest.keep_integers("right", parts[3]);
            tree.missing_left = forest.keep_flags("missing_left", parts[4]);
            tree.weight = forest.keep_numbers("weight", parts[5]);
            tree.value = forest.keep_numbers("value", parts[6], 2);
            tree.n_nodes = py::len(parts[0]);
            for (const py::handle part : parts) {
                if (py::len(part) != tree.n_nodes || tree.n_nodes < 1 || tree.n_nodes > kMostNodes) {
                    throw BrokenTree("the arrays of a tree must have the same length, from 1 to 2^31 - 1.");
                }
            }
            const auto values = py::reinterpret_borrow<py::array>(parts[6]);
            const auto n_columns = static_cast<std::size_t>(values.shape(1));
            if (n_columns != forest.n_columns_ && !forest.trees_.empty()) {
                throw BrokenTree("the trees must have values of the same width.");
            }
            tree.next_column = values.strides(1);
            forest.trees_.push_back(tree);
            forest.n_columns_ = n_columns;
            forest.n_nodes_ += tree.n_nodes;
        }
        forest.column_.assign(forest.trees_.size(), 0);
        return forest;
    }

    const std::vector<TreeArrays>& trees() const { return trees_; }
    std::size_t n_trees() const { return trees_.size(); }
    std::size_t n_nodes() const { return n_nodes_; }
    std::size_t n_columns() const { return n_columns_; }
    // Features of all nodes; ensembles only.
    const std::int32_t* features() const {
        return trees_.empty() ? nullptr : reinterpret_cast<const std::int32_t*>(trees_[0].feature.data);
    }
    // The target column that each tree predicts; 0 for trees that predict all columns.
    const std::vector<std::int32_t>& column() const { return column_; }
    void check_column(const Target& target) const {
        if (target.has_classes()) return;
        check_below("column", column_.data(), column_.size(), target.stride - target.n_columns + 1);
    }
    bool has_categories() const { return !trees_.empty() && trees_[0].has_categories(); }
    // Results by node need an ensemble, because only its nodes have numbers across trees.
    void must_be_ensemble() const {
        if (!is_ensemble_) throw py::value_error(describe_mismatch("forest", "be an ensemble", "separate trees"));
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
        if (!has_its_type) throw BrokenTree(describe_mismatch(name, expected, describe_type(given)));
        const auto array = py::reinterpret_borrow<py::array>(given);
        if (array.ndim() != n_sides) {
            const auto n = std::to_string(n_sides), got = std::to_string(array.ndim());
            throw BrokenTree(
                describe_mismatch(name, expected + " with " + n + (n_sides == 1 ? " dimension" : " dimensions"), got));
        }
        held_.push_back(array);
        return {static_cast<const char*>(array.data()), array.strides(0), static_cast<std::size_t>(array.itemsize())};
    }
};

}  // namespace truewood
