"""One reader process: takes one request after another from a socket and answers with pixels.

Runs with limits on memory, computing time and files, so that a hostile image ends this process
and nothing else.  Requests and answers are plain lengths, JSON and samples: nothing that the
other side sends is ever unpickled.
"""

import json
import math
import os
import resource
import signal
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from cxrtext.errors import ImageError
from cxrtext.images.isolated_prepare import Preparation, ReadImage, prepare_image
from cxrtext.images.read import ImageMemoryError, read_image, read_image_bytes

REQUEST = struct.Struct("<LQ")
"""Bytes of JSON, bytes of an uploaded file."""

ANSWER = struct.Struct("<BQLLLL")
"""Status, bytes that follow, rows and columns of the pixels, rows and columns of the file."""

READY, FLOATS, BYTES, REFUSED, NO_MEMORY, UNFORESEEN = range(6)

_PARENT_SECONDS = 0.5
_OPEN_FILES = 64


def serve(descriptor: int, parent: int, memory_bytes: int, cpu_seconds: float) -> None:
    """Answer requests until the other side closes the socket.

    Args:
        descriptor: The socket.
        parent: Process that started this one; when it is gone, this one ends.
        memory_bytes: Address space.
        cpu_seconds: Computing time for each file.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    sys.dont_write_bytecode = True  # decoders are imported when a file needs them
    _limit(memory_bytes)
    with socket.socket(fileno=descriptor) as connection:
        connection.sendall(ANSWER.pack(READY, 0, 0, 0, 0, 0))
        while (head := _receive(connection, REQUEST.size)) is not None:
            told, uploaded = REQUEST.unpack(head)
            request = json.loads(_receive(connection, told) or b"{}")
            data = _receive(connection, uploaded)
            _renew_cpu(cpu_seconds)
            header, payload = _answer(request, data)
            connection.sendall(header)
            connection.sendall(payload)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PARENT_SECONDS)
    os._exit(1)


def _limit(memory_bytes: int) -> None:
    """Bound memory; allow no core dump, no file to be written and few to be open."""
    limits = (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
    )
    for kind, wanted in limits:
        _, hard = resource.getrlimit(kind)
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (soft, soft))


def _renew_cpu(seconds: float) -> None:
    """Let the kernel end this process after some more seconds of computing."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    wanted = math.ceil(time.process_time() + seconds)
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def _receive(connection: socket.socket, size: int) -> bytes | None:
    """Read exactly ``size`` bytes; None where the socket was closed."""
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = connection.recv_into(view)
        if count == 0:
            return None
        view = view[count:]
    return bytes(data)


def _answer(request: dict[str, Any], data: bytes | None) -> tuple[bytes, bytes | memoryview]:
    try:
        read = _read(request, data or b"")
    except ImageMemoryError as error:
        return _in_words(NO_MEMORY, str(error))
    except ImageError as error:
        return _in_words(REFUSED, str(error))
    except MemoryError:
        return _in_words(NO_MEMORY, "")
    except Exception as error:  # noqa: BLE001 - told to the parent by its kind
        return _in_words(UNFORESEEN, type(error).__name__)
    pixels = np.ascontiguousarray(read.pixels)
    status = FLOATS if pixels.dtype == np.float32 else BYTES
    header = ANSWER.pack(status, pixels.nbytes, *pixels.shape[1:], read.height, read.width)
    return header, pixels.data.cast("B")


def _in_words(status: int, message: str) -> tuple[bytes, bytes]:
    text = message.encode("utf-8", "replace")
    return ANSWER.pack(status, len(text), 0, 0, 0, 0), text


def _read(request: dict[str, Any], data: bytes) -> ReadImage:
    window = request["window"]
    options = {
        "frame": request["frame"],
        "window": tuple(window) if isinstance(window, list) else window,
    }
    if request["stored"]:
        image = read_image(Path(request["name"]), **options)
    else:
        image = read_image_bytes(data, request["name"], **options)
    return prepare_image(image, Preparation.from_dict(request["preparation"]))
