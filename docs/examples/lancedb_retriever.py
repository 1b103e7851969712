"""A LanceDB table as a retriever, by its full-text index, so without an encoder or a server.

The table has the columns "id" and "contents", and whatever else belongs to a passage.

    prompt-coevo retrieval serve --retriever lancedb_retriever:Table \
        --option uri=wiki --option table=passages
"""

import lancedb
from lancedb.index import FTS

from prompt_coevo.retrieval.retriever import IndexInfo, check_search, ranked


def write(uri, table, rows):
    """A table of these rows, with the index that `Table` searches."""
    made = lancedb.connect(uri).create_table(table, data=rows)
    made.create_index("contents", config=FTS())


class Table:
    def __init__(self, uri, table):
        self.name, self.table = table, lancedb.connect(uri).open_table(table)

    def search(self, queries, k):
        check_search(queries, k)
        return [self.best(query, k) for query in queries]

    def best(self, query, k):
        rows = self.table.search(query, query_type="fts").limit(k).to_list()
        return ranked((row, row.pop("_score")) for row in rows)

    def info(self):
        # A table has a version, which every write makes a new one.
        told = f"{self.name} {self.table.version}"
        return IndexInfo("lancedb", self.table.count_rows(), told)

    def close(self):
        pass
