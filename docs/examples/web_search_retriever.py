"""A web search as a retriever: any service that is asked by GET and answers with JSON.

    prompt-coevo retrieval serve --set max_batch=8 --retriever web_search_retriever:WebSearch \
        --option url=https://search.example.org/api

This one answers {"results": [{"url": "...", "title": "...", "snippet": "..."}, ...]}. A key belongs into
the environment, not into the options, which are written down.
"""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from prompt_coevo.retrieval.errors import QueryError, RetrieverUnavailable
from prompt_coevo.retrieval.retriever import IndexInfo, check_search, ranked


class WebSearch:
    def __init__(self, url, timeout_s=5.0, at_once=8):
        self.url, self.timeout_s = url, timeout_s
        self.threads = ThreadPoolExecutor(at_once)
        key = os.environ.get("WEB_SEARCH_KEY")
        self.headers = {"authorization": f"Bearer {key}"} if key else {}

    def search(self, queries, k):
        check_search(queries, k)
        return list(self.threads.map(lambda query: self.best(query, k), queries))

    def best(self, query, k):
        request = Request(f"{self.url}?{urlencode({'q': query, 'n': k})}", headers=self.headers)
        try:
            with urlopen(request, timeout=self.timeout_s) as answer:
                results = map(row, json.load(answer)["results"][:k])
                # The engine's order is all there is, and scores may not rise.
                return ranked((result, 1 / rank) for rank, result in enumerate(results, 1))
        except HTTPError as error:
            if error.code in (400, 414):  # this query is at fault: the policy is told, and goes on
                raise QueryError(f"the web search refused it: {error.code}") from None
            raise RetrieverUnavailable(f"the web search answered {error.code}") from None
        except (URLError, OSError, ValueError, LookupError, TypeError) as error:
            raise RetrieverUnavailable(f"the web search gave no answer: {error!r}") from None

    def info(self):
        return IndexInfo("web", 0, "")  # it changes at any time: no fingerprint, nothing is kept

    def close(self):
        self.threads.shutdown(cancel_futures=True)


def row(result):
    """As a row of a corpus: the first line of the contents is the title, in quotes."""
    return {
        "id": result["url"],
        "contents": f'"{result["title"]}"\n{result["snippet"]}',
        "url": result["url"],
    }
