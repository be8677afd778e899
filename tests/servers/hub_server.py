"""A server that answers as the Hugging Face hub does, over folders of this machine."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LARGE = 100_000


@dataclass
class HubServer:
    """What the hub holds and how it behaves; ``requests`` are the lines that it was sent.

    Attributes:
        models: Name -> commit -> folder; the last commit is the main branch.
        gated: Names that need the token ``hf_right``.
        cut: Bytes after which the first reply with a large file ends; 0 for never.
        damaged: Send wrong bytes of large files.
        status: Answer every request with this error; 0 for none.
    """

    models: dict[str, dict[str, Path]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    cut: int = 0
    damaged: bool = False
    status: int = 0
    requests: list[str] = field(default_factory=list)
    url: str = ""

    @property
    def sent(self) -> list[str]:
        """Files whose bytes were asked for."""
        return [line.partition("/resolve/")[2] for line in self.requests if line[:3] == "GET"]


def commit_of(text: str) -> str:
    """A commit's 40 hexadecimal digits."""
    return hashlib.sha1(text.encode()).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    hub: HubServer

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        given = self.headers.get("Range", "")
        self.hub.requests.append(f"{self.command} {self.path} {given}".strip())
        path = unquote(urlsplit(self.path).path)
        api, name, rest = _parts(path)
        if self.hub.status:
            return self._error(self.hub.status, "", "down")
        if name not in self.hub.models:
            return self._error(401, "RepoNotFound", "Repository not found")
        if name in self.hub.gated and self.headers.get("Authorization") != "Bearer hf_right":
            return self._error(403, "GatedRepo", "Access to model is restricted")
        commits = self.hub.models[name]
        if api:
            return self._api(commits, rest)
        commit, _, file = rest.partition("/")
        if commit not in commits:
            return self._error(404, "RevisionNotFound", "Invalid rev")
        found = commits[commit] / file
        if not found.is_file():
            return self._error(404, "EntryNotFound", "no such file")
        return self._file(found, commit, given, body=body)

    def _api(self, commits: dict[str, Path], rest: str) -> None:
        kind, _, revision = rest.partition("/")
        commit = list(commits)[-1] if revision in {"", "main"} else revision
        if commit not in commits:
            return self._error(404, "RevisionNotFound", "Invalid rev")
        if kind not in {"", "revision", "tree"}:
            return self._error(404, "EntryNotFound", kind)
        home = commits[commit]
        entries = [_entry(home, p) for p in sorted(home.rglob("*")) if p.is_file()]
        if kind == "tree":
            return self._json([{"type": "file", "path": e["rfilename"], **e} for e in entries])
        return self._json({"id": "m", "sha": commit, "siblings": entries})

    def _file(self, path: Path, commit: str, given: str, *, body: bool) -> None:
        data = path.read_bytes()
        large = len(data) > _LARGE
        start = int(given.removeprefix("bytes=").partition("-")[0]) if given else 0
        rest = data[start:]
        if self.hub.damaged and large:
            rest = bytes(len(rest))
        self.send_response(206 if given else 200)
        self.send_header("X-Repo-Commit", commit)
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("Content-Length", str(len(rest)))
        if given:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if not body:
            return
        if 0 < self.hub.cut < len(rest):
            rest, self.hub.cut = rest[: self.hub.cut], 0
            self.close_connection = True
        self.wfile.write(rest)

    def _json(self, value: object) -> None:
        text = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _error(self, status: int, code: str, text: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", text)
        self.send_header("Content-Length", "0")
        self.end_headers()


@contextmanager
def hub_server(models: dict[str, dict[str, Path]]) -> Iterator[HubServer]:
    """Run a hub on a free port of this machine."""
    hub = HubServer(models)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("_Handler", (_Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _parts(path: str) -> tuple[bool, str, str]:
    """Whether a path is the API's, the name of the model, and what follows."""
    parts = path.strip("/").split("/")
    if parts[:2] == ["api", "models"]:
        return True, "/".join(parts[2:4]), "/".join(parts[4:])
    return False, "/".join(parts[:2]), "/".join(parts[3:])


def _entry(home: Path, path: Path) -> dict[str, object]:
    name, size = path.relative_to(home).as_posix(), path.stat().st_size
    entry: dict[str, object] = {"rfilename": name, "size": size, "oid": "0" * 40}
    if size > _LARGE:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        entry["lfs"] = {"sha256": digest, "oid": digest, "size": size, "pointerSize": 134}
    return entry
