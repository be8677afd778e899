"""Notices about jobs, through Apprise: e-mail, chat, webhook.

Secrets come from the environment. They are inserted when a notice is sent and removed from every
reply, so that no history, message or log contains them.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ..core import NoticeError, require
from ._history import NoticeSent

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECONDS = 30.0
_SUBJECT = 200
_OPEN_KINDS = {"form", "forms", "json", "jsons", "mailto", "mailtos", "xml", "xmls"}
"""Kinds of addresses whose host is not secret; for chat services it may be a token."""


@dataclass(frozen=True, slots=True)
class NoticeText:
    """Text of a notice, and whether it reports success (None: neither)."""

    subject: str
    body: str
    good: bool | None = None


def printable(text: str, keep: str = "") -> str:
    """Replace control characters and halves of surrogate pairs by spaces."""
    return "".join(c if c.isprintable() or c in keep else " " for c in text)


def mask_address(address: str) -> str:
    """Return an address for display: variables by name, kinds, hosts of e-mail and web.

    A password in the file (which the settings refuse) would not be shown either.
    """
    address = printable(address)
    if _VARIABLE.fullmatch(address):
        return address
    kind, sign, rest = address.partition("://")
    if not sign:
        return "…"
    if kind.lower() not in _OPEN_KINDS:
        return f"{kind}://…"
    host = rest.split("?")[0].split("/")[0].rpartition("@")[2]
    return f"{kind}://{host}"


def hide_secrets(
    text: str, addresses: Iterable[str], environ: Mapping[str, str], *, pieces: bool = False
) -> str:
    """Replace the values of the variables of addresses in a text by their names.

    ``pieces`` also replaces parts of a value, if a value is a whole address.
    """
    names = {name for address in addresses for name in _VARIABLE.findall(address)}
    values = {(environ.get(name, ""), name) for name in names}
    if pieces:
        values |= {(part, name) for v, name in values for part in re.split(r"[:/@?&=]+", v)}
    for value, name in sorted(values, key=lambda pair: (-len(pair[0]), pair)):
        if len(value) >= _SHORTEST:
            # each character as it is, or as %XX
            spelt = "".join(f"(?:{re.escape(c)}|{re.escape(quote(c, safe=''))})" for c in value)
            text = re.sub(spelt, f"${{{name}}}", text, flags=re.IGNORECASE)
    return text


_SHORTEST = 4
"""Shorter values would match inside ordinary words."""


class Notices:
    """Sends notices and checks addresses.

    Args:
        environ: Source of variables; the environment if None.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ

    def clean(self, text: str, addresses: Iterable[str]) -> str:
        """Remove the values of the variables of addresses from a text."""
        return hide_secrets(text, addresses, self._environ)

    def unset(self, address: str) -> str:
        """Return the first variable of an address that is not set; empty if all are."""
        return next((n for n in _VARIABLE.findall(address) if not self._environ.get(n)), "")

    def send(self, address: str, text: NoticeText) -> NoticeSent:
        """Send one notice; errors are returned in the result, not raised."""
        shown = mask_address(address)
        try:
            service = self._service(address)
            # a line break in a subject would start another header
            subject, body = printable(text.subject)[:_SUBJECT], printable(text.body, keep="\n")
            reason = _sent(service, NoticeText(subject, body, text.good))
        except NoticeError as error:
            reason = error.what
        except Exception as error:  # a fault of a plug-in must not affect the job
            reason = f"{type(error).__name__}: {error}"
        reason = printable(hide_secrets(reason, [address], self._environ, pieces=True))
        return NoticeSent(shown, not reason, reason)

    def problem(self, address: str) -> str:
        """Return the fault of an address, without sending anything; empty if there is none.

        Raises:
            MissingExtraError: Apprise is not installed.
        """
        _apprise()
        try:
            self._service(address)
        except NoticeError as error:
            return error.what
        return ""

    def _service(self, address: str) -> Any:
        """Create the Apprise service of an address.

        Raises:
            NoticeError: A variable is not set, or Apprise does not know the address.
        """
        apprise = _apprise()
        filled = self._filled(address)
        asset = apprise.AppriseAsset(
            app_id="ragwright",
            app_desc="ragwright",
            app_url="",
            # no remote images, nothing stored on disk, no keys made
            image_url_mask="",
            image_url_logo="",
            storage_mode=apprise.common.PersistentStoreMode.MEMORY.value,
            pgp_autogen=False,
            pem_autogen=False,
            async_mode=False,
            service_timeout=_SECONDS,
        )
        try:
            service = apprise.Apprise.instantiate(filled, asset=asset)
        except Exception as error:
            raise NoticeError(
                f"Apprise cannot use this address: {type(error).__name__}",
                where=mask_address(address),
            ) from error
        if service is None:
            raise NoticeError(
                "Apprise does not know this address",
                where=mask_address(address),
                hint="see its list of services; write for example mailto://, json:// or slack://",
            )
        return service

    def _filled(self, address: str) -> str:
        missing = self.unset(address)
        if missing:
            raise NoticeError(
                f"the environment variable {missing} is not set",
                where=mask_address(address),
                hint=f"export {missing}=…",
            )
        _SCRUBBER.filled.update({n: self._environ[n] for n in _VARIABLE.findall(address)})
        whole = _VARIABLE.fullmatch(address)
        if whole:
            return self._environ[whole[1]]
        # quoted, so that a password may contain @ or /
        return _VARIABLE.sub(lambda match: quote(self._environ[match[1]], safe=""), address)


_LOADING = threading.Lock()


class _Scrubber(logging.Filter):
    """Removes secrets of addresses from log records of libraries, for all handlers."""

    def __init__(self) -> None:
        super().__init__()
        self.filled: dict[str, str] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite a record; it is always passed on."""
        names = [f"${{{name}}}" for name in tuple(self.filled)]
        record.msg = hide_secrets(record.getMessage(), names, self.filled, pieces=True)
        record.args = None
        return True


_SCRUBBER = _Scrubber()
_LOGGERS = ("apprise", "urllib3.connection", "urllib3.connectionpool", "urllib3.util.retry")
"""Loggers that write whole addresses; a filter only works on its own logger."""


def _apprise() -> Any:
    """Load the library with its services; it prints nothing."""
    with _LOADING, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its e-mail service imports a module that Python removed
        apprise = require("apprise", "jobs", "a notice")
        _ = "json" in apprise.apprise.N_MGR
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_SCRUBBER)
    logger = logging.getLogger("apprise")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return apprise


def _sent(service: Any, text: NoticeText) -> str:
    """Send through a service; returns the reason of a failure, else empty."""
    apprise = _apprise()
    kinds = apprise.NotifyType
    kind = {True: kinds.SUCCESS, False: kinds.FAILURE, None: kinds.INFO}[text.good]
    sender = apprise.Apprise(asset=service.asset)
    sender.add(service)
    result = sender.notify(
        title=text.subject, body=text.body, notify_type=kind, body_format=apprise.NotifyFormat.TEXT
    )
    if result:
        return ""
    messages = [entry.message for entry in result.logs() if entry.level in ("WARNING", "ERROR")]
    return "; ".join(dict.fromkeys(messages)) or f"it was not sent ({result.status.name.lower()})"
