"""The measures again, slow and plain: Python loops over rows and nodes, from the definitions in the paper.

Nothing here uses truewood. Node means come from the training rows, not from what a tree has stored.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np


@dataclass
class OracleTree:
    """A scikit-learn tree with its in-bag rows and its evaluation rows."""

    tree: object  # sklearn's Tree
    columns: Sequence[int]  # column of X behind each of the tree's columns
    training: list[tuple[int, float]]  # (row, weight)
    evaluation: list[tuple[int, float]]
    classes: Sequence[int]  # class code behind each of the tree's value columns (single output)
    summaries: dict = field(default_factory=dict, repr=False)  # those of the nodes, which all measures share


def leave_out_copies(oracle_tree, original):
    """The evaluation rows of a tree without copies of its in-bag rows, given the row that each row is a copy of."""
    seen = {original[row] for row, weight in oracle_tree.training if weight > 0}
    return [(row, weight) for row, weight in oracle_tree.evaluation if original[row] not in seen]


def walk(tree, columns, x):
    """Nodes on the way of one row, root first."""
    node, path = 0, [0]
    while tree.children_left[node] != -1:
        node = step(tree, columns, node, x)
        path.append(node)
    return path


def step(tree, columns, node, x):
    """The child that one row goes to."""
    value = np.float32(x[columns[tree.feature[node]]])
    if getattr(tree, "split_kind", {node: 0})[node] > 0:  # by category: what scikit-learn itself does
        goes_left = tree.children_left[node] in tree.decision_path(np.float32([[x[j] for j in columns]])).indices
    else:
        goes_left = tree.missing_go_to_left[node] if math.isnan(value) else float(value) <= tree.threshold[node]
    return int(tree.children_left[node] if goes_left else tree.children_right[node])


def vectors(y, output, n_classes):
    """Target of one output as vectors: one-hot for classes, a single number otherwise, as a fraction."""
    if n_classes is None:
        return [[Fraction(float(value))] for value in y[:, output]]
    return [[1.0 if k == code else 0.0 for k in range(n_classes[output])] for code in y[:, output]]


@dataclass
class Node:
    weight: float
    mean: list[float]
    square: float  # mean of |target|^2


def summarize(tree, columns, X, targets, rows):
    """Weight, mean and mean square of the rows at each node; None where there is no weight."""
    members = [[] for _ in range(tree.node_count)]
    for row, weight in rows:
        for node in walk(tree, columns, X[row]):
            members[node].append((Fraction(float(weight)), targets[row]))
    return [summarize_members(member) for member in members]


def add(numbers):
    """Sum without rounding errors of its own: of fractions, which have none at all, or of floats."""
    numbers = list(numbers)
    is_exact = any(isinstance(number, Fraction) for number in numbers)
    return sum(numbers, Fraction(0)) if is_exact else math.fsum(numbers)


def dot(a, b):
    return add(x * y for x, y in zip(a, b, strict=True))


def minus(a, b):
    return [x - y for x, y in zip(a, b, strict=True)]


def split_score(measure, is_classification, m, children, root, evaluation_m, evaluation_children, evaluation_root):
    """One split's contribution; nodes by their training and evaluation summaries."""
    omega = {id(node): node.weight / root.weight for node in (m, *children)}

    def impurity(node):  # Gini, or variance
        return (1 if is_classification else node.square) - dot(node.mean, node.mean)

    def delta(h_m, h_children):
        return omega[id(m)] * h_m - sum(omega[id(c)] * h for c, h in zip(children, h_children, strict=True))

    if measure == "mdi":
        return delta(impurity(m), [impurity(c) for c in children])
    if measure == "mdi_oob":
        if evaluation_root is None or evaluation_m is None:
            return 0.0
        score = 0
        for c, u in [*zip(children, evaluation_children, strict=True), (m, evaluation_m)]:
            if u is not None:
                centered = dot(minus(c.mean, root.mean), minus(u.mean, evaluation_root.mean))
                score += (-1 if c is m else 1) * u.weight / evaluation_root.weight * centered
        return score
    if any(u is None for u in evaluation_children):
        return 0.0

    def around(node, evaluation):  # mean of |y' - v|^2
        return evaluation.square - 2 * dot(evaluation.mean, node.mean) + dot(node.mean, node.mean)

    pairs = list(zip(children, evaluation_children, strict=True))
    if measure == "loss_oob":
        return delta(around(m, evaluation_m), [around(c, u) for c, u in pairs])
    if measure == "ufi_centered":
        return sum(omega[id(c)] * dot(minus(c.mean, m.mean), minus(u.mean, m.mean)) for c, u in pairs)
    if measure == "ufi" and is_classification:
        return delta(1 - dot(m.mean, evaluation_m.mean), [1 - dot(c.mean, u.mean) for c, u in pairs])
    if measure == "ufi":
        trained = delta(impurity(m), [impurity(c) for c in children])
        return trained + delta(around(m, evaluation_m), [around(c, u) for c, u in pairs])
    raise ValueError(measure)


def score_tree(measure, oracle_tree, X, y, n_classes, label=None):
    """Scores of one tree, (n_features, n_outputs), or the part of a class; None if no evaluation row has weight."""
    tree = oracle_tree.tree
    scores = np.zeros((X.shape[1], y.shape[1]))
    if measure != "mdi" and sum(weight for _, weight in oracle_tree.evaluation) <= 0:
        return None
    for output in range(y.shape[1]):
        trained, evaluation = summarize_both(oracle_tree, X, y, n_classes, output, label)
        for m in range(tree.node_count):
            if tree.children_left[m] == -1:
                continue
            pair = (int(tree.children_left[m]), int(tree.children_right[m]))
            scores[oracle_tree.columns[tree.feature[m]], output] += split_score(
                measure,
                n_classes is not None,
                trained[m],
                [trained[c] for c in pair],
                trained[0],
                evaluation[m],
                [evaluation[c] for c in pair],
                evaluation[0],
            )
    return scores


def summarize_both(oracle_tree, X, y, n_classes, output, label):
    """Summaries of the training and of the evaluation rows at each node of a tree, found once for the same rows."""
    inputs = (X, y, oracle_tree.training, oracle_tree.evaluation)
    key = (*map(id, inputs), output, label)
    if key not in oracle_tree.summaries:
        targets = vectors(y, output, n_classes)
        if label is not None:
            targets = [[target[label] if label < len(target) else 0.0] for target in targets]
        both = [summarize(oracle_tree.tree, oracle_tree.columns, X, targets, rows) for rows in inputs[2:]]
        oracle_tree.summaries[key] = both, inputs  # kept, so that no other has their ids
    return oracle_tree.summaries[key][0]


def permute_tree(oracle_tree, X, y, n_classes, donors):
    """Increase of the loss with one column from the donor row, (n_features, n_outputs)."""
    tree, columns = oracle_tree.tree, oracle_tree.columns
    total = sum(weight for _, weight in oracle_tree.evaluation)
    if total <= 0:
        return None

    def loss(x, target, output):
        leaf = walk(tree, columns, x)[-1]
        if n_classes is None:
            return (target - tree.value[leaf, output, 0]) ** 2
        best = max(range(len(oracle_tree.classes[output])), key=lambda k: tree.value[leaf, output, k])
        return float(oracle_tree.classes[output][best] != target)

    scores = np.zeros((X.shape[1], y.shape[1]))
    for (row, weight), donor in zip(oracle_tree.evaluation, donors, strict=True):
        for output in range(y.shape[1]):
            before = loss(X[row], y[row, output], output)
            for column in range(X.shape[1]):
                x = X[row].copy()
                x[column] = X[donor, column]
                scores[column, output] += weight * (loss(x, y[row, output], output) - before) / total
    return scores


def project_rows(root, children, is_out, choose, training, evaluation, targets):
    """Predictions of a tree for its evaluation rows without some splits: {row: mean of its cell}.

    `children(node)` is empty at leaves, `is_out(node)` is whether a split is left out, `choose(node, row)` is the
    child that the row goes to, and `training` has pairs of a row and its weight in the bag.
    """

    def go_on(nodes, row):
        following = set()
        for node in nodes:
            if not children(node):
                following.add(node)
            elif is_out(node):
                following.update(children(node))
            else:
                following.add(choose(node, row))
        return frozenset(following)

    rows = {row for row, _ in training} | set(evaluation)
    cells, found = {row: frozenset([root]) for row in rows}, {}
    while True:
        following = {row: go_on(cells[row], row) for row in rows}
        members = {}
        for row, weight in training:
            members.setdefault(cells[row], []).append((weight, targets[row]))
        held = {following[row] for row, _ in training}
        for row in set(evaluation) - found.keys():
            if following[row] not in held or following[row] == cells[row]:
                found[row] = summarize_members(members[cells[row]]).mean
        if following == cells:
            return found
        cells = following


def project_tree(oracle_tree, X, targets, is_out):
    """The same for a scikit-learn tree, given whether a column is left out."""
    tree, columns = oracle_tree.tree, oracle_tree.columns

    def children(node):
        pair = int(tree.children_left[node]), int(tree.children_right[node])
        return () if pair[0] == -1 else pair

    return project_rows(
        0,
        children,
        lambda node: is_out(columns[tree.feature[node]]),
        lambda node, row: step(tree, columns, node, X[row]),
        [(row, weight) for row, weight in oracle_tree.training if weight > 0],
        [row for row, _ in oracle_tree.evaluation],
        targets,
    )


def project_forest(trees, X, y, n_classes, row_weight, groups):
    """Sobol-MDA of groups of columns, mean over outputs, and what each row adds to it: (n_groups,), (n_rows, n_groups).

    A row that no tree left out does not score.
    """
    n_rows, n_outputs = y.shape
    rows = sorted({row for tree in trees for row, _ in tree.evaluation})
    added = np.zeros((n_rows, len(groups)))
    for output in range(n_outputs):
        targets = vectors(y, output, n_classes)

        def predict(is_out, targets=targets):
            predicted = [project_tree(tree, X, targets, is_out) for tree in trees]
            means = {row: [own[row] for own in predicted if row in own] for row in rows}
            return {row: [math.fsum(part) / len(own) for part in zip(*own, strict=True)] for row, own in means.items()}

        def distance(a, b):
            return dot(minus(a, b), minus(a, b))

        total = math.fsum(row_weight[row] for row in rows)
        mean = [math.fsum(row_weight[r] * targets[r][k] for r in rows) / total for k in range(len(targets[0]))]
        variance = math.fsum(row_weight[row] * distance(targets[row], mean) for row in rows)
        whole = predict(lambda _column: False)
        for g, group in enumerate(groups):
            without = predict(lambda column, group=group: column in group)
            for row in rows:
                lost = distance(targets[row], without[row]) - distance(targets[row], whole[row])
                added[row, g] += row_weight[row] * lost / variance / n_outputs
    return np.array([math.fsum(column) for column in added.T]), added


def average_out(oracle_tree, in_bag, x, node, is_out):
    """Prediction for a row below a node if splits on some columns send it both ways, by weight in training."""
    tree = oracle_tree.tree
    if tree.children_left[node] == -1:
        return in_bag[node].mean
    if not is_out(oracle_tree.columns[tree.feature[node]]):
        return average_out(oracle_tree, in_bag, x, step(tree, oracle_tree.columns, node, x), is_out)
    pair = int(tree.children_left[node]), int(tree.children_right[node])
    total = sum(in_bag[c].weight for c in pair)
    predicted = [average_out(oracle_tree, in_bag, x, c, is_out) for c in pair]
    return [
        sum(in_bag[c].weight * v[k] for c, v in zip(pair, predicted, strict=True)) / total
        for k in range(len(predicted[0]))
    ]


def leave_residuals(trees, X, y, n_classes, row_weight, group):
    """Residuals of y after the prediction without a group of columns, minus their mean: {row: vector}."""
    targets = vectors(y, 0, n_classes)
    nodes = [summarize(t.tree, t.columns, X, targets, t.training) for t in trees]

    def predict(is_out):
        predicted = {}
        for tree, in_bag in zip(trees, nodes, strict=True):
            for row, _ in tree.evaluation:
                predicted.setdefault(row, []).append(average_out(tree, in_bag, X[row], 0, is_out))
        return {row: [float(add(part)) / len(own) for part in zip(*own, strict=True)] for row, own in predicted.items()}

    def center(values):
        total = math.fsum(row_weight[row] for row in values)
        size = len(next(iter(values.values())))
        means = [math.fsum(row_weight[row] * float(v[k]) for row, v in values.items()) / total for k in range(size)]
        return {row: [float(a) - b for a, b in zip(v, means, strict=True)] for row, v in values.items()}

    whole, without = center(predict(lambda _column: False)), predict(lambda column: column in group)
    centered = center({row: targets[row] for row in whole})
    products = math.fsum(row_weight[row] * dot(centered[row], whole[row]) for row in whole)
    squares = math.fsum(row_weight[row] * dot(whole[row], whole[row]) for row in whole)
    slope = max(products / squares, 0.0)
    return center({row: [a - slope * b for a, b in zip(centered[row], without[row], strict=True)] for row in whole})


def score_residuals(oracle_tree, X, y, n_classes, residuals, group):
    """Score of a group in one tree by `ufi_centered` with residuals in place of y, and what each row adds to it."""
    tree, columns = oracle_tree.tree, oracle_tree.columns
    in_bag = summarize(tree, columns, X, vectors(y, 0, n_classes), oracle_tree.training)
    weight = [0.0] * tree.node_count
    paths = {row: walk(tree, columns, X[row]) for row, _ in oracle_tree.evaluation}
    for row, own in oracle_tree.evaluation:
        for node in paths[row]:
            weight[node] += own
    added = {}
    for row, own in oracle_tree.evaluation:
        for m, c in itertools.pairwise(paths[row]):
            pair = tree.children_left[m], tree.children_right[m]
            if columns[tree.feature[m]] not in group or any(weight[child] <= 0 for child in pair):
                continue
            rate = float(in_bag[c].weight / in_bag[0].weight) / weight[c]
            up = dot([float(v) for v in minus(in_bag[c].mean, in_bag[m].mean)], residuals[row])
            added[row] = added.get(row, 0.0) + own * rate * up
    return math.fsum(added.values()), added


def match_classes(trees, y, row_weight):
    """Weights of rows by which classes have the mix of the bags, where that is more than five standard errors off."""
    matched = [float(weight) for weight in row_weight]
    scoring = {row for tree in trees for row, _ in tree.evaluation}
    weights = [(row, weight) for tree in trees for row, weight in tree.training]
    total, square = math.fsum(w for _, w in weights), math.fsum(w * w for _, w in weights)
    everything = math.fsum(row_weight[row] for row in scoring)
    for output in range(y.shape[1]):
        factor = {}
        for label in set(y[:, output].tolist()):
            own = math.fsum(row_weight[row] for row in scoring if y[row, output] == label) / everything
            mix = math.fsum(weight for row, weight in weights if y[row, output] == label) / total
            factor[label] = (mix, own, abs(mix - own) > 5 * math.sqrt(own * (1 - own) * square) / total)
        if any(differs for _, _, differs in factor.values()):
            for row in scoring:
                mix, own, _ = factor[y[row, output]]
                matched[row] *= mix / own
    return matched


def score_forest(measure, trees, X, y, n_classes, donors=None, row_weight=None):
    """Mean over outputs and over the trees that have evaluation rows, (n_features,)."""
    if measure == "sobol_mda":
        row_weight = np.ones(len(y)) if row_weight is None else row_weight
        if n_classes is not None:
            row_weight = match_classes(trees, y, row_weight)
        return project_forest(trees, X, y, n_classes, row_weight, [[column] for column in range(X.shape[1])])[0]
    if measure == "mdi_plus_oob":
        weights = dict(row for tree in trees for row in tree.evaluation)
        return score_regressions(trees, X, y, n_classes, weights).mean(axis=1)
    if measure == "permutation":
        per_tree = [permute_tree(t, X, y, n_classes, d) for t, d in zip(trees, donors, strict=True)]
    else:
        per_tree = [score_tree(measure, t, X, y, n_classes) for t in trees]
    return np.mean([scores for scores in per_tree if scores is not None], axis=0).mean(axis=1)


def make_stumps(oracle_tree, X, weight):
    """Column of X, values for all rows, (n_rows,), and weight of the stump of each split, given weights in the bag."""
    tree, stumps = oracle_tree.tree, []
    paths = [walk(tree, oracle_tree.columns, x) for x in X]
    at_node = [math.fsum(weight[row] for row, path in enumerate(paths) if m in path) for m in range(tree.node_count)]
    for m in range(tree.node_count):
        left, right = int(tree.children_left[m]), int(tree.children_right[m])
        if left == -1 or min(at_node[left], at_node[right]) == 0:
            continue
        step = {left: math.sqrt(at_node[right] / at_node[left]), right: -math.sqrt(at_node[left] / at_node[right])}
        values = [sum(step.get(node, 0.0) for node in path) for path in paths]
        stumps.append((oracle_tree.columns[tree.feature[m]], np.array(values), at_node[m]))
    return stumps


def make_lines(oracle_tree, X, weight, stumps):
    """The columns that the stumps split on, but not by category, with mean zero and the spread of the largest stump."""
    kinds = getattr(oracle_tree.tree, "split_kind", np.zeros(oracle_tree.tree.node_count))  # -1 at leaves
    by_category = {oracle_tree.columns[oracle_tree.tree.feature[m]] for m in np.flatnonzero(kinds > 0)}
    lines = []
    for column in sorted({column for column, _, _ in stumps} - by_category):
        x, share = np.float32(X[:, column]).astype(float), weight / weight.sum()
        known = ~np.isnan(x)
        if len(set(x[known & (weight > 0)])) < 2:
            continue
        x = x - np.average(x[known], weights=weight[known])
        x[~known] = 0.0
        largest = max(at_node for own, _, at_node in stumps if own == column)
        lines.append((column, x * math.sqrt(largest / weight.sum() / (share @ x**2))))
    return lines


def regress(oracle_tree, X, y, n_classes, penalty):
    """Ridge regression of one tree by dense normal equations, the intercept free.

    Scores, (n_features, n_outputs), and by output the predictions for evaluation rows, or None without any split; None
    if no evaluation row has weight.
    """
    total, scores = math.fsum(weight for _, weight in oracle_tree.evaluation), np.zeros((X.shape[1], y.shape[1]))
    if total <= 0:
        return None
    weight = np.zeros(len(X))
    for row, own in oracle_tree.training:
        weight[row] = own
    bag = np.flatnonzero(weight)
    weight *= len(bag) / weight.sum()
    stumps = make_stumps(oracle_tree, X, weight)
    if not stumps:
        return scores, None
    blocks = [(column, values) for column, values, _ in stumps] + make_lines(oracle_tree, X, weight, stumps)
    design = np.column_stack([np.ones(len(X))] + [values for _, values in blocks])
    rows, predictions = [row for row, weight in oracle_tree.evaluation if weight > 0], []
    share = np.array([own for _, own in oracle_tree.evaluation if own > 0]) / total
    for output in range(y.shape[1]):
        target = np.array(vectors(y, output, n_classes), dtype=float)
        mean = np.average(target, axis=0, weights=weight)
        target -= mean
        penalties = np.append(0.0, np.full(len(blocks), penalty * len(bag)))
        normal = (design[bag].T * weight[bag]) @ design[bag] + np.diag(penalties)
        best = np.linalg.solve(normal, (design[bag].T * weight[bag]) @ target[bag])
        predictions.append({row: mean + design[row] @ best for row in rows})
        centered = target[rows] - share @ target[rows]
        for (column, values), coefficient in zip(blocks, best[1:], strict=True):
            scores[column, output] += math.fsum(share * values[rows] * (centered @ coefficient))
    return scores, predictions


def score_regressions(trees, X, y, n_classes, row_weight):
    """MDI+ on evaluation rows, (n_features, n_outputs), with the penalty by which the mean over trees predicts best."""
    penalties, scores = [10.0 ** (k / 2) for k in range(-10, 3)], []
    found = [[regress(tree, X, y, n_classes, penalty) for tree in trees] for penalty in penalties]
    found = [[fit for fit in fits if fit is not None] for fits in found]
    for output in range(y.shape[1]):
        target = np.array(vectors(y, output, n_classes), dtype=float)
        errors = [measure_error([fit[1][output] for fit in fits if fit[1]], target, row_weight) for fits in found]
        best = max(k for k in range(len(errors)) if errors[k] == min(errors))
        scores.append(np.mean([values[:, output] for values, _ in found[best]], axis=0))
    return np.column_stack(scores)


def measure_error(predictions, target, row_weight):
    """Variance of the residuals of the mean prediction, given the predictions of each tree by row."""
    rows = sorted({row for of_tree in predictions for row in of_tree})
    if not rows:
        return 0.0
    residual = [target[row] - np.mean([p[row] for p in predictions if row in p], axis=0) for row in rows]
    share = np.array([row_weight[row] for row in rows]) / math.fsum(row_weight[row] for row in rows)
    return math.fsum((share @ (residual - share @ residual) ** 2).ravel())


def score_class(measure, trees, X, y, n_classes, output, label):
    """The part that a class of an output has in the scores, (n_features,): its number alone stands for the target."""
    per_tree = [score_tree(measure, t, X, y, n_classes, label) for t in trees]
    return np.mean([scores for scores in per_tree if scores is not None], axis=0)[:, output] / y.shape[1]


def walk_arrays(trees, tree, x):
    """Nodes on the way of one row down a tree of flat arrays (see TreeEnsemble's docstring), root first."""
    node = int(trees.offset[tree])
    path = [node]
    while trees.left[node] >= 0:
        node = step_in_arrays(trees, node, x)
        path.append(node)
    return path


def step_in_arrays(trees, node, x):
    """The child that one row goes to."""
    value = x[trees.feature[node]]
    value = float(np.float32(value) if trees.x_dtype == "float32" else value)
    if math.isnan(value):
        goes_left = trees.missing_left[node]
    elif trees.categories is not None and trees.categories.node_set[node] >= 0:
        goes_left = in_set(trees.categories, node, value)
    else:
        goes_left = value <= trees.threshold[node]
    return int(trees.left[node] if goes_left else trees.right[node])


def in_set(categories, node, x):
    number = categories.node_set[node]
    words = categories.bits[categories.offset[number] : categories.offset[number + 1]]
    return 0 <= x < 32 * len(words) and bool(int(words[int(x) // 32]) >> (int(x) % 32) & 1)


def leaves_below(trees, node):
    if trees.left[node] < 0:
        return [node]
    return leaves_below(trees, int(trees.left[node])) + leaves_below(trees, int(trees.right[node]))


def train_from_leaves(trees, node, columns):
    """What a node holds from training, as its leaves have it: weighted means of their values, as fractions."""
    leaves = leaves_below(trees, node)
    weights = [Fraction(float(trees.weight[leaf])) for leaf in leaves]
    values = [[Fraction(float(v)) for v in trees.value[leaf][columns]] for leaf in leaves]
    total = add(weights)
    if total <= 0:  # a node that training rows of no weight fell into
        return Node(Fraction(0), [Fraction(0)] * len(values[0]), Fraction(0))
    return summarize_members(list(zip(weights, values, strict=True)))


def score_arrays(measure, trees, X, target, row_weight, lists, outputs, *, is_classification=False):
    """Scores of trees of flat arrays, one (n_features, n_outputs) per tree; None for one that no row scores.

    `target` is an array (n_rows, n_columns), of classes one-hot; `lists` has the rows of each tree, `outputs` the value
    columns of each output. A tree of one value that speaks of one column of the target is scored by that column.
    Numbers are fractions, so that only the result is rounded.
    """
    return [
        score_tree_of_arrays(measure, trees, tree, X, target, row_weight, lists[tree], outputs, is_classification)
        for tree in range(len(trees.offset) - 1)
    ]


def score_tree_of_arrays(measure, trees, tree, X, target, row_weight, rows, outputs, is_classification):
    scores = np.zeros((X.shape[1], len(outputs)))
    if measure != "mdi" and math.fsum(row_weight[i] for i in rows) <= 0:
        return None
    for o, m, trained, evaluation in split_nodes_of_arrays(trees, tree, X, target, row_weight, rows, outputs):
        pair, root = (int(trees.left[m]), int(trees.right[m])), int(trees.offset[tree])
        scores[trees.feature[m], o] += float(
            split_score(
                measure,
                is_classification,
                trained[m],
                [trained[c] for c in pair],
                trained[root],
                evaluation[m],
                [evaluation[c] for c in pair],
                evaluation[root],
            )
        )
    return scores


def split_nodes_of_arrays(trees, tree, X, target, row_weight, rows, outputs):
    """For each output, the splits of a tree, with what its nodes hold from training and of the rows."""
    root, end = int(trees.offset[tree]), int(trees.offset[tree + 1])
    paths = [walk_arrays(trees, tree, X[i]) for i in rows]
    for o, columns in enumerate(outputs):
        own = columns if trees.column is None else [int(trees.column[tree])]
        members = {node: [] for node in range(root, end)}
        for i, path in zip(rows, paths, strict=True):
            for node in path:
                values = [Fraction(float(target[i, k])) for k in own]
                members[node].append((Fraction(float(row_weight[i])), values))
        evaluation = {node: summarize_members(member) for node, member in members.items()}
        trained = {node: train_from_leaves(trees, node, columns) for node in range(root, end)}
        for m in range(root, end):
            if trees.left[m] >= 0 and trained[m].weight > 0:
                yield o, m, trained, evaluation


def average_out_of_arrays(trees, node, x, feature):
    """Value of a tree of flat arrays for a row below a node if splits on a feature send it both ways, by weight."""
    if trees.left[node] < 0:
        return trees.value[node]
    if trees.feature[node] != feature:
        return average_out_of_arrays(trees, step_in_arrays(trees, node, x), x, feature)
    pair = int(trees.left[node]), int(trees.right[node])
    weights = [sum(float(trees.weight[leaf]) for leaf in leaves_below(trees, child)) for child in pair]
    predicted = [average_out_of_arrays(trees, child, x, feature) for child in pair]
    return (weights[0] * predicted[0] + weights[1] * predicted[1]) / (weights[0] + weights[1])


def find_columns(trees, tree):
    """The columns of the target that a tree of flat arrays predicts."""
    return list(range(trees.value.shape[1])) if trees.column is None else [int(trees.column[tree])]


def leave_residuals_of_arrays(trees, X, target, feature):
    """Residuals of the target after the sum of the trees without a feature, minus their means, like the target."""

    def predict(left_out):
        predicted = np.zeros(target.shape)
        for tree in range(trees.n_trees):
            for i, x in enumerate(X):
                value = average_out_of_arrays(trees, int(trees.offset[tree]), x, left_out)
                predicted[i, find_columns(trees, tree)] += value
        return predicted - predicted.mean(axis=0)

    whole, centered = predict(None), target - target.mean(axis=0)
    return centered - max((centered * whole).sum() / (whole**2).sum(), 0.0) * predict(feature)


def score_residuals_of_arrays(trees, X, residual, feature):
    """What each row adds to the score of a feature with residuals in place of the target, (n_trees, n_rows)."""
    added = np.zeros((trees.n_trees, len(X)))
    for tree in range(trees.n_trees):
        paths, root = [walk_arrays(trees, tree, x) for x in X], int(trees.offset[tree])
        reached = [node for path in paths for node in path]
        trained = {node: train_from_leaves(trees, node, range(trees.value.shape[1])) for node in set(reached)}
        for i, path in enumerate(paths):
            for m, c in itertools.pairwise(path):
                if trees.feature[m] != feature or not {int(trees.left[m]), int(trees.right[m])} <= set(reached):
                    continue
                rate = float(trained[c].weight / trained[root].weight) / reached.count(c)
                up = [float(v) for v in minus(trained[c].mean, trained[m].mean)]
                added[tree, i] += rate * dot(up, residual[i, find_columns(trees, tree)])
    return added


def size_arrays(trees, X, target, row_weight, lists, outputs):
    """Size of what scores add up, (n_features,): no computation in floats is closer than some 1e-16 of it.

    Training shares and shares of the rows at both children, times the size of values and targets there. For trees that
    are estimates of the target, values and targets also meet themselves, and are taken around the value of a root.
    """
    sizes = np.zeros(X.shape[1])
    for tree, rows in enumerate(lists):
        for o, m, trained, evaluation in split_nodes_of_arrays(trees, tree, X, target, row_weight, rows, outputs):
            root = int(trees.offset[tree])
            columns = outputs[o] if trees.column is None else [int(trees.column[tree])]
            around = 0.0 if trees.is_additive else max(abs(float(trees.value[0, k])) for k in columns)
            largest = max((abs(float(target[i, k])) for i in rows for k in columns), default=0.0) + around
            for c in (int(trees.left[m]), int(trees.right[m])):
                share = float(trained[c].weight / trained[root].weight)
                if evaluation[c] is not None:
                    share += float(evaluation[c].weight / evaluation[root].weight)
                values = sum(abs(float(v)) for node in (c, m) for v in trained[node].mean)
                sizes[trees.feature[m]] += share * (values * largest if trees.is_additive else (values + largest) ** 2)
    return sizes


def summarize_members(member):
    """Weight, mean and mean square of (weight, vector) pairs; None where there is no weight."""
    total = add(weight for weight, _ in member)
    if total <= 0:
        return None
    mean = [add(w * t[k] for w, t in member) / total for k in range(len(member[0][1]))]
    return Node(total, mean, add(w * dot(t, t) for w, t in member) / total)


def best_constant_gradient(loss, y, weight, level=0.5):
    """Negative gradient of a loss at its best constant raw score, (n_rows, n_scores), from the loss's definition."""
    mean = math.fsum(w * v for w, v in zip(weight, y, strict=True)) / math.fsum(weight)
    if loss in ("squared", "logistic", "poisson"):  # identity link, logit link, log link: y minus its mean
        return np.array([[v - mean] for v in y])
    if loss == "gamma":
        return np.array([[v / mean - 1.0] for v in y])
    if loss == "softmax":
        n_classes = int(max(y)) + 1
        total = math.fsum(weight)
        shares = [math.fsum(w for w, v in zip(weight, y, strict=True) if v == k) / total for k in range(n_classes)]
        return np.array([[(v == k) - shares[k] for k in range(n_classes)] for v in y])
    if loss in ("absolute", "quantile"):
        best = quantile_of(y, weight, level)
        if loss == "absolute":
            return np.array([[float(np.sign(v - best))] for v in y])
        return np.array([[level - (v < best)] for v in y])
    raise ValueError(loss)


def quantile_of(y, weight, level):
    """Smallest value up to which at least this share of the weight lies."""
    reached, total = 0.0, float(np.cumsum(np.asarray(weight)[np.argsort(y, kind="stable")])[-1])
    for i in np.argsort(y, kind="stable"):
        reached += float(weight[i])
        if reached >= level * total:
            return float(y[i])
    raise ValueError("no weight")


def sum_by_group(values, labels):
    """Sums of rows of each label, minus the mean of all rows for each of them; labels in order of appearance."""
    mean = values.mean(axis=0)
    sums = {}
    for label, value in zip(labels, values, strict=True):
        sums[label] = sums.get(label, 0.0) + (value - mean)
    return np.array(list(sums.values()))


def widen(labels):
    """What variances are multiplied by because there are fewer groups than rows."""
    n_rows = len(labels)
    n_groups = n_rows**2 / sum(list(labels).count(label) ** 2 for label in set(labels))
    return n_groups / (n_groups - 3) / (n_rows / (n_rows - 3))


def measure_phi_a(more, r, phi, per_tree):
    """Sum of phi a of one feature, as the bags show it.

    `more` has the weight of each row in each bag over its mean, minus 1, and r its mean square.
    """
    n_trees = len(per_tree)
    measured = math.fsum(phi**2)
    for i in range(len(phi)):
        measured += phi[i] * math.fsum(more[:, i] * (per_tree - per_tree.mean())) / n_trees
    return measured / r


def estimate_phi_a(more, r, features):
    """Sum of phi a of each feature, given (scores by tree, phi), by the regression over all of them.

    Measured sums, in units of the sum of squares of phi, over the part of those squares that is not forest noise; for a
    feature that matters, over that part of useless features. See docs/theory/standard_errors.md.
    """
    above, below, shares = 1.0, 1.0, []
    for per_tree, phi in features:
        squares = math.fsum(phi**2)
        if squares == 0:
            continue
        share = max(squares - per_tree.var(ddof=1) / len(per_tree), 0.0) / squares
        useless = 1.0 / (1.0 + per_tree.mean() ** 2 / squares)
        shares.append((useless, share))
        weight = useless * r / max(1.0 - share, 0.02)
        above += weight * share * measure_phi_a(more, r, phi, per_tree) / squares
        below += weight * share**2
    typical = sum(useless * share for useless, share in shares) / sum(useless for useless, _ in shares)
    parts = iter(useless * share + (1.0 - useless) * typical for useless, share in shares)
    return [max(above / below, 0.0) * next(parts) * math.fsum(phi**2) if phi.any() else 0.0 for _, phi in features]


def errors_of_groups(labels, phi, psi, bags, per_tree, biased):
    """Null standard error and standard error of a feature with clustered rows, see docs/theory/standard_errors.md.

    This is the only feature of the model; psi and bags, (n_trees, n_rows), are None for held-out rows.
    """
    phi, widening = sum_by_group(phi, labels), widen(labels)
    if psi is None:
        error = math.sqrt(widening * math.fsum(phi**2))
        return error, error
    psi, names = sum_by_group(psi, labels), list(dict.fromkeys(labels))
    n_trees, score = len(per_tree), per_tree.mean()
    rows_of = [[row for row, label in enumerate(labels) if label == name] for name in names]
    weight = np.array([[sum(float(bag[row]) for row in rows) for rows in rows_of] for bag in bags])
    more = weight / weight.mean(axis=0) - 1.0
    r, spread, noise = (more**2).mean(), per_tree - score, per_tree.var(ddof=1) / n_trees
    (phi_a,) = estimate_phi_a(more, r, [(per_tree, phi)])
    variance = math.fsum(phi**2) + max(phi_a, math.fsum(phi * psi), 0.0)
    common, gain = max(variance - noise, 0.0), max((biased - score) / (1.0 + r), 0.0)
    squares = gain + max(score * common / variance, -0.75 * gain)
    on_average = variance - common + common * gain / squares
    owed = np.array([math.fsum(more[k] * psi) for k in range(n_trees)])
    slope = math.fsum(owed * spread) / n_trees + math.fsum(phi * psi) - r * noise
    excess = slope / (r * math.fsum(psi**2)) - 1.0
    g = 1.0 + max(excess, 0.0) * max(0.0, 1.0 - noise / (r * math.fsum(psi**2)) / excess**2)
    both = max(math.fsum((phi + g * psi) ** 2), 4.0 * (math.fsum(phi**2) - noise)) + noise
    null_std_error = math.sqrt(widening) * (math.sqrt(variance) + math.sqrt(on_average)) / 2.0
    return null_std_error, math.sqrt(widening * max(variance, both))
