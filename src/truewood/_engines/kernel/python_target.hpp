// Targets and row terms passed from Python.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "checked_arrays.hpp"
#include "row_terms.hpp"
#include "target.hpp"

namespace truewood {

namespace py = pybind11;

// A target, and the arrays that hold it. Output o has the columns columns[o] .. columns[o + 1].
class TargetArrays {
public:
    TargetArrays(const py::object& codes, const py::object& numbers, const py::object& columns,
                 const py::object& row_weight, const py::object& origin, const py::object& largest)
        : columns_(read_array<std::int64_t>("columns", columns, {kAny})) {
        if (columns_.size() < 2)
            throw py::value_error(describe_mismatch("columns", "hold at least two numbers", "fewer"));
        if (codes.is_none() == numbers.is_none()) {
            throw py::value_error(describe_mismatch("codes or numbers", "be an array, but not both",
                                                    codes.is_none() ? "neither" : "both"));
        }
        codes_ = read_optional<std::int32_t>("codes", codes, {kAny, columns_.size() - 1});
        numbers_ = read_optional<double>("numbers", numbers, {kAny, kAny});
        row_weight_ = read_optional<double>("row_weight", row_weight, {n_rows()});
        origin_ = read_optional<double>("origin", origin, {kAny});
        largest_ = read_optional<double>("largest", largest, {kAny});
    }

    // The target of n_rows rows, all of them checked.
    Target view(std::size_t n_rows_asked) const {
        check_rows(n_rows_asked);
        const Target target = view();
        check_codes();
        return target;
    }

    // The target; the caller checks the rows that it reads.
    Target view() const {
        const std::size_t n_outputs = columns_.size() - 1;
        check_bounds("columns", columns_, kAny, 1);
        Target target;
        target.codes = codes_.data;
        target.numbers = numbers_.data;
        target.stride = numbers_ ? numbers_.shape[1] : 0;
        target.n_outputs = n_outputs;
        target.n_columns = static_cast<std::size_t>(columns_.data[n_outputs]);
        target.columns = columns_.data;
        target.row_weight = row_weight_.data;
        target.has_squares = static_cast<bool>(numbers_);
        if (numbers_ && target.n_columns > target.stride) {
            throw std::invalid_argument(describe_mismatch(
                "numbers", "have " + std::to_string(target.n_columns) + " columns", std::to_string(target.stride)));
        }
        return target;
    }

    // The target with the origin and the largest absolute value of each column, which scores need.
    Target view_for_scores() const {
        Target target = view();
        const auto n = std::to_string(target.n_columns);
        if (!origin_ || origin_.size() < target.n_columns) {
            throw py::value_error(describe_mismatch("origin", "hold at least " + n + " numbers",
                                                    origin_ ? std::to_string(origin_.size()) : "None"));
        }
        if (!largest_ || largest_.size() != target.n_columns) {
            throw py::value_error(describe_mismatch("largest", "hold " + n + " numbers",
                                                    largest_ ? std::to_string(largest_.size()) : "None"));
        }
        target.origin = origin_.data;
        target.largest = largest_.data;
        return target;
    }

    std::size_t n_rows() const { return codes_ ? codes_.shape[0] : numbers_.shape[0]; }
    void check_rows(std::size_t n_rows_asked) const {
        if (n_rows() == n_rows_asked) return;
        const auto asked = std::to_string(n_rows_asked);
        throw std::invalid_argument(describe_mismatch("target", "have " + asked + " rows", std::to_string(n_rows())));
    }
    // Rejects classes that an output does not have.
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
    View<const double> numbers_, row_weight_, origin_, largest_;
};

// Row terms at each node, and the arrays that hold them. Classes have linear terms only.
class TermArrays {
public:
    TermArrays(const py::object& linear, const py::object& square, const py::object& constant)
        : linear_(read_array<double>("linear", linear, {kAny, kAny})),
          square_(read_optional<double>("square", square, {linear_.shape[0]})),
          constant_(read_optional<double>("constant", constant, {linear_.shape[0]})) {}

    NodeTerms view(std::size_t n_nodes, const Target& target) const {
        const Shape expected{n_nodes, target.n_columns};
        if (linear_.shape != expected) {
            throw py::value_error(
                describe_mismatch("linear", "have shape " + describe_shape(expected), describe_shape(linear_.shape)));
        }
        if (!target.has_classes() && !(square_ && constant_)) {
            throw py::value_error(
                describe_mismatch("square and constant", "be arrays if the target is numbers", "None"));
        }
        return {linear_.data, square_.data, constant_.data};
    }

private:
    View<const double> linear_, square_, constant_;
};

}  // namespace truewood
