"""What the stories share: a project from a few texts, and commands whose JSON is read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from command_line import ragwright

from ragwright.testing import ScriptedServer, ServerRequest


def make_project(folder: Path, texts: Mapping[str, str], settings: str = "") -> Path:
    """A project over these texts, ingested."""
    for name, text in texts.items():
        file = folder / "docs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    (folder / "ragwright.yaml").write_text(f"sources: [docs/]\n{settings}", "utf-8")
    ragwright(folder, "ingest", "-q")
    return folder


def run(folder: Path, command: str, *more: str, code: int | None = 0) -> str:
    """What a command prints: its words in one text, and those that hold spaces after it."""
    return ragwright(folder, *command.split(), *more, code=code).stdout


def read_json(folder: Path, command: str, *more: str, code: int | None = 0) -> Any:
    """The JSON document that a command prints."""
    return json.loads(run(folder, command, *more, "--json", code=code))


def write_rows(file: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """A file of rows (JSONL)."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file


def embedded(server: ScriptedServer, since: int = 0) -> list[str]:
    """The texts that a model server has embedded from this request on."""
    bodies = [request.body for request in server.requests[since:]]
    return [text for body in bodies if "input" in body for text in body["input"]]


def settings(**values: object) -> list[str]:
    """``--set`` words: two underscores are a dot."""
    pairs = [f"{key.replace('__', '.')}={value}" for key, value in values.items()]
    return [word for pair in pairs for word in ("--set", pair)]


def pdf_of(*pages: str) -> bytes:
    """A PDF with one line of text on each page, or what a content stream draws."""
    kids = " ".join(f"{3 + 2 * n} 0 R" for n in range(len(pages)))
    objects = ["<</Type/Catalog/Pages 2 0 R>>", f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>"]
    for n, text in enumerate(pages):
        font = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
        stream = text if "BT /F" in text else f"BT /F 11 Tf 40 700 Td ({text}) Tj ET"
        objects += [
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Resources<</Font<</F {font}>>>>"
            f"/Contents {4 + 2 * n} 0 R>>",
            f"<</Length {len(stream)}>>stream\n{stream}\nendstream",
        ]
    made, places = "%PDF-1.4\n", []
    for n, text in enumerate(objects, 1):
        places.append(f"{len(made):010d} 00000 n \n")
        made += f"{n} 0 obj\n{text}\nendobj\n"
    table = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{''.join(places)}"
    trailer = f"trailer<</Root 1 0 R/Size {len(objects) + 1}>>\nstartxref\n{len(made)}\n%%EOF"
    return (made + table + trailer).encode()


def schema_keys(request: ServerRequest) -> list[str]:
    """The keys that a chat request wants in the reply, if it wants JSON."""
    form = request.body.get("response_format") or {}
    return list(form.get("json_schema", {}).get("schema", {}).get("properties", ()))
