"""Append records to the file that an environment variable names; without the variable do nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any


def append(variable: str, records: Iterable[dict[str, Any]]) -> None:
    """Write one JSON line per record, in one write, so that writers do not mix."""
    path = os.environ.get(variable)
    if not path:
        return
    data = "".join(json.dumps(record) + "\n" for record in records).encode()
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, data)
    finally:
        os.close(handle)
