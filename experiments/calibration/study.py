"""Are the p-values and intervals correct? Tests on simulated data sets without and with signal.

Run: python experiments/calibration/study.py null|coverage|power|all [--first 0] [--repetitions 300]
    [--n-jobs N] [--designs PATTERN] [--without PATTERN] [--seconds S] [--add FILE ...]

Each study writes a table and a plot beside this script, and a checkpoint with a line per data set: a stopped run
resumes from it, and the table has all data sets in it, also those that `--add` appends from other machines. Rows of
the table stay for designs without any. Remove the checkpoint after a change to the library.
Data set k of a design always has the same seed, so that the same command gives the same files. Designs whose library
is not installed are left out, and so are plots without matplotlib. Costly designs have fewer data sets (`most` in
their definition).
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path

import pandas as pd
from checkpoints import read_runs, write_table
from design import Design, Fitted, Record, run_one
from designs_hard import HARD
from designs_null import NULL
from designs_signal import COVERAGE, POWER
from joblib import Parallel, delayed
from summaries import (
    Entries,
    collect_p_values,
    describe_coverage,
    describe_null,
    describe_power,
    tabulate_coverage,
    tabulate_null,
    tabulate_power,
)

from truewood._checkpoint import append_to
from truewood._progress import show_progress


@dataclass(frozen=True)
class Study:
    """Designs, what to keep of each data set, the table of all of them, and its columns that name a design."""

    designs: dict[str, Design]
    describe: Callable[[Fitted], Record]
    tabulate: Callable[[dict[str, Design], Entries], pd.DataFrame]
    keys: tuple[str, ...]


STUDIES = {
    "null": Study(NULL | HARD, describe_null, tabulate_null, ("design",)),
    "coverage": Study(COVERAGE, describe_coverage, tabulate_coverage, ("design", "signal")),
    "power": Study(POWER, describe_power, tabulate_power, ("design", "signal", "strength")),
}
KEYS = ("design", "fingerprint", "number")


def is_named(name: str, patterns: str) -> bool:
    """Whether a design has one of these names."""
    return any(fnmatchcase(name, pattern) for pattern in patterns.split("|"))


def choose(study: Study, patterns: str, without: str) -> dict[str, Design]:
    """Take the designs that the patterns name and whose library is installed."""
    designs = study.designs.items()
    named = {name: own for name, own in designs if is_named(name, patterns) and not is_named(name, without)}
    absent: dict[str, list[str]] = defaultdict(list)
    for name, design in named.items():
        if design.absent_library is not None:
            absent[design.absent_library].append(name)
    for library, names in absent.items():
        print(f"{library} is not installed; left out: {'; '.join(names)}")
    return {name: design for name, design in named.items() if design.absent_library is None}


def read_done(checkpoint: Path, designs: dict[str, Design], others: Iterable[Path] = ()) -> Entries:
    """The entries of these designs in the checkpoints, in the order of their numbers, without failures."""
    by_number: dict[str, dict[int, Record]] = {name: {} for name in designs}
    for entry in read_runs(checkpoint, others, KEYS):
        design = designs.get(entry["design"])
        if design is None or entry["fingerprint"] != design.fingerprint or "error" in entry:
            continue
        by_number[entry["design"]][entry["number"]] = entry
    return {name: [found[number] for number in sorted(found)] for name, found in by_number.items() if found}


def run(
    title: str,
    study: Study,
    designs: dict[str, Design],
    checkpoint: Path,
    numbers: range,
    n_jobs: int,
    seconds: float,
) -> None:
    """Run what the checkpoint lacks: the first data set of every design, then the second, and so on."""
    end = time.monotonic() + seconds
    done = {(name, e["number"]) for name, found in read_done(checkpoint, designs).items() for e in found}
    wanted = [(name, number) for number in numbers for name in designs if number < designs[name].count(numbers.stop)]
    work = [key for key in wanted if key not in done]
    failures: Counter[str] = Counter()
    with (
        show_progress(title, total=len(wanted), done=len(wanted) - len(work), unit="data sets") as update,
        append_to(checkpoint) as append,
    ):
        steps = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)(
            delayed(run_one)(name, designs[name], number, study.describe)
            for name, number in takewhile(lambda _: time.monotonic() < end, work)
        )
        for n_done, entry in enumerate(steps, start=len(wanted) - len(work) + 1):
            append(entry)
            update(n_done)
            if "error" in entry:
                failures[f"{entry['design']}: {entry['error']}"] += 1
    for failure, n_times in failures.items():
        print(f"failed {n_times} times: {failure}")


def name_designs(study: Study) -> list[tuple[str, ...]]:
    """What each design has in the columns that name it: its name, and the kind and strength of its signal."""
    names = []
    for name, design in study.designs.items():
        parts = [str(part) for signal in design.signal[:1] for part in signal][: len(study.keys) - 1]
        names.append((name.removesuffix("".join(f", {part}" for part in parts)), *parts))
    return names


def summarize(title: str, study: Study, entries: Entries, folder: Path) -> None:
    """Write the table and the plot of everything finished."""
    designs = study.designs
    table, path = study.tabulate(designs, entries), folder / f"{title}.csv"
    write_table(table, path, study.keys, name_designs(study))
    print(table.to_string(index=False, float_format=lambda number: f"{number:.3g}"))
    messages = Counter((name, message) for name, found in entries.items() for e in found for message in e["warnings"])
    for (name, message), n_times in messages.items():
        print(f"warned {n_times} times: {name}: {message}")
    if importlib.util.find_spec("matplotlib") is None:
        print("matplotlib is not installed; no plot")
        return
    from plots import draw_coverage, draw_power, draw_qq

    if title == "null":
        draw_qq(collect_p_values(designs, entries), folder / "null_qq.png")
    elif title == "coverage":
        draw_coverage(pd.read_csv(path), folder / "coverage.png")
    elif any(designs[name].has_peers for name in entries):
        draw_power(table, folder / "power.png")


def tabulate_costs(designs: dict[str, Design], entries: Entries) -> pd.DataFrame:
    """Mean seconds per data set on one core, and the maximum number of data sets, by design."""
    return pd.DataFrame(
        {
            "design": name,
            "seconds": round(sum(entry["seconds"] for entry in found) / len(found), 2),
            "most": designs[name].most or "",
        }
        for name, found in entries.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*STUDIES, "all"])
    parser.add_argument("--repetitions", type=int, default=300, help="data sets a design")
    parser.add_argument("--first", type=int, default=0, help="number of the first data set, to share the work")
    parser.add_argument("--n-jobs", type=int, default=-1, help="processes; all cores by default")
    parser.add_argument("--designs", default="*", metavar="PATTERN", help="only these, such as '*regression|500 rows'")
    parser.add_argument("--without", default="", metavar="PATTERN", help="not these")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent, help="where checkpoints and results are")
    parser.add_argument("--add", type=Path, nargs="*", default=[], metavar="FILE", help="checkpoints of other machines")
    parser.add_argument("--only-summary", action="store_true", help="run nothing; tables of what is done")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no data set after so long")
    parser.add_argument("--costs", action="store_true", help="print the seconds that a data set of each design takes")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for title in STUDIES if options.name == "all" else [options.name]:
        study, checkpoint = STUDIES[title], options.folder / f"{title}.jsonl"
        read_done(checkpoint, study.designs, options.add)
        if not options.only_summary:
            designs = choose(study, options.designs, options.without)
            numbers = range(options.first, options.repetitions)
            run(title, study, designs, checkpoint, numbers, options.n_jobs, options.seconds)
        entries = read_done(checkpoint, study.designs)
        if not entries:
            print(f"{title}: nothing is done yet")
            continue
        summarize(title, study, entries, options.folder)
        if options.costs:
            print(tabulate_costs(study.designs, entries).to_string(index=False))


if __name__ == "__main__":
    main()
