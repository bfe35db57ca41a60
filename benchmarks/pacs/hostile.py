"""How long C-STORE takes beside hostile peers, at our listener and at a service of pynetdicom.

    python benchmarks/pacs/hostile.py [--associations 200] [--source 127.0.0.2]

Eight senders at a time open associations of three C-STOREs of 2 MB each, alone and beside 100 half
requests, 20 silent connections, garbage, and eight associations of another peer that send byte by
byte; who is closed comes again within a second, from the address ``--source``.  A sender that is
not let in tries again for 20 s, and then counts as locked out.  Then objects a second from four of
DCMTK's storescu: to us, to pynetdicom writing files, and to the same one with an fsync of each.
"""

import argparse
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path

import numpy as np
from pydicom import dcmread
from pynetdicom import AE, AllStoragePresentationContexts, evt
from pynetdicom.presentation import build_context
from receive import plain, send_all

sys.path.insert(0, str(Path(__file__).parents[2]))

from cxrtext.pacs.dimse.server import Listener
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.ports import DicomPort
from tests.pacs.studies import DX, instance, sender
from tests.pacs.test_listen import request

PATIENCE_S, OPEN, STORES = 20.0, 16, 3


def serve(kind: str, folder: Path) -> None:
    """Take objects until it is ended; prints the port."""
    if kind == "ours":
        peers = sender("normal", "NORMAL", "STORESCU"), sender("slow", "SLOW")
        inbox = Inbox(folder, reserve=0).__enter__()
        listener = Listener(inbox, DicomPort(port=0, associations=OPEN), peers, print)
        listener.start()
        print(listener.port, flush=True)
        threading.Event().wait()

    def store(event: evt.Event) -> int:
        (folder / secrets.token_hex(8)).write_bytes(event.encoded_dataset())
        return 0

    ae = AE("CXRTEXT")
    ae.maximum_associations, ae.supported_contexts = OPEN, AllStoragePresentationContexts
    server = ae.start_server(("127.0.0.1", 0), block=False, evt_handlers=[(evt.EVT_C_STORE, store)])
    print(server.server_address[1], flush=True)
    threading.Event().wait()


def disturb(port: int, source: str) -> None:
    """Be every kind of hostile peer until it is ended."""

    def come_again(begin: bytes, then: bytes = b"", every_s: float = 1.0) -> None:
        while True:
            with suppress(OSError):
                line = socket.create_connection(("127.0.0.1", port), 60, (source, 0))
                line.sendall(begin)
                line.settimeout(every_s)
                while True:
                    with suppress(TimeoutError):
                        if not line.recv(2**16):
                            break
                    line.sendall(then)
            time.sleep(1)

    kinds = [(request()[:50],)] * 100 + [(b"",)] * 20 + [(secrets.token_bytes(200),)] * 10
    kinds += [(request("SLOW") + b"\4\0\0\1\0\0", b"\0", 0.02)] * 8
    for kind in kinds:
        threading.Thread(target=come_again, args=kind).start()


@contextmanager
def running(*words: str):
    """This script once more, for another part of it."""
    command = [sys.executable, __file__, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def send(port: int, data: bytes) -> tuple[list[float], list[float]]:
    """Seconds of each C-STORE of an association, and until it was accepted; none if locked out."""
    one, begun, took = dcmread(BytesIO(data)), time.monotonic(), []
    ae = AE("NORMAL")
    ae.requested_contexts = [build_context(DX, "1.2.840.10008.1.2.1")]
    while not (association := ae.associate("127.0.0.1", port, ae_title="CXRTEXT")).is_established:
        if time.monotonic() > begun + PATIENCE_S:
            return [], []
        time.sleep(0.2)
    waited = time.monotonic() - begun
    for _ in range(STORES):
        now = time.monotonic()
        assert association.send_c_store(one).Status == 0
        took.append(time.monotonic() - now)
    association.release()
    return took, [waited]


def measure(kind: str, associations: int, source: str) -> list[float]:
    """p50 and p99 in ms, of C-STORE and of what it takes to be accepted; printed."""
    data, found = instance(1, size=1000), []
    with tempfile.TemporaryDirectory() as folder, running("serve", kind, folder) as service:
        port = int(service.stdout.readline())
        with running(*(("disturb", str(port), source) if source else ("none",))):
            time.sleep(3)
            while len(found) < associations and (not found or any(took for took, _ in found)):
                with ThreadPoolExecutor(8) as pool:
                    more = 8 if not found else associations - 8
                    found += pool.map(send, [port] * more, [data] * more)
    print(f"{kind:5} {'beside hostile peers' if source else 'alone':20}", end=": ")
    took, waited = ([seconds for one in found for seconds in one[i]] for i in (0, 1))
    if not waited:
        print(f"none of {len(found)} associations was accepted within {PATIENCE_S:.0f} s")
        return []
    spans = [float(1e3 * x) for values in (took, waited) for x in np.percentile(values, (50, 99))]
    text = "C-STORE p50 {:.0f}, p99 {:.0f} ms; accepted after p50 {:.0f}, p99 {:.0f} ms"
    print(f"{len(waited)} of {len(found)} associations;", text.format(*spans), flush=True)
    return spans


def rates(count: int) -> None:
    with tempfile.TemporaryDirectory() as objects:
        for number in range(count):
            Path(objects, str(number)).write_bytes(instance(number, size=1000))
        for _ in range(3):
            found = []
            for kind in ("ours", "plain", "plain with fsync"):
                with tempfile.TemporaryDirectory() as out, running("serve", "ours", out) as service:
                    found.append(
                        send_all(Path(objects), int(service.stdout.readline()))
                        if kind == "ours"
                        else plain(Path(objects), Path(out), sync=kind != "plain")
                    )
            print("ours {:.0f}/s, plain {:.0f}/s, plain with fsync {:.0f}/s".format(*found))


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2], Path(sys.argv[3]))
    elif sys.argv[1:2] == ["disturb"]:
        disturb(int(sys.argv[2]), sys.argv[3])
    elif sys.argv[1:2] != ["none"]:
        parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
        parser.add_argument("--associations", type=int, default=200)
        parser.add_argument("--source", default="127.0.0.2", help="address of hostile peers")
        given = parser.parse_args()
        for kind in ("ours", "plain"):
            alone, beside = (measure(kind, given.associations, s) for s in ("", given.source))
            print(" ratios:", *(f"{b / a:.2f}" for a, b in zip(alone, beside, strict=False)))
        rates(400)


if __name__ == "__main__":
    main()
