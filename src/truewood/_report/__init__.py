"""The report: one HTML file, without anything loaded from elsewhere, to hand on to people who do not use Python."""

from truewood._report.comparison_page import write_comparison
from truewood._report.page import write_report

__all__ = ["write_comparison", "write_report"]
