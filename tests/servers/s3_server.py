"""A local S3 server whose answers can be broken: for tests of object stores."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

NAME, KEY, SECRET = "bucket", "test-key", "test-secret"

Fault = Callable[[str, str], str]
"""Method and path of a request -> ``""``, ``503``, ``403``, ``lost`` or ``slow``."""

_REFUSED = (
    '<?xml version="1.0"?><Error><Code>{}</Code><Message>{}</Message>'
    "<RequestId>1</RequestId></Error>"
)


def _none(method: str, path: str) -> str:
    return ""


@dataclass
class Bucket:
    """The server: its address, what it was asked, bytes it sent, and the fault in force."""

    address: str = ""
    client: Any = None
    requests: list[tuple[str, str]] = field(default_factory=list)
    sent: int = 0
    fault: Fault = _none

    def files(self) -> Iterator[bytes]:
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=NAME):
            for one in page.get("Contents", ()):
                yield self.client.get_object(Bucket=NAME, Key=one["Key"])["Body"].read()

    @contextmanager
    def broken(self, fault: Fault) -> Iterator[None]:
        self.fault = fault
        try:
            yield
        finally:
            self.fault = _none


class _Faulty:
    """A WSGI application in front of another; answers as the fault says."""

    def __init__(self, inner: Any, bucket: Bucket) -> None:
        self._inner = inner
        self._bucket = bucket

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        self._bucket.requests.append((method, path))
        fault = self._bucket.fault(method, path)
        if fault in ("503", "403"):
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            code, text = ("SlowDown", "Reduce your request rate")
            if fault == "403":
                code, text = ("InvalidAccessKeyId", f"no key {environ.get('HTTP_AUTHORIZATION')}")
            body = _REFUSED.format(code, text).encode()
            start(
                f"{fault} X",
                [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))],
            )
            return [body]
        if fault == "lost":
            environ["werkzeug.socket"].close()
            return []
        if fault == "slow":
            time.sleep(0.3)
        body = self._inner(environ, start)
        return self._counted(body)

    def _counted(self, body: Iterable[bytes]) -> Iterator[bytes]:
        for piece in body:
            self._bucket.sent += len(piece)
            yield piece


@contextmanager
def serving() -> Iterator[Bucket]:
    """A server with one empty bucket, ``bucket``; needs moto and boto3."""
    # By name: none of them has types, and only these tests need them.
    boto3: Any = import_module("boto3")
    moto: Any = import_module("moto.server")
    werkzeug: Any = import_module("werkzeug.serving")
    quiet = type("Quiet", (werkzeug.WSGIRequestHandler,), {"log": lambda *_: None})
    bucket = Bucket()
    app = _Faulty(moto.DomainDispatcherApplication(moto.create_backend_app), bucket)
    server: Any = werkzeug.make_server("127.0.0.1", 0, app, threaded=True, request_handler=quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    bucket.address = f"http://127.0.0.1:{server.server_port}"
    bucket.client = boto3.client(
        "s3",
        endpoint_url=bucket.address,
        region_name="us-east-1",
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
    )
    bucket.client.create_bucket(Bucket=NAME)
    try:
        yield bucket
    finally:
        bucket.client.close()
        server.shutdown()
        server.server_close()
        thread.join(10)
        import_module("moto.backends").get_backend("s3").reset()
