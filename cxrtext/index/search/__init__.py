"""Search an index: filters, queries, ranking, pages and cohorts."""
