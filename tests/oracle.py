"""The measures again, slow and plain: Python loops over rows and nodes, from the definitions in the paper.

Nothing here uses truewood. Node means come from the training rows, not from what a tree has stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass
class OracleTree:
    """A scikit-learn tree with the rows that grew it and the rows that score it."""

    tree: object  # sklearn's Tree
    columns: Sequence[int]  # column of X behind each of the tree's columns
    training: list[tuple[int, float]]  # (row, weight)
    unseen: list[tuple[int, float]]
    classes: Sequence[int]  # class code behind each of the tree's value columns (single output)


def walk(tree, columns, x):
    """Nodes on the way of one row, root first."""
    node, path = 0, [0]
    while tree.children_left[node] != -1:
        value = np.float32(x[columns[tree.feature[node]]])
        goes_left = tree.missing_go_to_left[node] if math.isnan(value) else float(value) <= tree.threshold[node]
        node = int(tree.children_left[node] if goes_left else tree.children_right[node])
        path.append(node)
    return path


def vectors(y, output, n_classes):
    """Target of one output as vectors: one-hot for classes, a single number otherwise."""
    if n_classes is None:
        return [[float(value)] for value in y[:, output]]
    return [[1.0 if k == code else 0.0 for k in range(n_classes[output])] for code in y[:, output]]


@dataclass
class Node:
    weight: float
    mean: list[float]
    square: float  # mean of |target|^2


def summarise(tree, columns, X, targets, rows):
    """Weight, mean and mean square of the rows at each node; None where there is no weight."""
    members = [[] for _ in range(tree.node_count)]
    for row, weight in rows:
        for node in walk(tree, columns, X[row]):
            members[node].append((weight, targets[row]))
    nodes = []
    for member in members:
        total = math.fsum(weight for weight, _ in member)
        if total <= 0:
            nodes.append(None)
            continue
        mean = [math.fsum(w * t[k] for w, t in member) / total for k in range(len(member[0][1]))]
        square = math.fsum(w * sum(x * x for x in t) for w, t in member) / total
        nodes.append(Node(total, mean, square))
    return nodes


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def minus(a, b):
    return [x - y for x, y in zip(a, b, strict=True)]


def split_score(measure, is_classification, m, children, root, unseen_m, unseen_children, unseen_root):
    """One split's contribution; nodes by their training and unseen summaries."""
    omega = {id(node): node.weight / root.weight for node in (m, *children)}

    def impurity(node):  # Gini, or variance
        return (1.0 if is_classification else node.square) - dot(node.mean, node.mean)

    def delta(h_m, h_children):
        return omega[id(m)] * h_m - sum(omega[id(c)] * h for c, h in zip(children, h_children, strict=True))

    if measure == "mdi":
        return delta(impurity(m), [impurity(c) for c in children])
    if measure == "mdi_oob":
        if unseen_root is None or unseen_m is None:
            return 0.0
        score = 0.0
        for c, u in [*zip(children, unseen_children, strict=True), (m, unseen_m)]:
            if u is not None:
                centred = dot(minus(c.mean, root.mean), minus(u.mean, unseen_root.mean))
                score += (-1.0 if c is m else 1.0) * u.weight / unseen_root.weight * centred
        return score
    if any(u is None for u in unseen_children):
        return 0.0

    def around(node, unseen):  # mean of |y' - v|^2
        return unseen.square - 2.0 * dot(unseen.mean, node.mean) + dot(node.mean, node.mean)

    pairs = list(zip(children, unseen_children, strict=True))
    if measure == "naive_oob":
        return delta(around(m, unseen_m), [around(c, u) for c, u in pairs])
    if measure == "ufi_centered":
        return sum(omega[id(c)] * dot(minus(c.mean, m.mean), minus(u.mean, m.mean)) for c, u in pairs)
    if measure == "ufi" and is_classification:
        return delta(1.0 - dot(m.mean, unseen_m.mean), [1.0 - dot(c.mean, u.mean) for c, u in pairs])
    if measure == "ufi":
        trained = delta(impurity(m), [impurity(c) for c in children])
        return trained + delta(around(m, unseen_m), [around(c, u) for c, u in pairs])
    raise ValueError(measure)


def score_tree(measure, oracle_tree, X, y, n_classes):
    """Scores of one tree, (n_features, n_outputs); None if no unseen row has weight."""
    tree = oracle_tree.tree
    scores = np.zeros((X.shape[1], y.shape[1]))
    if measure != "mdi" and sum(weight for _, weight in oracle_tree.unseen) <= 0:
        return None
    for output in range(y.shape[1]):
        targets = vectors(y, output, n_classes)
        trained = summarise(tree, oracle_tree.columns, X, targets, oracle_tree.training)
        unseen = summarise(tree, oracle_tree.columns, X, targets, oracle_tree.unseen)
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
                unseen[m],
                [unseen[c] for c in pair],
                unseen[0],
            )
    return scores


def permute_tree(oracle_tree, X, y, n_classes, donors):
    """Increase of the loss with one column from the donor row, (n_features, n_outputs)."""
    tree, columns = oracle_tree.tree, oracle_tree.columns
    total = sum(weight for _, weight in oracle_tree.unseen)
    if total <= 0:
        return None

    def loss(x, target, output):
        leaf = walk(tree, columns, x)[-1]
        if n_classes is None:
            return (target - tree.value[leaf, output, 0]) ** 2
        best = max(range(len(oracle_tree.classes[output])), key=lambda k: tree.value[leaf, output, k])
        return float(oracle_tree.classes[output][best] != target)

    scores = np.zeros((X.shape[1], y.shape[1]))
    for (row, weight), donor in zip(oracle_tree.unseen, donors, strict=True):
        for output in range(y.shape[1]):
            before = loss(X[row], y[row, output], output)
            for column in range(X.shape[1]):
                x = X[row].copy()
                x[column] = X[donor, column]
                scores[column, output] += weight * (loss(x, y[row, output], output) - before) / total
    return scores


def score_forest(measure, trees, X, y, n_classes, donors=None):
    """Mean over outputs and over the trees that have unseen rows, (n_features,)."""
    if measure == "permutation":
        per_tree = [permute_tree(t, X, y, n_classes, d) for t, d in zip(trees, donors, strict=True)]
    else:
        per_tree = [score_tree(measure, t, X, y, n_classes) for t in trees]
    return np.mean([scores for scores in per_tree if scores is not None], axis=0).mean(axis=1)
