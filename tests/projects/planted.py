"""A project with secrets of groups of readers in every place that a text can come from."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from ragwright import Workbench
from ragwright.core import Chunk, Document, Span
from ragwright.index import IndexedDocument
from ragwright.ingest import FetchBytes, Reader

GROUPS = ("hr", "board", "sales")

MARKDOWN = """\
---
title: Rules {title}
groups: [{group}]
author: {author}
tags: [plan, {tag}]
reviewer: {{name: {nested}}}
{field}: {value}
---
# Handbook {heading}

The door code is {body}. Ms. Ada {name} keeps it. Its number is CODE_{code}.

## Doors {subheading}

| Door | Code of {column} |
|---|---|
| north | {cell} |

- the list holds {item}
1. the first step is {step}

> quoted: {quote}

    indented {indented}

```
fenced {fenced}
```

![a plan of {alternative}](images/{image}.png) [a link to {link}](https://example.org/{address})

The {term} (ZZ{group}) is the meaning of {meaning}. Write to {mail}@example.org.[^1]

<!-- {comment} -->

[^1]: a note on {footnote}
"""

HTML = """\
<html><head><title>Page {html_title}</title><meta name="author" content="{html_meta}">
<meta name="description" content="{html_description}"></head><body><h1>Doors {html_heading}</h1>
<p>The door code is {html_body}.</p><table><tr><th>{html_column}</th></tr><tr><td>{html_cell}</td>
</tr></table></body></html>
"""

MAIL = """\
From: {mail_from}@example.org
To: all@example.org
Subject: Doors {mail_subject}
Content-Type: text/plain

The door code is {mail_body}.
"""

FORMAT = """\
prompt_variables: [length, ask_type, client, topic, text]
prompt_structure: "A %s %s message from %s about %s:\\n\\n%s"
"""


class Secrets(defaultdict[str, str]):
    """The secrets of a group, by the place that each is planted in; made when first named."""

    def __init__(self, group: str) -> None:
        super().__init__()
        self.group = group

    def __missing__(self, place: str) -> str:
        self[place] = f"Q{self.group}{len(self):02d}zx"
        return self[place]


PLANTED: dict[str, Secrets] = {}


class Wiki(Reader):
    """A reader of another service, with groups in the metadata of its documents."""

    def accepts(self, source: str) -> bool:
        return True

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document]:
        for group, known in PLANTED.items():
            place = f"wiki/{known['loaded_source']}"
            yield Document(
                place,
                place,
                f"The door code is {known['loaded_text']}.",
                title=f"Doors {known['loaded_title']}",
                metadata={"space": known["loaded_metadata"], "groups": (group,)},
            )


def planted(folder: Path, settings: str) -> dict[str, Secrets]:
    """Write the project, ingest it, and return its secrets by group."""
    PLANTED.clear()
    PLANTED.update({group: Secrets(group) for group in GROUPS})
    sources = ["docs", {"source": "wiki", "reader": "planted:Wiki"}]
    rules = []
    for group, known in PLANTED.items():
        table = folder / "docs" / f"{group}-{known['folder_of_rule']}"
        named = folder / f"source-{group}"
        for place, text in (
            (folder / f"docs/{known['folder']}/{known['file']}.md", MARKDOWN),
            (table / f"{known['table_file']}.csv", "door,{csv_column}\nnorth,{csv_cell}\n"),
            (table / "page.html", HTML),
            (table / "letter.eml", MAIL),
            (named / f"{known['file_of_source']}.txt", "The door code is {text_of_source}.\n"),
        ):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text.format_map(_Filled(known)), "utf-8")
        rules.append({"match": f"{group}-*", "groups": [group]})
        sources.append({"source": named.name, "groups": [group]})
    (folder / "docs/open.md").write_text("# Doors\n\nThe door code is at the desk.\n", "utf-8")
    (folder / "records/text_formats").mkdir(parents=True)
    (folder / "records/text_formats/message.yaml").write_text(FORMAT, "utf-8")
    (folder / "records/rollups.yaml").write_text("client: {column: sender}\n", "utf-8")
    (folder / "ragwright.yaml").write_text(
        f"sources: {_flow(sources)}\ngroups: {{rules: {_flow(rules)}}}\n{settings}", "utf-8"
    )
    with Workbench.open(folder) as bench:
        report = bench.ingest()
        assert not report.failures, report.failures
        bench.project.store.upsert(bench.project.index_spec, list(_records()))
    return PLANTED


class _Filled(dict[str, str]):
    """What the fields of a text are filled with: a secret each, and the group."""

    def __init__(self, known: Secrets) -> None:
        super().__init__()
        self.known = known

    def __missing__(self, place: str) -> str:
        return self.known.group if place == "group" else self.known[place]


def _flow(values: Sequence[object]) -> str:
    return json.dumps(values)


def _records() -> list[IndexedDocument]:
    """Records of each group, and some that are everyone's."""
    indexed = []
    for number in range(8):
        for group in ("", *GROUPS):
            known = PLANTED.get(group)
            own = {
                "client": "Jane Doe" if known is None else f"Client {known['client']}",
                "ask_type": "donation" if known is None else known["ask_type"],
                "topic": ("health",) if known is None else ("health", known["topic"]),
                "tone": ("calm",) if known is None else (known["tone"],),
                "region": "north" if known is None else known["record_column"],
            }
            head = f"A short message from {own['client']}:\n\n"
            secret = "nothing" if known is None else known["record_text"]
            text = f"{head}Message {number} says {secret}."
            more = {} if known is None else {"groups": (group,)}
            metadata = {"length": "short", "kind": "record", "message_at": len(head), **own, **more}
            document = Document(f"record:{group}{number}", "records:", text, metadata=metadata)
            chunk = Chunk(f"{document.id}:0", document.id, 0, Span(0, len(text)), text)
            indexed.append(IndexedDocument(document, (chunk,)))
    return indexed
