"""Figures beside citations, and who may see them."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
from served import served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys

pytest.importorskip("fastapi")
pytest.importorskip("selectolax")

GIF = b"GIF89a" + (160).to_bytes(2, "little") + (110).to_bytes(2, "little") + bytes(20)
PAGE = """<html><head><meta name="author" content="{author}"></head><body><h1>Pumps</h1>
<p>The pump of model {author} is driven by a steel shaft.</p>
<figure><img src="data:image/gif;base64,{image}">
<figcaption>Figure 2. <b>Shaft</b> of {author}</figcaption></figure></body></html>"""


def project(tmp_path: Path) -> Path:
    image = base64.b64encode(GIF).decode()
    pages = {f"{n}.html": PAGE.format(author=n, image=image) for n in ("acme", "zeta")}
    folder = MakeProject(tmp_path)("serve: {name: pumps}\n", **pages)
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


@pytest.mark.slow
def test_figures_are_shown_with_citations_to_those_who_may_see_them(tmp_path: Path) -> None:
    folder = project(tmp_path)
    keys = ServeKeys(ProjectFolder(folder))
    owner = keys.add(ServeKey("all", role="owner"))
    acme = keys.add(ServeKey("acme", filters=("author=acme",)))
    question = "What is the pump of model acme driven by?"
    with served(folder) as running:
        client = running.client(owner)
        body = {"messages": [{"role": "user", "content": question}]}
        reply = client.post("/v1/chat/completions", json=body).json()
        [figure] = reply["ragwright"]["citations"][0]["figures"]
        assert figure["caption"] == "Figure 2. Shaft of acme"
        assert (figure["page"], figure["box"], figure["width"]) == (None, None, 160)
        hits = client.post("/v1/retrieve", json={"query": "pump", "top_k": 5}).json()["hits"]
        urls = {
            hit["document_id"].rpartition("/")[2]: hit["figures"][0]["url"]
            for hit in hits
            if hit["figures"]
        }
        assert set(urls) == {"acme.html", "zeta.html"}
        image = client.get(urls["zeta.html"])
        assert (image.content, image.headers["content-type"]) == (GIF, "image/gif")
        assert image.headers["x-content-type-options"] == "nosniff"
        narrowed = running.client(acme)
        assert narrowed.get(urls["acme.html"]).status_code == 200
        assert narrowed.get(urls["zeta.html"]).status_code == 404
        assert running.http.get(urls["acme.html"]).status_code in {401, 403}
        asked = client.post("/", data={"q": question}).text
        shown = re.findall(r'<img src="([^"]+)" alt="([^"]+)"', asked)
        assert shown == [(figure["url"], "Figure 2. Shaft of acme")]
