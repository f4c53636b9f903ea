"""Benchmarks: suites of methods and tasks, their results, tables and reports."""
