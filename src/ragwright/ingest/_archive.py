"""Opens the zip files of office and book formats, protected against zip bombs."""

from __future__ import annotations

import io
import zipfile
import zlib
from xml.etree import ElementTree
from xml.parsers import expat

from ..core import EncryptedSourceError, MalformedSourceError
from ._options import SourceOptions

_RATIO_FLOOR = 20_000_000


class Archive:
    """A zip file whose declared size has been checked; members are read by name.

    A member that unpacks to more than it declares is cut off by ``zipfile`` and fails its
    checksum, so the check of the declared sizes bounds what can be read.

    Raises:
        EncryptedSourceError: Members are locked by a password.
        MalformedSourceError: Truncated, damaged, or larger than the options allow.
    """

    def __init__(self, data: bytes, where: str, options: SourceOptions) -> None:
        self.where = where
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            raise MalformedSourceError(
                f"the archive is truncated or damaged: {error}",
                where=where,
                hint="copy or download the file again",
            ) from error
        members = self._zip.infolist()
        if any(m.flag_bits & 1 for m in members):
            raise EncryptedSourceError(
                "the archive is protected by a password",
                where=where,
                hint="save a copy without the password",
            )
        unpacked = sum(m.file_size for m in members)
        too_dense = unpacked > _RATIO_FLOOR and unpacked > options.max_ratio * max(len(data), 1)
        if unpacked > options.max_unpacked_bytes or too_dense:
            raise MalformedSourceError(
                f"the archive would unpack from {len(data):,} to {unpacked:,} bytes (a zip bomb?)",
                where=where,
                hint="if the file is to be trusted, raise `max_unpacked_bytes` or `max_ratio`",
            )
        self.names = tuple(m.filename for m in members)

    def __contains__(self, name: str) -> bool:
        """True if the archive holds a member with this name."""
        return name in self.names

    def read(self, name: str) -> bytes:
        """Read the bytes of one member.

        Raises:
            MalformedSourceError: No such member, or it is damaged.
        """
        try:
            return self._zip.read(name)
        except KeyError as error:
            raise MalformedSourceError(
                f"the archive contains no {name!r}",
                where=self.where,
                hint="the file is incomplete; save it again",
            ) from error
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
            raise MalformedSourceError(
                f"{name!r} in the archive is damaged: {error}",
                where=self.where,
                hint="copy or download the file again",
            ) from error


def check_xml(data: bytes, where: str) -> bytes:
    """Check that bytes are XML without entity declarations, and return them.

    Raises:
        MalformedSourceError: Not well formed, or declares entities (a bomb, or a way to
            other files); no document format needs them.
    """

    def refuse(*_: object) -> None:
        raise MalformedSourceError(
            "the XML declares entities",
            where=where,
            hint="no document needs them; the file may be hostile",
        )

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise MalformedSourceError(
            f"the XML is damaged: {error}", where=where, hint="save the file again"
        ) from error
    return data


def parse_xml(data: bytes, where: str) -> ElementTree.Element:
    """Parse an XML document to its root; raises as :func:`check_xml`."""
    return ElementTree.fromstring(check_xml(data, where))  # noqa: S314 - entities refused
