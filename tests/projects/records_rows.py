"""Rows, declarations and a plain reference for the tests of steps."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from ragwright.core import parse_yaml
from ragwright.records import HASH, KEY
from ragwright.records.declared import Cleaning, Tags, read_cleaning, read_tags


def cleaning_of(text: str) -> Cleaning:
    return read_cleaning(parse_yaml(text, "file.yaml"))


def tags_of(text: str) -> Tags:
    return read_tags(parse_yaml(text, "file.yaml"))


def bronze_of(texts: Sequence[str | None], **columns: Sequence[Any]) -> pa.Table:
    keys = [f"k{at:03}" for at in range(len(texts))]
    own = {KEY: keys, HASH: ["0"] * len(keys), "body": list(texts)}
    return pa.table({name: pa.array(v, pa.string()) for name, v in own.items()} | columns)


def plainly_cleaned(text: str, cleaning: Cleaning) -> str:
    """What the cleaning makes of a text, in plain Python."""
    text = text.replace("\0", "")
    for step in cleaning.steps:
        if isinstance(step, str):
            text = _NAMED[step](text)
        else:
            template = step.replacement.replace("\\", r"\\\\")
            template = re.sub(r"\$(\d+)|\$\{(\w+)\}", r"\\g<\1\2>", template)
            text = re.sub(step.pattern.find, template.replace("$$", "$"), text)
    return text.replace("\0", "")


def plainly_tagged(text: str, tags: Tags) -> list[str]:
    """Names of the tags found in a text, in plain Python."""
    return [tag.name for tag in tags.tags if re.search(tag.pattern.find, text)]


_NAMED: dict[str, Callable[[str], str]] = {
    "strip": str.strip,
    "unescape_html": html.unescape,
    "normalise_unicode": lambda text: unicodedata.normalize("NFKC", text),
    "control_characters": lambda text: "".join(
        c for c in text if unicodedata.category(c) != "Cc" or c in "\t\n\f\r\x85"
    ),
    "squeeze_spaces": lambda text: re.sub(r"\s+", " ", text),
}
