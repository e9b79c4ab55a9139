"""The report: one HTML file, without anything loaded from elsewhere, to hand on to people who do not use Python."""

from truewood.report.page import write_report

__all__ = ["write_report"]
