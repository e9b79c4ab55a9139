"""Seconds from a clone to the first report: `pip install` into a new environment, and one command.

    python experiments/tables/first_report.py

Run it from the root of a clone. pip downloads packages, or takes them from its cache, and compiles the
extension. Writes first_report.csv beside this file: for each command the elapsed and the processor seconds, the number
of cores, and the load of the machine before it. On a busy machine, only processor seconds are meaningful.
"""

from __future__ import annotations

import csv
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from generated import TARGETS, make

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent


def measure(command: list[str], folder: str) -> list[object]:
    load = os.getloadavg()[0]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=variables, check=True, stdout=subprocess.DEVNULL)
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [round(seconds), round(processor_seconds), os.cpu_count(), round(load, 1)]


def start() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", f"{folder}/venv"], check=True)
        subprocess.run(["git", "clone", "--quiet", ROOT, f"{folder}/truewood"], check=True)
        make("orders", np.random.default_rng(1)).to_csv(f"{folder}/orders.csv", index=False)
        target = TARGETS["orders"]
        lines = [
            [
                "pip install 'truewood[cli]'",
                *measure([f"{folder}/venv/bin/pip", "install", "--quiet", "./truewood[cli]"], folder),
            ],
            [
                "truewood importance orders.csv --target Price --output report.html",
                *measure(
                    [
                        f"{folder}/venv/bin/truewood",
                        *f"importance orders.csv --target {target} --output report.html".split(),
                    ],
                    folder,
                ),
            ],
            [
                "the same again",
                *measure(
                    [
                        f"{folder}/venv/bin/truewood",
                        *f"importance orders.csv --target {target} --output report.html".split(),
                    ],
                    folder,
                ),
            ],
        ]
    with (FOLDER / "first_report.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["command", "seconds", "processor_seconds", "cores", "load"])
        writer.writerows(lines)


if __name__ == "__main__":
    start()
