"""One file of named arrays, opened by mmap in well under a millisecond.

Layout: ``RWARRAY1``, length of the header (8 bytes, little endian), the header as JSON
(``meta``, a checksum, and name -> [dtype, shape, offset] for each array), then the arrays, each
at a multiple of 64 bytes counted from the end of the header's padding. The checksum covers both
ends of every array: that finds overwritten, moved or missing parts at constant cost, but not a
single changed bit.
"""

from __future__ import annotations

import json
import mmap
import struct
import zlib
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import StoreError, replacing

_MAGIC = b"RWARRAY1"
_ALIGN = 64
_EDGE = 4096

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Arrays:
    """Named arrays and the metadata of the header; read-only if they come from a file."""

    meta: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)
    mapped: mmap.mmap | None = field(default=None, repr=False, compare=False)

    def check(self) -> None:
        """Check that the file is as long as it was.

        Reading beyond its end does not raise: it kills the process.

        Raises:
            StoreError: It was cut off after it had been opened.
        """
        if self.mapped is not None and self.mapped.size() < len(self.mapped):
            raise StoreError("a saved view was cut off while it was open")

    def __getitem__(self, name: str) -> Array:
        """The array of that name."""
        return self.arrays[name]

    @property
    def bytes(self) -> int:
        """Size of all arrays in bytes."""
        return sum(values.nbytes for values in self.arrays.values())


@dataclass(frozen=True, slots=True)
class Blob:
    """Many byte strings as one array of bytes and the offsets between them."""

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    def __getitem__(self, index: int) -> bytes:
        """The byte string at an index."""
        return self.data[self.offsets[index] : self.offsets[index + 1]].tobytes()

    def texts(self, indexes: NDArray[Any]) -> list[str]:
        """The byte strings at some indexes as text, in their order."""
        raw = self.data.data
        starts, ends = self.offsets[indexes].tolist(), self.offsets[indexes + 1].tolist()
        return [
            str(raw[start:end], "utf-8", "surrogatepass")
            for start, end in zip(starts, ends, strict=True)
        ]

    def __len__(self) -> int:
        """The number of byte strings."""
        return len(self.offsets) - 1


class Packer:
    """Collects byte strings, one behind the other, without an object for each."""

    def __init__(self, pieces: Iterable[bytes] = ()) -> None:
        self._data = bytearray()
        self._ends = array("q", (0,))
        for piece in pieces:
            self.add(piece)

    def add(self, piece: bytes) -> None:
        """Append one."""
        self._data += piece
        self._ends.append(len(self._data))

    def packed(self, name: str) -> dict[str, Array]:
        """The byte strings as the two arrays of a :class:`Blob` under ``name``."""
        data = np.frombuffer(self._data, np.uint8)
        return {name: data, f"{name}.offsets": np.frombuffer(self._ends, np.int64)}


def unpack(arrays: Arrays, name: str) -> Blob:
    """The blob that a :class:`Packer` wrote under ``name``."""
    return Blob(arrays[name], arrays[f"{name}.offsets"])


def write_arrays(path: Path, content: Arrays) -> None:
    """Write a file completely or not at all; mode 0600.

    Raises:
        OSError: The file cannot be written.
    """
    entries: dict[str, tuple[str, list[int], int]] = {}
    position = 0
    for name, values in content.arrays.items():
        position = -(-position // _ALIGN) * _ALIGN
        entries[name] = (values.dtype.str, list(values.shape), position)
        position += values.nbytes
    facts = {"meta": content.meta, "arrays": entries, "size": position}
    header = json.dumps({**facts, "check": _edge_checksum(content.arrays)}).encode()
    header += b" " * (-(len(header) + 16) % _ALIGN)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with replacing(path, private=True) as out:
        out.write(_MAGIC + struct.pack("<Q", len(header)) + header)
        written = 0
        for name, values in content.arrays.items():
            out.write(b"\0" * (entries[name][2] - written))
            out.write(np.ascontiguousarray(values).data)
            written = entries[name][2] + values.nbytes


def open_arrays(path: Path) -> Arrays:
    """The arrays of a file, mapped, not read.

    Raises:
        FileNotFoundError: There is no such file.
        StoreError: The file is damaged or of another kind.
    """
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        start = 16 + struct.unpack("<Q", mapped[8:16])[0]
        header = json.loads(mapped[16:start])
        arrays = _map_arrays(mapped, header["arrays"], start)
        whole = mapped[:8] == _MAGIC and len(mapped) == start + header["size"]
        if not whole or header["check"] != _edge_checksum(arrays):
            raise ValueError("cut off or overwritten")
    except (ValueError, TypeError, KeyError, AttributeError, struct.error) as error:
        raise StoreError("a damaged file of arrays", where=str(path), hint="delete it") from error
    return Arrays(header["meta"], arrays, mapped)


def _edge_checksum(arrays: Mapping[str, Array]) -> int:
    """Over the first and the last bytes of each array."""
    checksum = 0
    for values in arrays.values():
        raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        checksum = zlib.crc32(raw[:_EDGE].data, zlib.crc32(raw[-_EDGE:].data, checksum))
    return checksum


def _map_arrays(buffer: mmap.mmap, entries: Any, start: int) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for name, (dtype, shape, offset) in entries.items():
        count = int(np.prod(shape, dtype=np.int64))
        # A zero-length array may be at the end of the file, where nothing is mapped.
        at = start + offset if count else 0
        arrays[name] = np.frombuffer(buffer, dtype, count, at).reshape(shape)
    return arrays
