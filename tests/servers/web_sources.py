"""A web page, a Wikipedia article and a paper of arXiv, served on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

from made_files import pdf_of
from raw_server import QuietHandler, serving
from story_tools import write_files

READERS = """\
from ragwright.ingest import ArxivReader, WikipediaReader
class Wiki(WikipediaReader):
    def __init__(self):
        super().__init__(base="{base}")
class Arxiv(ArxivReader):
    def __init__(self):
        super().__init__(api="{base}/api", site="{base}")
"""
ARTICLE = """{"query": {"pages": [{"pageid": 1, "title": "Bicycle pump", "pagelanguage": "en",
"extract": "A bicycle pump inflates tyres.", "fullurl": "https://en.wikipedia.org/wiki/Pump"}]}}"""
FEED = """<?xml version="1.0" encoding="UTF-8"?><feed xmlns="http://www.w3.org/2005/Atom"><entry>
<id>http://arxiv.org/abs/2401.01234v1</id><updated>2024-02-01T10:00:00Z</updated>
<published>2024-01-02T09:30:00Z</published><title>Pumps that learn</title>
<summary>We study pumps.</summary><author><name>Ada Martin</name></author></entry></feed>"""
LAMPS = "<html><title>Lamps</title><body><main><p>A lamp needs oil.</p></main></body></html>"


class Quiet(QuietHandler, SimpleHTTPRequestHandler):
    """Serves the files of a folder, whatever the query, and says nothing."""


@contextmanager
def web_sources(folder: Path) -> Iterator[str]:
    """Serve a web page, Wikipedia's API and arXiv's from a folder; the address."""
    paper = pdf_of("We study pumps.", "Our pumps learn from whales.")
    write_files(folder, {"lamps.html": LAMPS, "w/api.php": ARTICLE, "api": FEED})
    write_files(folder, {"pdf/2401.01234v1": paper})
    with serving(partial(Quiet, directory=str(folder))) as port:
        yield f"http://127.0.0.1:{port}"
