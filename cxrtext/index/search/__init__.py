"""Searching one index or several: filters, queries, ranking, pages and cohorts."""
