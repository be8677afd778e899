"""Builds the documentation site, with the Python API reference, into build/site.

`python docs/site.py` stages the pages in build/site-work, writes a page for each room from the
docstrings behind its front door, runs zensical and checks that the result loads nothing from
another host. Links to files that are not pages of the site become plain text: the project has no
public address to link to.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "ragwright"
WORK = ROOT / "build" / "site-work"
OUT = ROOT / "build" / "site"

FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
GROUP = re.compile(r"^\*\*(.+?):\*\*(.+?)(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):`~?([^`]+)`")
SHIM = "https://unpkg.com/iframe-worker/shim"
LOADED = re.compile(r"""<(?:script|img|iframe)[^>]*\ssrc=["']?(?:https?:)?//[^>]*>""")
LINKED = re.compile(r"""<link(?![^>]*rel=["']?canonical)[^>]*\shref=["']?(?:https?:)?//[^>]*>""")
IMPORTED = re.compile(r"""(?:url\(|@import\s+)["']?(?:https?:)?//[^)"';]*""")


def pages() -> dict[Path, str]:
    """Markdown file of the repository -> its place on the site."""
    places = {path: path.relative_to(DOCS).as_posix() for path in sorted(DOCS.rglob("*.md"))}
    for path in sorted(ROOT.glob("examples/*/README.md")):
        places[path] = f"examples/{path.parent.name}.md"
    for name in ("CONTRIBUTING", "SECURITY", "CHANGELOG"):
        places[ROOT / f"{name}.md"] = f"project/{name.lower()}.md"
    return places


def staged(path: Path, place: str, known: dict[Path, str]) -> str:
    """A page with its links turned to places of the site."""

    def turned(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        name, _, anchor = target.partition("#")
        if not name or ":" in name.split("/")[0]:
            return match[0]
        to = known.get((path.parent / name).resolve())
        if to is None:
            return text
        there = Path(os.path.relpath(to, Path(place).parent)).as_posix()
        return f"[{text}]({there}{'#' + anchor if anchor else ''})"

    parts = FENCE.split(path.read_text("utf-8"))
    text = "".join(part if part.startswith("```") else LINK.sub(turned, part) for part in parts)
    return re.sub(
        r"^```(bash|python|yaml) (?:no-run|needs_\S+)$", r"```\1", text, flags=re.MULTILINE
    )


def names_of(door: Path) -> list[str]:
    """Names that a front door offers."""
    for node in ast.parse(door.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    raise SystemExit(f"{door} has no __all__")


def api_pages() -> Iterator[tuple[str, str]]:
    """(name, text) of the page of the package and of each room."""
    doors = [SOURCE / "__init__.py", *sorted(SOURCE.glob("*/__init__.py"))]
    for door in doors:
        module = ".".join(door.parent.relative_to(SOURCE.parent).parts)
        members = json.dumps(names_of(door))
        yield (
            module,
            f"---\ntitle: {module}\n---\n\n# `{module}`\n\n"
            f"::: {module}\n    options:\n      members: {members}\n",
        )


def navigation(known: dict[Path, str]) -> list[object]:
    """What docs/index.md lists, in its order and by its groups."""
    taken: set[str] = set()

    def listed(text: str) -> list[object]:
        places = [
            known.get((DOCS / target.split("#")[0]).resolve()) for _, target in LINK.findall(text)
        ]
        fresh = [place for place in dict.fromkeys(places) if place and place not in taken]
        taken.update(fresh)
        return list(fresh)

    entries: list[object] = ["index.md", {"Tutorial": "tutorial.md"}]
    taken.update(("index.md", "tutorial.md"))
    index = (DOCS / "index.md").read_text("utf-8")
    for section in index.split("\n## ")[2:]:
        title, _, body = section.partition("\n")
        groups = [{name: of} for name, text in GROUP.findall(body) if (of := listed(text))]
        entries.append({title.strip(): [*groups, *listed(GROUP.sub("", body))]})
    entries.append({"Python API": [f"api/{name}.md" for name, _ in api_pages()]})
    others = sorted(place for place in known.values() if place not in taken)
    lost = [place for place in others if place.startswith("guide/")]
    if lost:
        raise SystemExit(f"docs/index.md lists no {', '.join(lost)}")
    return [*entries, {"More": others}]


def toml(value: object) -> str:
    """A list of texts and tables as TOML."""
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(k)} = {toml(v)}' for k, v in value.items())}}}"
    return json.dumps(value)


def stage() -> None:
    """Write pages, sources and settings into the working folder."""
    known = pages()
    shutil.rmtree(WORK, ignore_errors=True)
    for path, place in known.items():
        page = WORK / "pages" / place
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(staged(path, place, known), "utf-8")
    (WORK / "pages" / "api").mkdir()
    for name, text in api_pages():
        (WORK / "pages" / "api" / f"{name}.md").write_text(text, "utf-8")
    # Docstrings are Markdown on the site: roles of Sphinx would be shown as they are.
    for path in SOURCE.rglob("*.py"):
        copy = WORK / "source" / path.relative_to(SOURCE.parent)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(ROLE.sub(r"`\1`", path.read_text("utf-8")), "utf-8")
    settings = (DOCS / "site" / "zensical.toml").read_text("utf-8")
    nav = f"nav = {toml(navigation(known))}"
    (WORK / "zensical.toml").write_text(settings.replace("# NAVIGATION", nav), "utf-8")


def freed(folder: Path) -> None:
    """Take the one script that is loaded from another host from our own copy instead."""
    shutil.copy(DOCS / "site" / "iframe-worker.js", folder / "assets" / "iframe-worker.js")
    for page in folder.rglob("*.html"):
        own = Path(os.path.relpath(folder / "assets" / "iframe-worker.js", page.parent)).as_posix()
        page.write_text(page.read_text("utf-8").replace(SHIM, own), "utf-8")


def foreign(folder: Path) -> list[str]:
    """Scripts, styles, fonts and pictures that a page would load from another host."""
    addresses = []
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".html":
            text = path.read_text("utf-8")
            hits = [*LOADED.findall(text), *LINKED.findall(text)]
        elif path.suffix == ".css":
            hits = IMPORTED.findall(path.read_text("utf-8"))
        else:
            continue
        addresses += [f"{path.relative_to(folder)}: {hit[:160]}" for hit in hits]
    return addresses


def main() -> int:
    """Build the site."""
    stage()
    zensical = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    done = subprocess.run(zensical, cwd=WORK, check=False)
    if done.returncode:
        return done.returncode
    freed(WORK / "html")
    hits = foreign(WORK / "html")
    if hits:
        print("loaded from another host:", *hits, sep="\n  ", file=sys.stderr)  # noqa: T201
        return 1
    shutil.rmtree(OUT, ignore_errors=True)
    (WORK / "html").rename(OUT)
    print(f"open {OUT / 'index.html'}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
