"""The HTML report of a model on a table: accuracy, calibration, uncertainty and deferral."""

from bacoun.report.data import ReportData, report_data
from bacoun.report.page import render_page, write_page

__all__ = ["ReportData", "render_page", "report_data", "write_page"]
