"""Secrets of many kinds, planted where they can enter a run, and a search for them in all that it wrote."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

# Put together here, so that no file has one.
REST = "Ab3dE5gH7jK9mN1pQ3sT5vX7zA9b"
IN_VARIABLES = {
    "OPENAI_API_KEY": "openai/of+the=environment",
    "OPENAI_API_KEY_2": "second-key-of-openai-0002",
    "OPENAI_KEYS": "several-keys-of-openai-0003",
    "ANTHROPIC_API_KEY": "anthropic-of-the-environment",
    "AWS_ACCESS_KEY_ID": "aws-access-key-0004",
    "AWS_SECRET_ACCESS_KEY": "/bPxRfiCY/with/slashes+MIK7MDENG",
    "AWS_SESSION_TOKEN": "aws-session-token-0005",
    "AWS_BEARER_TOKEN_BEDROCK": "aws-bearer-of-bedrock-0006",
    "WATSONX_APIKEY": "watsonx-apikey-0007",
    "WATSONX_ZENAPIKEY": "watsonx-zen-apikey-0008",
    "SNOWFLAKE_JWT": "snowflake-jwt-0009",
    "GITHUB_PAT": "github-pat-0010",
    "hf_token": "hugging-face-0011",
    "VERTEX_CREDENTIALS": '{"private": "vertex\\n0012"}',
    "DB_PASSWORD": "hunter2-0013",
}
BY_SHAPE = {
    "sk": f"sk-proj-{REST}",
    "anthropic": f"sk-ant-api03-{REST}",
    "groq": f"gsk_{REST}",
    "hugging face": f"hf_{REST}{REST}",
    "google": f"AIza{REST}{REST}",
    "aws": "AKIA" + REST.upper()[:16],
    "github": f"ghp_{REST}{REST}",
    "github, fine": f"github_pat_{REST}",
    "gitlab": f"glpat-{REST}",
    "slack": f"xoxb-12345-{REST}",
    "json web token": f"eyJ{REST}.{REST}.{REST}",
}
GIVEN = "given-in-the-settings-0020"
PASSWORD, SLASHED, QUERY, FRAGMENT = "pass-word-0021", "pa/ss-0022", "query-0023", "fragment-0024"
IN_ADDRESSES = {
    PASSWORD: f"https://user:{PASSWORD}@host/v1",
    SLASHED: f"https://user:{SLASHED}@host/v1",
    QUERY: f"https://host/v1?key={QUERY}",
    FRAGMENT: f"https://host/cb#access_token={FRAGMENT}",
}
HEADERS = {f"Bearer {REST}": REST, f"Authorization: Basic {REST}==": f"{REST}=="}
LONG = IN_VARIABLES["ANTHROPIC_API_KEY"]
CODED = {
    "base64": base64.b64encode(LONG.encode()).decode(),
    "hexadecimal": LONG.encode().hex(),
    "percent": quote(IN_VARIABLES["OPENAI_API_KEY"], safe=""),
    "JSON": json.dumps(IN_VARIABLES["VERTEX_CREDENTIALS"])[1:-1],
    "first half": LONG[:14],
    "second half": LONG[14:],
}
BEHIND_A_USER = base64.b64encode(f"user:{LONG}:x".encode()).decode()
SECRETS = [
    BEHIND_A_USER[8:-8],
    *IN_VARIABLES.values(), *BY_SHAPE.values(), *IN_ADDRESSES, *HEADERS.values(), *CODED.values(), GIVEN,
]  # fmt: skip
SAID = " , ".join(
    [
        BEHIND_A_USER,
        *IN_VARIABLES.values(),
        *BY_SHAPE.values(),
        *IN_ADDRESSES.values(),
        *HEADERS,
        *CODED.values(),
        GIVEN,
    ]
)


def found_in(texts: Mapping[str, str]) -> Iterator[str]:
    for name, text in texts.items():
        for secret in SECRETS:
            if secret in text or json.dumps(secret)[1:-1] in text:
                yield f"{secret} in {name}"


def saying_all(reply: Callable[[dict[str, Any]], str]) -> Callable[[dict[str, Any]], str]:
    """Make an OpenAI server's reply repeat every secret before its template."""
    return lambda body: f"{SAID}\n{reply(body)}"


def variables(base: str) -> dict[str, str]:
    """Return the environment of a run whose settings hold a key, and an address with a password."""
    return {
        **IN_VARIABLES,
        "PROMPT_COEVO_REFLECTION__API_BASE": base.replace("://", f"://user:{PASSWORD}@"),
        "PROMPT_COEVO_REFLECTION__API_KEY": GIVEN,
    }


def found_below(folder: Path) -> list[str]:
    """Return the secrets in any file of a folder, each with the file."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    texts = {str(path.relative_to(folder)): path.read_bytes().decode("latin-1") for path in files}
    assert texts
    return list(found_in(texts))
