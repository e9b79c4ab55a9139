// The Python face of what trees are scored by: whole ways, sums at nodes, contributions, and trees for other engines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "device_trees.hpp"
#include "python_arrays.hpp"
#include "python_work.hpp"
#include "score.hpp"

namespace truewood {

// What every row says to every tree, and what is asked of it.
inline Call make_call(const Forest& forest, std::size_t n_rows, std::size_t n_features, const TargetArrays& target,
                      const Array<double>& origin, const std::optional<Array<std::int32_t>>& column) {
    Call call;
    call.trees = forest.trees();
    call.rows.resize(call.trees.size());
    call.column.assign(call.trees.size(), 0);
    if (column) call.column.assign(column->data(), column->data() + column->size());
    call.n_rows = n_rows;
    call.n_features = n_features;
    call.target = target.view();
    call.origin = origin.data();
    if (forest.n_columns() != call.target.n_columns) throw BrokenTree("the trees have another target.");
    return call;
}

inline Formula find_formula(const std::string& name) {
    if (name == "ufi") return Formula::kUfi;
    if (name == "ufi_centered") return Formula::kUfiCentered;
    if (name == "mdi_oob") return Formula::kMdiOob;
    throw std::invalid_argument("the kernel has no formula " + name + ".");
}

inline void put_results(Call& call, Array<double>& scores, Array<double>& mdi, Array<double>& counted_mdi,
                        Array<double>& magnitude, Array<double>& split_weight, Array<double>& skipped_weight,
                        Array<double>& unseen_weight, Array<double>& unseen_impurity) {
    call.scores = scores.mutable_data();
    call.mdi = mdi.mutable_data();
    call.counted_mdi = counted_mdi.mutable_data();
    call.magnitude = magnitude.mutable_data();
    call.split_weight = split_weight.mutable_data();
    call.skipped_weight = skipped_weight.mutable_data();
    call.unseen_weight = unseen_weight.mutable_data();
    call.unseen_impurity = unseen_impurity.mutable_data();
}

inline void bind_score(const Forest& forest, const py::object& X, bool has_missing, std::size_t n_rows,
                       std::size_t n_features, const py::object& rows, const TargetArrays& target,
                       const Array<double>& origin, const Array<double>& largest,
                       const std::optional<Array<std::int32_t>>& column,
                       const std::optional<Array<double>>& tree_weight, const std::string& formula, bool skips,
                       double scale, bool is_additive, std::size_t n_threads, Array<double>& scores, Array<double>& mdi,
                       Array<double>& counted_mdi, Array<double>& magnitude, Array<double>& split_weight,
                       Array<double>& skipped_weight, Array<double>& unseen_weight, Array<double>& unseen_impurity,
                       std::optional<Array<double>>& phi, std::optional<Array<double>>& psi,
                       std::optional<Array<float>>& bags, std::int64_t first) {
    Call call = make_call(forest, n_rows, n_features, target, origin, column);
    call.rows = read_rows(rows, call.trees.size());
    call.tree_weight = data_or_null(tree_weight);
    call.target.has_squares = call.target.has_squares && !is_additive;
    call.target.largest = largest.data();
    call.rule = {find_formula(formula), skips, scale, is_additive};
    put_results(call, scores, mdi, counted_mdi, magnitude, split_weight, skipped_weight, unseen_weight,
                unseen_impurity);
    if (phi) {
        call.contributions = {phi->mutable_data(),
                              psi ? psi->mutable_data() : nullptr,
                              bags ? bags->mutable_data() : nullptr,
                              bags ? static_cast<std::size_t>(bags->shape(0)) : 0,
                              first,
                              static_cast<std::size_t>(phi->shape(0))};
    }
    const auto walker = make_walker(X, has_missing, forest.has_categories(), n_features);
    const Work work;
    Crew crew(n_threads, run_signal_handlers);
    Scoring(call, *walker, crew).run();
}

// Trees for an engine that walks elsewhere: 16 bytes a node, and where each node has gone to.
inline void bind_lay_out(const Forest& forest, std::size_t n_features, std::size_t n_threads,
                         Array<std::uint8_t>& nodes, Array<std::int32_t>& place) {
    auto* out = reinterpret_cast<DeviceNode*>(nodes.mutable_data());
    std::int32_t* places = place.mutable_data();
    const Work work;
    Crew crew(n_threads, run_signal_handlers);
    lay_out(forest.trees(), n_features, crew, out, places);
}

// Scores by sums at leaves that such an engine found, and terms of rows by place where there is an array for them.
inline void bind_score_sums(const Forest& forest, std::size_t n_features, const TargetArrays& target,
                            const Array<double>& origin, const Array<double>& largest, const std::string& formula,
                            bool skips, double scale, bool is_additive, std::size_t n_threads,
                            const Array<double>& leaf_sums, std::size_t n_roles, std::optional<Array<double>>& terms,
                            Array<double>& scores, Array<double>& mdi, Array<double>& counted_mdi,
                            Array<double>& magnitude, Array<double>& split_weight, Array<double>& skipped_weight,
                            Array<double>& unseen_weight, Array<double>& unseen_impurity) {
    Call call = make_call(forest, 0, n_features, target, origin, std::nullopt);
    call.target.has_squares = call.target.has_squares && !is_additive;
    call.target.largest = largest.data();
    call.rule = {find_formula(formula), skips, scale, is_additive};
    put_results(call, scores, mdi, counted_mdi, magnitude, split_weight, skipped_weight, unseen_weight,
                unseen_impurity);
    const double* sums = leaf_sums.data();
    double* into = terms ? terms->mutable_data() : nullptr;
    const Work work;
    Crew crew(n_threads, run_signal_handlers);
    score_sums(call, sums, n_roles, into, crew);
}

// Sums at the nodes in the order of the arrays, of every row; without squares where `sums` has no room for them.
inline void bind_sum_nodes(const Forest& forest, const py::object& X, bool has_missing, std::size_t n_rows,
                           std::size_t n_features, const TargetArrays& target, const Array<double>& origin,
                           const std::optional<Array<std::int32_t>>& column, std::size_t n_threads,
                           Array<double>& sums) {
    Call call = make_call(forest, n_rows, n_features, target, origin, column);
    call.target.has_squares =
        call.target.has_squares && static_cast<std::size_t>(sums.shape(1)) == call.target.n_sums();
    call.node_sums = sums.mutable_data();
    const auto walker = make_walker(X, has_missing, forest.has_categories(), n_features);
    const Work work;
    Crew crew(n_threads, run_signal_handlers);
    Scoring(call, *walker, crew).run();
}

// Adds to phi what every row contributes, by terms of the nodes in the order of the arrays.
inline void bind_contribute(const Forest& forest, const py::object& X, bool has_missing, std::size_t n_features,
                            const TargetArrays& target, const Array<double>& origin,
                            const std::optional<Array<std::int32_t>>& column,
                            const std::optional<Array<double>>& tree_weight, const Array<double>& linear,
                            const std::optional<Array<double>>& square, const std::optional<Array<double>>& constant,
                            std::size_t n_threads, Array<double>& phi) {
    const auto n_rows = static_cast<std::size_t>(phi.shape(0));
    Call call = make_call(forest, n_rows, n_features, target, origin, column);
    const NodeTerms terms{linear.data(), data_or_null(square), data_or_null(constant)};
    call.terms = &terms;
    call.tree_weight = data_or_null(tree_weight);
    call.contributions = {phi.mutable_data(), nullptr, nullptr, 0, 0, n_rows};
    const auto walker = make_walker(X, has_missing, forest.has_categories(), n_features);
    const Work work;
    Crew crew(n_threads, run_signal_handlers);
    Scoring(call, *walker, crew).run();
}

}  // namespace truewood
