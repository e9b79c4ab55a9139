"""The report's cards: what is known of each feature, folded below its name. User text is always escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from truewood._formatting import LEVEL, count, enumerate_names, format_p_value, format_percents
from truewood._report.effects import draw_effects
from truewood._results.caveats import TableCheck
from truewood._results.importance_frame import MAX_RANKED
from truewood._results.summary import Percent, classify_features, find_shown, get_factor, name_unit
from truewood._results.trends import Direction, find_class_directions, find_predicted_class, name_prediction

if TYPE_CHECKING:
    from truewood._results.explanation import Explanation
    from truewood._results.importance_result import ImportanceResult

# Minimum number of cards, and maximum if more features are significant.
_FEW, _MOST = 20, 60
# Classes that a card lists, and those for which it draws effects.
_MAX_CLASSES = 12
_MAX_CURVES = 4


def write_cards(
    result: ImportanceResult,
    *,
    percent: Percent | None,
    alpha: float,
    check: TableCheck | None,
    feature_groups: Mapping[str, Sequence[Any]] | None,
    explanation: Explanation | None,
    directions: list[Direction] | None,
) -> str:
    """Write the section of cards, the most important feature first and open.

    Parameters
    ----------
    result : ImportanceResult
        The scores.
    percent : Percent or None
        How scores are converted to percentages.
    alpha : float
        Significance level for adjusted p-values.
    check : TableCheck or None
        Correlated columns.
    feature_groups : dict or None
        The columns of each group.
    explanation : Explanation or None
        Effects on predictions.
    directions : list of Direction, or None
        The direction of each feature, in the order of the features.
    """
    n_cards = _count_cards(result, alpha)
    facts = _list_facts(result, percent, alpha)
    cards = []
    for place, j in enumerate(result.order[:n_cards].tolist()):
        direction = Direction() if directions is None else directions[j]
        pairs, name = list(facts[j]), str(result.feature_names[j])
        members = list((feature_groups or {}).get(name, ()))
        if len(members) > 1:
            pairs.append(("Columns", enumerate_names(list(map(str, members)))))
        correlated = [] if check is None else _list_correlated(check, name)
        if correlated:
            pairs.append(("Correlated with", enumerate_names(correlated)))
        details = f"<dl>{''.join(f'<dt>{escape(term)}</dt><dd>{escape(text)}</dd>' for term, text in pairs)}</dl>"
        effects = _draw_all_effects(explanation, direction, j) if explanation is not None and direction.effects else ""
        head = [f'<span class="name">{escape(name)}</span>']
        head += [f"<span>{escape(text)}</span>" for text in (pairs[0][1], direction.text)]
        cards.append(
            f'<details class="card" data-number="{place}"{" open" * (place == 0)}><summary>{"".join(head)}</summary>'
            f'<div class="card-body">{effects}<div>{details}{_write_classes(result, percent, j)}</div></div></details>'
        )
    n_left = len(result.values) - n_cards
    note = f"<p>{count(n_left, 'more feature')} in the table below.</p>" if n_left else ""
    return (
        '<section aria-labelledby="cards-heading"><h2 id="cards-heading">Feature by feature</h2>\n'
        f"{''.join(cards)}{note}</section>"
    )


def _draw_all_effects(explanation: Explanation, direction: Direction, j: int) -> str:
    """Draw the effects of a feature, for each class if there are more than two."""
    if not direction.output:
        return draw_effects(direction, name_prediction(explanation, find_predicted_class(explanation)))
    found = find_class_directions(explanation, j)[:_MAX_CURVES]
    drawn = "".join(draw_effects(one, name_prediction(explanation, one.output)) for one in found)
    return f'<div class="effects">{drawn}</div>'


def _count_cards(result: ImportanceResult, alpha: float) -> int:
    n_found = 0 if result.inference_unavailable is not None else int(result.select(alpha).sum())
    return min(len(result.values), max(_FEW, min(n_found, _MOST)))


def _list_facts(result: ImportanceResult, percent: Percent | None, alpha: float) -> list[list[tuple[str, str]]]:
    """List the facts of each feature, in the order of the features; the first is its importance."""
    shown, n_features = find_shown(result, percent), len(result.values)
    name = "Importance"
    if percent is not None:
        name = "Share" if percent.is_share else "Part of the total"
    facts = [[(name, f"{text}{shown.suffix}")] for text in shown.write_values()]
    if result.inference_unavailable is None:
        verdicts, adjusted = classify_features(result, alpha).tolist(), result.adjusted_p_value().tolist()
        for j, text in enumerate(shown.write_intervals()):
            p_values = map(format_p_value, (float(result.p_value[j]), adjusted[j]))
            facts[j].append((f"{LEVEL:.0%} interval", f"{text}{shown.suffix}"))
            facts[j].append(("Verdict", verdicts[j]))
            facts[j].append(("P-value", "{}, adjusted {}".format(*p_values)))
    ranks, sets = result.frame()[["rank", "mdi_rank"]].to_numpy(), _describe_rank_sets(result, alpha)
    for place, j in enumerate(result.order.tolist()):
        rank, biased_rank = ranks[place].tolist()
        facts[j].append(("Rank", f"{rank:,} of {n_features:,}{sets[j]}"))
        facts[j].append(("Biased rank", f"{biased_rank:,} of {n_features:,} by mean decrease in impurity"))
    return facts


def _describe_rank_sets(result: ImportanceResult, alpha: float) -> list[str]:
    """Describe which ranks each feature may have; empty without inference, and for too many features."""
    n_features = len(result.values)
    if result.inference_unavailable is not None or not 1 < n_features <= MAX_RANKED:
        return [""] * n_features
    pairs = zip(*(ranks.tolist() for ranks in result.rank_sets(alpha)), strict=True)
    ranges = [f"{best}" if best == worst else f"{best} to {worst}" for best, worst in pairs]
    return [f" ({100 * (1 - alpha):g}% simultaneous confidence: {text})" for text in ranges]


def _list_correlated(check: TableCheck, name: str) -> Sequence[str]:
    """List the features that a feature is strongly correlated with, the strongest first."""
    return [
        f"{second if first == name else first} ({strength:.2f})"
        for first, second, strength in check.correlations.pairs
        if name in (first, second)
    ]


def _write_classes(result: ImportanceResult, percent: Percent | None, j: int) -> str:
    """Write the importance of a feature for each class as a table; empty without scores by class."""
    if result.classes is None:
        return ""
    values = get_factor(percent) * result.classes.values[:, j]
    order = (-values).argsort(kind="stable")[:_MAX_CLASSES].tolist()
    texts = [f"{text}%" for text in format_percents(values.tolist())]
    if percent is None:
        texts = [f"{value:.3g}" for value in values.tolist()]
    p_values = result.classes.p_value[:, j].tolist()
    rows = "".join(
        f'<tr><th scope="row">{escape(str(result.classes.names[k]))}</th><td>{escape(texts[k])}</td>'
        f"<td>{escape(format_p_value(p_values[k]))}</td></tr>"
        for k in order
    )
    n_left = len(values) - len(order)
    more = f"<p>{n_left:,} more in the downloaded table.</p>" if n_left else ""
    name = name_unit(result) if percent is None else "part of the share"
    return (
        f'<table class="by-class"><thead><tr><th>class</th><td>{escape(name)}</td><td>p-value</td></tr></thead>'
        f"<tbody>{rows}</tbody></table>{more}"
    )
