// The Python face of what trees are scored by: whole ways, sums at nodes, contributions, and trees for other engines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "device_trees.hpp"
#include "python_arrays.hpp"
#include "python_work.hpp"
#include "score.hpp"

namespace truewood {

// What is asked of trees, and the arrays that this is in.
struct HeldCall {
    Call call;
    std::vector<py::object> held;

    // Takes an array, and gives where it is.
    template <class T>
    T* hold(const View<T>& view) {
        held.push_back(view.held);
        return view.data;
    }
};

inline HeldCall make_call(const Forest& forest, std::size_t n_rows, std::size_t n_features, const Target& target,
                          const py::object& origin, const py::object& column, const py::object& tree_weight) {
    HeldCall made;
    Call& call = made.call;
    call.trees = forest.trees();
    call.rows.resize(forest.n_trees());
    call.column = read_columns(column, forest.n_trees(), target);
    call.n_rows = n_rows;
    call.n_features = n_features;
    call.target = target;
    const auto of_columns = read_array<double>("origin", origin, {kAny});
    if (of_columns.size() < target.n_columns) {
        const auto n = std::to_string(target.n_columns);
        throw py::value_error(refuse("origin", "hold at least " + n + " numbers", std::to_string(of_columns.size())));
    }
    call.origin = made.hold(of_columns);
    call.tree_weight = made.hold(read_optional<double>("tree_weight", tree_weight, {forest.n_trees()}));
    if (forest.n_columns() != target.n_columns) throw BrokenTree("the trees have another target.");
    return made;
}

inline Formula find_formula(const std::string& name) {
    if (name == "ufi") return Formula::kUfi;
    if (name == "ufi_centered") return Formula::kUfiCentered;
    if (name == "mdi_oob") return Formula::kMdiOob;
    throw std::invalid_argument("the kernel has no formula " + name + ".");
}

// How splits are scored; additive trees have no sums of squares.
inline void put_rule(HeldCall& made, const std::string& formula, bool skips, double scale, bool is_additive,
                     const py::object& largest) {
    Call& call = made.call;
    call.target.largest = made.hold(read_array<double>("largest", largest, {call.target.n_columns}));
    call.rule = {find_formula(formula), skips, scale, is_additive};
    call.target.has_squares = call.target.has_squares && !is_additive;
    if (call.rule.formula == Formula::kUfi && !call.target.has_classes() && is_additive) {
        throw py::value_error(refuse("formula", "be 'ufi_centered' or 'mdi_oob' for additive trees", "'ufi'"));
    }
}

// Where the results of trees go.
struct Results {
    const py::object &scores, &mdi, &counted_mdi, &magnitude, &split_weight, &skipped_weight, &unseen_weight,
        &unseen_impurity;

    // The magnitude is asked for beside contributions of rows only.
    void put(HeldCall& made, bool with_magnitude) const {
        Call& call = made.call;
        const std::size_t n_trees = call.trees.size();
        const Shape by_feature{n_trees, call.n_features, call.target.n_outputs};
        call.scores = made.hold(write_array<double>("scores", scores, by_feature));
        call.mdi = made.hold(write_array<double>("mdi", mdi, by_feature));
        call.counted_mdi = made.hold(write_array<double>("counted_mdi", counted_mdi, by_feature));
        double* sizes = made.hold(write_array<double>("magnitude", magnitude, {n_trees, call.n_features}));
        call.magnitude = with_magnitude ? sizes : nullptr;
        call.split_weight = made.hold(write_array<double>("split_weight", split_weight, {n_trees}));
        call.skipped_weight = made.hold(write_array<double>("skipped_weight", skipped_weight, {n_trees}));
        call.unseen_weight = made.hold(write_array<double>("unseen_weight", unseen_weight, {n_trees}));
        call.unseen_impurity = made.hold(write_array<double>("unseen_impurity", unseen_impurity, {n_trees}));
    }
};

// Where contributions go, of rows from `first` on.
inline void put_contributions(HeldCall& made, const py::object& phi, const py::object& psi, const py::object& bags,
                              std::int64_t first) {
    const std::size_t n_features = made.call.n_features, n_rows = made.call.n_rows;
    const auto unseen = write_optional<double>("phi", phi, {kAny, n_features});
    const std::size_t n_asked = unseen ? unseen.shape[0] : 0;
    const auto training = write_optional<double>("psi", psi, {n_asked, n_features});
    const auto weights = write_optional<float>("bags", bags, {kAny, n_asked});
    const std::size_t n_bags = weights ? weights.shape[0] : 0;
    if ((training && !unseen) || (weights && !training)) {
        throw py::value_error("psi needs phi, and bags need psi, got None for what is needed.");
    }
    if (first < 0 || static_cast<std::size_t>(first) > n_rows || n_asked > n_rows - static_cast<std::size_t>(first)) {
        const auto rows = std::to_string(n_asked) + " rows from " + std::to_string(first) + " on";
        throw py::value_error(refuse("phi", "be of rows among " + std::to_string(n_rows), rows));
    }
    if (n_bags > made.call.trees.size()) {
        const auto n_trees = std::to_string(made.call.trees.size());
        throw py::value_error(refuse("bags", "be of at most " + n_trees + " trees", std::to_string(n_bags)));
    }
    made.call.contributions = {made.hold(unseen), made.hold(training), made.hold(weights), n_bags, first, n_asked};
}

inline void bind_score(const Forest& forest, const py::object& X, bool has_missing, std::size_t n_rows,
                       std::size_t n_features, const py::object& rows, const TargetArrays& target,
                       const py::object& origin, const py::object& largest, const py::object& column,
                       const py::object& tree_weight, const std::string& formula, bool skips, double scale,
                       bool is_additive, std::size_t n_threads, const py::object& scores, const py::object& mdi,
                       const py::object& counted_mdi, const py::object& magnitude, const py::object& split_weight,
                       const py::object& skipped_weight, const py::object& unseen_weight,
                       const py::object& unseen_impurity, const py::object& phi, const py::object& psi,
                       const py::object& bags, std::int64_t first) {
    const Table table = read_table(X, has_missing, forest.has_categories(), n_features, n_rows);
    HeldCall made = make_call(forest, n_rows, n_features, target.view(n_rows), origin, column, tree_weight);
    Call& call = made.call;
    put_rule(made, formula, skips, scale, is_additive, largest);
    Results{scores, mdi, counted_mdi, magnitude, split_weight, skipped_weight, unseen_weight, unseen_impurity}.put(
        made, !phi.is_none());
    put_contributions(made, phi, psi, bags, first);
    RowsOfTrees of_trees = read_rows(rows, forest.n_trees(), n_rows, !phi.is_none(), !psi.is_none());
    call.rows = of_trees.rows;
    const Work work;
    Crew crew(n_threads, run_signal_handlers);
    Scoring(call, *table.walker, crew).run();
}

// Trees for an engine that walks elsewhere: 16 bytes a node, and where each node has gone to.
inline void bind_lay_out(const Forest& forest, std::size_t n_features, std::size_t n_threads, const py::object& nodes,
                         const py::object& place) {
    if (forest.n_nodes() > kMostNodes) {
        throw py::value_error(refuse("forest", "be of fewer than 2^31 nodes", std::to_string(forest.n_nodes())));
    }
    const auto out = write_array<std::uint8_t>("nodes", nodes, {forest.n_nodes(), sizeof(DeviceNode)});
    const auto places = write_array<std::int32_t>("place", place, {forest.n_nodes()});
    if (reinterpret_cast<std::uintptr_t>(out.data) % alignof(DeviceNode) != 0) {
        throw py::value_error(refuse("nodes", "be aligned to 8 bytes", "an array that is not"));
    }
    const Work work;
    Crew crew(n_threads, run_signal_handlers);
    lay_out(forest.trees(), n_features, crew, reinterpret_cast<DeviceNode*>(out.data), places.data);
}

// Scores by sums at leaves that such an engine found, and terms of rows by place where there is an array for them.
inline void bind_score_sums(const Forest& forest, std::size_t n_features, const TargetArrays& target,
                            const py::object& origin, const py::object& largest, const std::string& formula, bool skips,
                            double scale, bool is_additive, std::size_t n_threads, const py::object& leaf_sums,
                            std::size_t n_roles, const py::object& terms, const py::object& scores,
                            const py::object& mdi, const py::object& counted_mdi, const py::object& magnitude,
                            const py::object& split_weight, const py::object& skipped_weight,
                            const py::object& unseen_weight, const py::object& unseen_impurity) {
    HeldCall made = make_call(forest, 0, n_features, target.view(), origin, py::none(), py::none());
    Call& call = made.call;
    put_rule(made, formula, skips, scale, is_additive, largest);
    Results{scores, mdi, counted_mdi, magnitude, split_weight, skipped_weight, unseen_weight, unseen_impurity}.put(
        made, !terms.is_none());
    if (n_roles > 2) throw py::value_error(refuse("n_roles", "be at most 2", std::to_string(n_roles)));
    const std::size_t n_terms = call.target.n_columns + (call.target.has_classes() ? 0 : 2);
    const auto sums = read_array<double>("leaf_sums", leaf_sums, {forest.n_nodes(), call.target.n_sums()});
    const auto into = write_optional<double>("terms", terms, {forest.n_nodes(), n_roles * n_terms});
    const Work work;
    Crew crew(n_threads, run_signal_handlers);
    score_sums(call, sums.data, n_roles, into.data, crew);
}

// Sums at the nodes in the order of the arrays, of every row; without squares where `sums` has no room for them.
inline void bind_sum_nodes(const Forest& forest, const py::object& X, bool has_missing, std::size_t n_rows,
                           std::size_t n_features, const TargetArrays& target, const py::object& origin,
                           const py::object& column, std::size_t n_threads, const py::object& sums) {
    forest.must_be_ensemble();
    const Table table = read_table(X, has_missing, forest.has_categories(), n_features, n_rows);
    HeldCall made = make_call(forest, n_rows, n_features, target.view(n_rows), origin, column, py::none());
    Call& call = made.call;
    const auto out = write_array<double>("sums", sums, {forest.n_nodes(), kAny});
    call.target.has_squares = call.target.has_squares && out.shape[1] == call.target.n_sums();
    call.node_sums = made.hold(write_array<double>("sums", sums, {forest.n_nodes(), call.target.n_sums()}));
    const Work work;
    Crew crew(n_threads, run_signal_handlers);
    Scoring(call, *table.walker, crew).run();
}

// Adds to phi what every row contributes, by terms of the nodes in the order of the arrays.
inline void bind_contribute(const Forest& forest, const py::object& X, bool has_missing, std::size_t n_features,
                            const TargetArrays& target, const py::object& origin, const py::object& column,
                            const py::object& tree_weight, const py::object& linear, const py::object& square,
                            const py::object& constant, std::size_t n_threads, const py::object& phi) {
    forest.must_be_ensemble();
    const auto out = write_array<double>("phi", phi, {kAny, n_features});
    const std::size_t n_rows = out.shape[0];
    const Table table = read_table(X, has_missing, forest.has_categories(), n_features, n_rows);
    HeldCall made = make_call(forest, n_rows, n_features, target.view(n_rows), origin, column, tree_weight);
    const Terms terms(linear, square, constant, forest.n_nodes(), made.call.target);
    const NodeTerms of_nodes = terms.view();
    made.call.terms = &of_nodes;
    made.call.contributions = {out.data, nullptr, nullptr, 0, 0, n_rows};
    const Work work;
    Crew crew(n_threads, run_signal_handlers);
    Scoring(made.call, *table.walker, crew).run();
}

}  // namespace truewood
